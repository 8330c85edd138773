-- Runs: their records, and which stretch of a session each wrote.

-- name: find_runs(tenant, id)
-- Every session of the tenant that knows this run, and the record that outlived its session.
select r.key, r.first_ord, r.last_ord, r.body
from runs r
where r.id = :id
  and (select s.tenant from sessions s where s.number = r.key >> 32 and s.purged = 0) = :tenant
union all
select 0, 0, 0, body from kept_runs where tenant = :tenant and id = :id

-- name: place_run(number, id)
-- A session's own row of a run.
select key, first_ord, last_ord from runs where id = :id and key >> 32 = :number

-- name: save_run(key, id, first_ord, last_ord, tenant, status, parent_run, created_us, body, seal)
-- A row that is new, or that gets its first record.
insert into runs (key, id, first_ord, last_ord, tenant, status, parent_run, created_us, body, seal)
values (:key, :id, :first_ord, :last_ord, :tenant, :status, :parent_run, :created_us, :body, :seal)
on conflict (key) do update set first_ord = excluded.first_ord, last_ord = excluded.last_ord,
  tenant = excluded.tenant, status = excluded.status, parent_run = excluded.parent_run,
  created_us = excluded.created_us, body = excluded.body, seal = excluded.seal

-- name: change_run(key, first_ord, last_ord, status, parent_run, body, seal)
-- A newer record. What never changes is not named here: its index would be written again.
update runs set first_ord = :first_ord, last_ord = :last_ord, status = :status,
  parent_run = :parent_run, body = :body, seal = :seal
where key = :key

-- name: extend_run(key, first_ord, last_ord)
-- The run wrote more of the session.
update runs set first_ord = :first_ord, last_ord = :last_ord where key = :key

-- name: run_names(first, last)
-- Run ids by their number in the session.
select key & 4294967295, id from runs where key between :first and :last

-- name: list_runs(tenant, anywhere, session, status, unfinished, parent_run, created_us, id, limit, offset)
-- A stretch in the order of creation; created_us and id are the key of the last row before it.
-- `anywhere` when no session is given; the runs of a session are one range of the table, and
-- `|| ''` keeps the planner from looking for them among all of the tenant.
select r.created_us, r.id, r.body from runs r -- if session
select r.created_us, r.id, r.body from runs r -- if anywhere
join sessions s on s.number = r.key >> 32 -- if anywhere
where r.tenant = :tenant and s.purged = 0 -- if anywhere
where r.tenant || '' = :tenant and r.key between -- if session
  (select number << 32 from sessions where tenant = :tenant and id = :session and purged = 0) -- if session
  and (select (number << 32) + 4294967295 from sessions -- if session
    where tenant = :tenant and id = :session and purged = 0) -- if session
  and r.status = :status -- if status
  and r.status <> 'done' -- if unfinished
  and r.parent_run = :parent_run -- if parent_run
  and (r.created_us, r.id) > (:created_us, :id) -- if created_us
union all
select k.created_us, k.id, k.body
from kept_runs k
where k.tenant = :tenant
  and k.session = :session -- if session
  and k.status = :status -- if status
  and k.parent_run = :parent_run -- if parent_run
  and (k.created_us, k.id) > (:created_us, :id) -- if created_us
order by 1, 2
limit :limit offset :offset

-- name: count_runs(tenant, anywhere, session, status, unfinished, parent_run)
-- How many runs fit the filter, of the living and of the kept.
select count(*) from runs r -- if session
select count(*) from runs r -- if anywhere
join sessions s on s.number = r.key >> 32 -- if anywhere
where r.tenant = :tenant and s.purged = 0 -- if anywhere
where r.tenant || '' = :tenant and r.key between -- if session
  (select number << 32 from sessions where tenant = :tenant and id = :session and purged = 0) -- if session
  and (select (number << 32) + 4294967295 from sessions -- if session
    where tenant = :tenant and id = :session and purged = 0) -- if session
  and r.status = :status -- if status
  and r.status <> 'done' -- if unfinished
  and r.parent_run = :parent_run -- if parent_run
union all
select count(*)
from kept_runs k
where k.tenant = :tenant
  and k.session = :session -- if session
  and k.status = :status -- if status
  and k.parent_run = :parent_run -- if parent_run

-- name: run_family(tenant, id)
-- A run, its children, theirs, and so on, each once whatever their parents say.
-- `cross` and `+`: from the family to the runs, and never along all runs of the tenant.
with recursive family (id) as (
  values (:id)
  union
  select r.id
  from family f cross join runs r on r.tenant = :tenant and r.parent_run = f.id
    join sessions s on s.number = r.key >> 32 and s.purged = 0
  union
  select k.id
  from family f cross join kept_runs k on k.tenant = :tenant and k.parent_run = f.id
)
select r.id, r.body
from family f cross join runs r on r.id = f.id and +r.tenant = :tenant
  join sessions s on s.number = r.key >> 32 and s.purged = 0
union all
select k.id, k.body
from family f cross join kept_runs k on k.tenant = :tenant and k.id = f.id

-- name: keep_runs(tenant, session, first, last)
-- Records that outlive their session.
insert into kept_runs (tenant, id, session, status, parent_run, created_us, body)
select :tenant, id, :session, status, parent_run, created_us, body
from runs where key between :first and :last and body is not null
on conflict (tenant, id) do update set session = excluded.session, status = excluded.status,
  parent_run = excluded.parent_run, created_us = excluded.created_us, body = excluded.body

-- name: drop_kept_run(tenant, id)
-- The session that lives now under the same id has the run again.
delete from kept_runs where tenant = :tenant and id = :id

-- name: point_runs(number, updated_us, active_run, open_run, latest_run, runs)
-- A session's pointers at its runs.
update heads set updated_us = :updated_us, touched_us = :updated_us, active_run = :active_run,
  open_run = :open_run, latest_run = :latest_run, runs = :runs
where number = :number
