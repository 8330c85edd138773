-- Dead letters: batches that had their attempts.

-- name: put_dead(tenant, id, number, dead_us, reason, body)
-- Bury a batch; one that was replayed and died again takes the place of itself.
insert into dead_work (tenant, id, number, dead_us, reason, body)
values (:tenant, :id, :number, :dead_us, :reason, :body)
on conflict (tenant, id, number) do update set
  dead_us = excluded.dead_us, reason = excluded.reason, body = excluded.body

-- name: find_dead(tenant, id)
-- A dead batch by its id: of the oldest session, should several have one.
select number, id, body, reason, dead_us from dead_work
where tenant = :tenant and id = :id order by number limit 1

-- name: drop_dead(tenant, id, number)
-- Forget a dead batch.
delete from dead_work where tenant = :tenant and id = :id and number = :number

-- name: list_dead(tenant, number, dead_us, id, limit, offset)
-- A stretch of the dead letters, oldest first; dead_us and id are the key of the last one before it.
select id, body, reason, dead_us from dead_work
where tenant = :tenant
  and number = :number -- if number
  and (dead_us, id) > (:dead_us, :id) -- if dead_us
order by dead_us, id, number limit :limit offset :offset

-- name: count_dead(tenant, number)
-- How many there are.
select count(*) from dead_work
where tenant = :tenant
  and number = :number -- if number
