-- Runs: their records, and which stretch of a session each wrote.

-- name: find_runs(tenant, id)
-- Every session of the tenant that knows this run, and the record that outlived its session.
select r.key, r.first_ord, r.last_ord, r.body
from runs r join sessions s on s.number = r.key >> 32
where r.id = :id and s.tenant = :tenant and s.purged = 0
union all
select 0, 0, 0, body from kept_runs where tenant = :tenant and id = :id

-- name: place_run(number, id)
-- A session's own row of a run.
select key, first_ord, last_ord from runs where id = :id and key >> 32 = :number

-- name: save_run(key, id, first_ord, last_ord, body, seal)
-- What the run wrote of the session by now, and its record when there is a newer one.
insert into runs (key, id, first_ord, last_ord, body, seal)
values (:key, :id, :first_ord, :last_ord, :body, :seal)
on conflict (key) do update set first_ord = excluded.first_ord, last_ord = excluded.last_ord,
  body = coalesce(excluded.body, body), seal = coalesce(excluded.seal, seal)

-- name: run_names(first, last)
-- Run ids by their number in the session.
select key & 4294967295, id from runs where key between :first and :last

-- name: keep_runs(tenant, first, last)
-- Records that outlive their session.
insert into kept_runs (tenant, id, body)
select :tenant, id, body from runs where key between :first and :last and body is not null
on conflict (tenant, id) do update set body = excluded.body

-- name: point_runs(number, updated_us, active_run, open_run, latest_run, runs)
-- A session's pointers at its runs.
update heads set updated_us = :updated_us, touched_us = :updated_us, active_run = :active_run,
  open_run = :open_run, latest_run = :latest_run, runs = :runs
where number = :number
