-- Runs. Without `not indexed` and unary plus, which only SQLite's planner understands.

-- name: list_runs(tenant, anywhere, session, status, unfinished, parent_run, created_us, id, limit, offset)
-- A stretch in the order of creation; created_us and id are the key of the last row before it.
select r.created_us, r.id, r.body from runs r -- if anywhere
select r.created_us, r.id, r.body from runs r -- if session
join sessions s on s.number = r.key >> 32
where r.tenant = :tenant and s.purged = 0
  and s.tenant = :tenant and s.id = :session -- if session
  and r.key between s.number << 32 and (s.number << 32) + 4294967295 -- if session
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
select count(*) from runs r -- if anywhere
select count(*) from runs r -- if session
join sessions s on s.number = r.key >> 32
where r.tenant = :tenant and s.purged = 0
  and s.tenant = :tenant and s.id = :session -- if session
  and r.key between s.number << 32 and (s.number << 32) + 4294967295 -- if session
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
with recursive family (id) as (
  select cast(:id as text) collate "C"
  union
  select c.id from family f cross join lateral (
    select r.id from runs r join sessions s on s.number = r.key >> 32 and s.purged = 0
    where r.tenant = :tenant and r.parent_run = f.id
    union all
    select k.id from kept_runs k where k.tenant = :tenant and k.parent_run = f.id
  ) c
)
select r.id, r.body
from family f join runs r on r.id = f.id and r.tenant = :tenant
  join sessions s on s.number = r.key >> 32 and s.purged = 0
union all
select k.id, k.body
from family f join kept_runs k on k.tenant = :tenant and k.id = f.id
