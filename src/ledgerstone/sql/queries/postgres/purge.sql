-- Sweeping. No place in the feed is given out again, so that of the newest commit needs no keeping;
-- only how far it went is remembered, for a dump that is restored where transactions count from 1.

-- name: mark_purged(number)
-- Invisible from now on. The head becomes another one, so that no plan is right any more.
with head as (update heads set touched_us = touched_us where number = :number)
update sessions set purged = 1 where number = :number

-- name: sweep_turns(number, limit)
-- Some turns.
delete from turns where (select ledger_mark_swept()) and (tenant, pos) in (
  select tenant, pos from turns where number = :number limit :limit)

-- name: raise_stubs(tenant, jump)
-- Lift the fences of all. The feed skips what may have been given out in the history that is lost.
update stubs set fence = fence + :jump where tenant = :tenant and (select ledger_skip_places())

-- name: sweep_blank_turns()
-- There are none.
delete from turns where false

-- name: blank_turn(number)
-- The last of them, when there was room for no more.
delete from turns where number = :number
