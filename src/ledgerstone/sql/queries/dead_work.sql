-- Dead letters: batches that had their attempts.

-- name: put_dead(number, seq, tenant, id, ended_us, reason, body)
-- Bury a batch.
insert into ended_work (number, seq, tenant, id, state, ended_us, reason, body)
values (:number, :seq, :tenant, :id, 'dead', :ended_us, :reason, :body)

-- name: count_dead_work(number, tenant, dead)
-- Count dead letters of a session.
insert into work_sums (number, tenant, epoch, done, cancelled, dead, superseded)
values (:number, :tenant, 0, 0, 0, :dead, 0)
on conflict (number) do update set dead = work_sums.dead + excluded.dead

-- name: find_dead(tenant, id)
-- A dead batch by its id: of the oldest session, should several have one.
select number, id, body, reason, ended_us from ended_work
where tenant = :tenant and id = :id and state = 'dead' order by number limit 1

-- name: drop_dead(tenant, id, number)
-- Forget a dead batch.
delete from ended_work
where tenant = :tenant and id = :id and number = :number and state = 'dead'

-- name: list_dead(tenant, number, dead_us, id, limit, offset)
-- A stretch of the dead letters, oldest first; dead_us and id are the key of the last one before it.
select id, body, reason, ended_us from ended_work
where tenant = :tenant and state = 'dead'
  and number = :number -- if number
  and (ended_us, id) > (:dead_us, :id) -- if dead_us
order by ended_us, id, number limit :limit offset :offset

-- name: count_dead(tenant, number)
-- How many there are.
select count(*) from ended_work
where tenant = :tenant and state = 'dead'
  and number = :number -- if number
