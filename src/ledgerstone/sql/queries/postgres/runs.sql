-- Runs. Without unary plus, which only SQLite's planner understands.

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
