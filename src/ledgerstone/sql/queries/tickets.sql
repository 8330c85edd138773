-- Tickets. Rows of a purged session stay until the sweep comes, and are as good as gone.

-- name: find_ticket(tenant, id)
-- A ticket, the number of its session and whose session that is.
select t.body, t.number, s."user"
from tickets t cross join sessions s
where t.tenant = :tenant and t.id = :id and s.number = t.number and s.purged = 0

-- name: put_ticket(tenant, id, number, run, status, reason, created_us, expires_us, body)
-- A ticket as it is now; the place of one that waits for the sweep may be taken.
insert into tickets (tenant, id, number, run, status, reason, created_us, expires_us, body)
values (:tenant, :id, :number, :run, :status, :reason, :created_us, :expires_us, :body)
on conflict (tenant, id) do update set number = excluded.number, run = excluded.run,
  status = excluded.status, reason = excluded.reason, created_us = excluded.created_us,
  expires_us = excluded.expires_us, body = excluded.body

-- name: first_due(tenant, now)
-- The session of the open ticket that has been over for longest.
select s.id
from tickets t cross join sessions s
where t.tenant = :tenant and t.status = 'open' and t.expires_us is not null
  and t.expires_us <= :now and s.number = t.number and s.purged = 0 and s.deleted_us is null
order by t.expires_us, t.id limit 1

-- name: due_tickets(number, now, limit)
-- Open tickets of a session of which the time is over.
select id, body from tickets
where number = :number and status = 'open' and expires_us <= :now
order by expires_us, id limit :limit

-- name: ticket_bodies(number)
-- Everything a session asked.
select id, body from tickets where number = :number

-- name: list_tickets(tenant, user, status, run, reason, created_before, expires_before, after_us, after_id, limit, offset)
-- Of the tenant, oldest first, without those of deleted sessions.
select t.id, t.body, s."user"
from tickets t cross join sessions s
where t.tenant = :tenant and s.number = t.number and s.purged = 0 and s.deleted_us is null
  and t.status = :status -- if status
  and t.run = :run -- if run
  and t.reason = :reason -- if reason
  and t.created_us < :created_before -- if created_before
  and t.expires_us < :expires_before -- if expires_before
  and (t.created_us, t.id) > (:after_us, :after_id) -- if after_us, after_id
  and s."user" = :user -- if user
order by t.created_us, t.id limit :limit offset :offset

-- name: list_session_tickets(number, user, status, run, reason, created_before, expires_before, after_us, after_id, limit, offset)
-- Of a session, oldest first.
select t.id, t.body, s."user"
from tickets t cross join sessions s
where t.number = :number and s.number = t.number
  and t.status = :status -- if status
  and t.run = :run -- if run
  and t.reason = :reason -- if reason
  and t.created_us < :created_before -- if created_before
  and t.expires_us < :expires_before -- if expires_before
  and (t.created_us, t.id) > (:after_us, :after_id) -- if after_us, after_id
  and s."user" = :user -- if user
order by t.created_us, t.id limit :limit offset :offset

-- name: count_tickets(tenant, user, status, run, reason, created_before, expires_before)
-- How many there are. Every time is greater than that, but only so the index by status is used.
select count(*)
from tickets t cross join sessions s
where t.tenant = :tenant and s.number = t.number and s.purged = 0 and s.deleted_us is null
  and t.status = :status and t.created_us > -9223372036854775807 -- if status
  and t.run = :run -- if run
  and t.reason = :reason -- if reason
  and t.created_us < :created_before -- if created_before
  and t.expires_us < :expires_before -- if expires_before
  and s."user" = :user -- if user

-- name: count_session_tickets(number, user, status, run, reason, created_before, expires_before)
-- How many there are in a session.
select count(*)
from tickets t cross join sessions s
where t.number = :number and s.number = t.number
  and t.status = :status -- if status
  and t.run = :run -- if run
  and t.reason = :reason -- if reason
  and t.created_us < :created_before -- if created_before
  and t.expires_us < :expires_before -- if expires_before
  and s."user" = :user -- if user
