-- After a restore: fences of all sessions at once (engines/postgres/overrides.py). Each says how many rows
-- it changed by as many answers.

-- name: make_floor(tenant, id, link)
-- Where the fences of new sessions begin, if nobody said so yet.
insert into stubs (tenant, id, incarnation, fence, link, retired)
values (:tenant, :id, 0, 0, :link, 0) on conflict (tenant, id) do nothing returning 1

-- name: raise_stubs(tenant, jump)
-- Lift the fences of sessions that are gone or to come.
update stubs set fence = fence + :jump where tenant = :tenant returning 1

-- name: skip_places()
-- The feed skips what may have been given out in the history that is lost.
select ledger_skip_places()

-- name: raise_fences(tenant, jump, session)
-- End leases and lift fences of all sessions, or of one; they are locked by number, as every command
-- does it.
with held as materialized (
  select h.number from heads h join sessions s on s.number = h.number and s.tenant = :tenant
  where h.tenant = :tenant and (cast(:session as text) is null or s.id = :session)
  order by h.number for no key update of h
)
update heads set fence = fence + :jump, owner = null, token = null, claimed_us = 0, expires_us = 0
where tenant = :tenant and number in (select number from held)
returning number

-- name: drop_empty_of(tenant, session)
-- Queues without work leave the line.
delete from ready
where tenant = :tenant
  and not exists (
    select 1 from work w
    where w.number = ready.number and w.queue = ready.queue
      and w.tenant = :tenant collate "POSIX")
  and (cast(:session as text) is null
    or number = (select s.number from sessions s where s.tenant = :tenant and s.id = :session))
returning 1

-- name: settle_ready_of(tenant, session, floor_us)
-- Where no session is held any more: due from the first batch on, never before `floor_us`.
update ready set priority = s.priority, due_us = s.due_us
from (
  select w.number, w.queue, min(w.priority) as priority,
    case when min(w.available_us) > :floor_us then min(w.available_us) else :floor_us end as due_us
  from ready r
    join work w on w.number = r.number and w.queue = r.queue and w.tenant = :tenant collate "POSIX"
  where r.tenant = :tenant
    and (cast(:session as text) is null
      or r.number = (select s.number from sessions s where s.tenant = :tenant and s.id = :session))
  group by w.number, w.queue
) as s
where ready.number = s.number and ready.queue = s.queue and ready.tenant = :tenant collate "POSIX"
returning 1
