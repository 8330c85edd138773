-- When a worker may take a session: one row per session and queue that has work.

-- name: raise_ready(number, queue, tenant, priority, due_us)
-- There is more to do: never later, never less urgent than before. Nothing is written when the
-- session stands in the line already, and well enough.
insert into ready (number, queue, tenant, priority, due_us)
values (:number, :queue, :tenant, :priority, :due_us)
on conflict (number, queue) do update set
  priority = case when excluded.priority < ready.priority then excluded.priority
    else ready.priority end,
  due_us = case when excluded.due_us < ready.due_us then excluded.due_us else ready.due_us end
where excluded.priority < ready.priority or excluded.due_us < ready.due_us

-- name: move_ready(number, queue, due_us)
-- The session is held until then.
update ready set due_us = :due_us
where number = :number and queue = :queue and due_us <> :due_us

-- name: drop_ready(number, queue)
-- Nothing is left to do.
delete from ready where number = :number and queue = :queue

-- name: queues_of(number)
-- The queues in which a session has work.
select queue from ready where number = :number order by queue

-- name: look_at_queues(number, claim, now_us)
-- The same; whether work became available there since it was last looked at; whether the claim has
-- batches in the session.
select queue,
  (select 1 from work
    where number = r.number and queue = r.queue and later = 1 and available_us <= :now_us
    limit 1) is not null,
  (select 1 from work where number = r.number and unlikely(claim = :claim) limit 1) is not null
from ready r where number = :number order by queue

-- name: queues_in_work(number)
-- From the work itself: rows of `ready` go when a worker finds the session deleted.
select distinct queue from work where number = :number order by queue

-- name: drop_empty(number, queue)
-- A queue without work leaves the line; queue null: each of the session's.
delete from ready
where number = :number and (cast(:queue as text) is null or queue = :queue)
  and not exists (select 1 from work w where w.number = ready.number and w.queue = ready.queue)

-- name: settle_ready(number, queue, floor_us)
-- What is left to do in a queue that has work, and from when on; never before `floor_us`. Nothing is
-- written when that is what the line says. Batches that can be had now are never walked. What waits for
-- a decision, and what stands behind it, is due at the end of the calendar.
update ready set priority = s.priority, due_us = s.due_us
from (
  select r.queue as name,
    (select min(best) from (
      select min(priority) as best from work
        where number = r.number and queue = r.queue and later = 0
      union all
      select min(priority) from work
        where number = r.number and queue = r.queue and later = 1) as priorities) as priority,
    case when exists (select 1 from work w where number = r.number and queue = r.queue
      and later = 0 and available_us <= :floor_us and not coalesce((
        select (p.priority, p.seq) < (w.priority, w.seq) from work p
        where p.number = w.number and p.claim_fence = 9223372036854775807
        order by p.priority, p.seq limit 1), false)) then :floor_us
    else (select case when min(first_us) > :floor_us then min(first_us) else :floor_us end from (
      select min(available_us) as first_us from work w
        where number = r.number and queue = r.queue and later = 0 and not coalesce((
        select (p.priority, p.seq) < (w.priority, w.seq) from work p
        where p.number = w.number and p.claim_fence = 9223372036854775807
        order by p.priority, p.seq limit 1), false)
      union all
      select * from (select available_us from work w
        where number = r.number and queue = r.queue and later = 1 and not coalesce((
        select (p.priority, p.seq) < (w.priority, w.seq) from work p
        where p.number = w.number and p.claim_fence = 9223372036854775807
        order by p.priority, p.seq limit 1), false)
        order by available_us limit 1) as soonest
      union all
      select 253402300799999999) as starts) end as due_us
  from ready r where r.number = :number and (cast(:queue as text) is null or r.queue = :queue)
) as s
where ready.number = :number and ready.queue = s.name
  and (ready.priority <> s.priority or ready.due_us <> s.due_us)

-- name: drop_empty_of(tenant, session)
-- The same for a whole tenant, or one session of it.
delete from ready
where tenant = :tenant
  and not exists (select 1 from work w where w.number = ready.number and w.queue = ready.queue)
  and (cast(:session as text) is null
    or number = (select number from sessions
      where tenant = :tenant and id = :session and purged = 0))

-- name: settle_ready_of(tenant, session, floor_us)
-- Where no session is held any more: due from the first batch on, never before `floor_us`.
update ready set priority = s.priority, due_us = s.due_us
from (
  select w.number, w.queue, min(w.priority) as priority,
    case when min(w.available_us) > :floor_us then min(w.available_us) else :floor_us end as due_us
  from ready r join work w on w.number = r.number and w.queue = r.queue
  where r.tenant = :tenant
    and (cast(:session as text) is null
      or r.number = (select number from sessions
        where tenant = :tenant and id = :session and purged = 0))
  group by w.number, w.queue
) as s
where ready.number = s.number and ready.queue = s.queue

-- name: next_ready(tenant, queue, now_us)
-- The session that is due: of the most urgent priority that has one, the one due for longest.
-- One seek per priority: rows that are not due are never walked. A row of `line` is a priority to
-- look at, and what was found at the one before it.
with recursive line (priority, number, due_us) as (
  select (select min(priority) from ready where tenant = :tenant and queue = :queue),
    cast(null as bigint), cast(null as bigint)
  union all
  select
    (select min(priority) from ready
      where tenant = :tenant and queue = :queue and priority > line.priority),
    (select number from ready
      where tenant = :tenant and queue = :queue and priority = line.priority
        and due_us <= :now_us
      order by due_us, number limit 1),
    (select min(due_us) from ready
      where tenant = :tenant and queue = :queue and priority = line.priority)
  from line
  where line.priority is not null and line.number is null
)
select number, due_us from line where number is not null

-- name: ready_priorities(tenant, queue)
-- The priorities that a queue has now, one seek each.
with recursive line (priority) as (
  select min(priority) from ready where tenant = :tenant and queue = :queue
  union all
  select (select min(priority) from ready
    where tenant = :tenant and queue = :queue and priority > line.priority)
  from line where line.priority is not null
)
select priority from line where priority is not null

-- name: ready_line(tenant, queue, priority, due_us, number, limit)
-- Sessions of one priority in the order they are due, after the given one, with their leases.
select r.number, r.due_us, h.owner, h.expires_us, s.deleted_us
from ready r join heads h on h.number = r.number join sessions s on s.number = r.number
where r.tenant = :tenant and r.queue = :queue and r.priority = :priority
  and (r.due_us, r.number) > (:due_us, :number)
order by r.due_us, r.number limit :limit

-- name: session_at(number)
-- A session by its number, with its head.
select s.id, h.number, s.incarnation, s.deleted_us,
  h.revision, h.ord, h.leaf, h.tip, h.tip_seq, h.messages, h.users, h.first_user, h.live,
  h.branched, h.named, h.amended, h.fence, h.owner, h.token, h.claimed_us, h.expires_us,
  h.updated_us, h.link, h.active_run, h.open_run, h.latest_run, h.ledger, h.checkpoint,
  h.runs, h.enqueued
from sessions s join heads h on h.number = s.number
where s.number = :number and s.purged = 0
