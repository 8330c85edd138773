-- Runs.

-- name: get_run(tenant, id)
-- A run by id.
select number, session, body from runs where tenant = :tenant and id = :id

-- name: put_run(tenant, id, number, session, body)
-- Create or overwrite a run.
insert into runs (tenant, id, number, session, body)
values (:tenant, :id, :number, :session, :body)
on conflict (tenant, id) do update set body = excluded.body

-- name: point_runs(number, updated_us, active_run, open_run, latest_run)
-- A session's pointers at its runs.
update heads set updated_us = :updated_us, active_run = :active_run, open_run = :open_run,
  latest_run = :latest_run
where number = :number
