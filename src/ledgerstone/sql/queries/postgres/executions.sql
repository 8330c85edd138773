-- Executions and what a dead worker left; how keys are found is told in nodes.sql.

-- name: lost_runs(tenant, now, limit)
-- The oldest running run of each session that nobody holds.
select s.id, r.id
from runs r cross join lateral (
  select x.id, x.number from sessions x
  where x.number = r.key >> 32 and x.purged = 0 and x.deleted_us is null offset 0
) s join heads h on h.number = s.number
where r.tenant = :tenant and r.status = 'running' and r.status <> 'done' and r.body is not null
  and (h.owner is null or h.expires_us <= :now)
  and not exists (
    select 1 from runs o
    where o.key between (r.key >> 32) << 32 and ((r.key >> 32) << 32) + 4294967295
      and o.status = 'running' and (o.created_us, o.id) < (r.created_us, r.id)
    offset 0)
order by r.created_us, r.id limit :limit
