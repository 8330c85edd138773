-- The line of sessions, where many may take from it at once.

-- name: next_ready(tenant, queue, now_us)
-- The session that is due, as the shared statement finds it; but one that others hold is passed over,
-- and the one that is found is held from here on. What it says of the line may be old by then.
with recursive line (priority) as (
  select min(r.priority) from ready r where r.tenant = :tenant and r.queue = :queue
  union all
  select (select min(r.priority) from ready r
    where r.tenant = :tenant and r.queue = :queue and r.priority > line.priority)
  from line where line.priority is not null
)
select h.number, r.due_us from line
cross join lateral (
  select r.number, r.due_us from ready r
  where r.tenant = :tenant and r.queue = :queue and r.priority = line.priority
    and r.due_us <= :now_us
  order by r.due_us, r.number limit 256
) r
cross join lateral (
  select h.number from heads h where h.number = r.number and h.tenant = :tenant
  for no key update skip locked
) h
limit 1
