-- Executions. Each is read with the fence that somebody holds its session under now, if any.

-- name: find_execution(tenant, id, now)
-- An execution and the number of its session.
select e.body, e.number, case when h.owner is not null and h.expires_us > :now then h.fence end
from executions e cross join sessions s cross join heads h
where e.tenant = :tenant and e.id = :id and s.number = e.number and s.purged = 0
  and h.number = e.number

-- name: put_execution(tenant, id, number, call, message, run, ticket, status, fence, created_us, body)
-- An execution as it is now; the place of one that waits for the sweep may be taken.
insert into executions (tenant, id, number, call, message, run, ticket, status, fence, created_us,
  body)
values (:tenant, :id, :number, :call, :message, :run, :ticket, :status, :fence, :created_us,
  :body)
on conflict (tenant, id) do update set number = excluded.number, call = excluded.call,
  message = excluded.message, run = excluded.run, ticket = excluded.ticket,
  status = excluded.status, fence = excluded.fence, created_us = excluded.created_us,
  body = excluded.body

-- name: execution_of_call(number, call)
-- What was made of this call before: it is written once.
select id, body from executions where number = :number and call = :call

-- name: execution_bodies(number)
-- Everything a session called.
select id, body from executions where number = :number

-- name: list_executions(tenant, unresolved, now, limit)
-- Of the tenant, in the order they were made.
select e.id, e.body, case when h.owner is not null and h.expires_us > :now then h.fence end
from executions e cross join sessions s cross join heads h
where e.tenant = :tenant and s.number = e.number and s.purged = 0 and h.number = e.number
  and e.status = 'started' -- if unresolved
order by e.created_us, e.id
limit :limit -- if limit

-- name: list_session_executions(number, message, run, unresolved, now, limit)
-- Of a session.
select e.id, e.body, case when h.owner is not null and h.expires_us > :now then h.fence end
from executions e cross join sessions s cross join heads h
where e.number = :number and s.number = e.number and h.number = e.number
  and e.message = :message -- if message
  and e.run = :run -- if run
  and e.status = 'started' -- if unresolved
order by e.created_us, e.id
limit :limit -- if limit

-- name: list_message_executions(tenant, message, run, unresolved, now, limit)
-- Of a message; by the tenant of the session, since an index by the message is at hand.
select e.id, e.body, case when h.owner is not null and h.expires_us > :now then h.fence end
from executions e cross join sessions s cross join heads h
where e.message = :message and s.number = e.number and s.tenant = :tenant and s.purged = 0
  and h.number = e.number
  and e.run = :run -- if run
  and e.status = 'started' -- if unresolved
order by e.created_us, e.id
limit :limit -- if limit

-- name: list_run_executions(tenant, run, unresolved, now, limit)
-- Of a run, likewise.
select e.id, e.body, case when h.owner is not null and h.expires_us > :now then h.fence end
from executions e cross join sessions s cross join heads h
where e.run = :run and s.number = e.number and s.tenant = :tenant and s.purged = 0
  and h.number = e.number
  and e.status = 'started' -- if unresolved
order by e.created_us, e.id
limit :limit -- if limit

-- name: lost_runs(tenant, now, limit)
-- The oldest running run of each session that nobody holds.
select s.id, r.id
from runs r cross join sessions s cross join heads h
where r.tenant = :tenant and r.status = 'running' and r.status <> 'done' and r.body is not null
  and s.number = r.key >> 32 and s.purged = 0 and s.deleted_us is null
  and h.number = s.number and (h.owner is null or h.expires_us <= :now)
  and not exists (
    select 1 from runs o
    where o.key between (r.key >> 32) << 32 and ((r.key >> 32) << 32) + 4294967295
      and o.status = 'running' and (o.created_us, o.id) < (r.created_us, r.id))
order by r.created_us, r.id limit :limit
