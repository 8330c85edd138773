-- Why work does not move.

-- name: waiting_tickets(number)
-- The open tickets of a session, oldest first.
select id, created_us, expires_us from tickets
where number = :number and status = 'open' order by created_us, id

-- name: waiting_executions(number)
-- The executions of a session that have no outcome, oldest first.
select id, created_us from executions
where number = :number and status = 'started' order by created_us, id

-- name: waiting_dead(number)
-- The dead letters of a session, oldest first.
select id, ended_us, null, reason from ended_work
where number = :number and state = 'dead' order by ended_us, id

-- name: sessions_in_line(tenant, limit)
-- Sessions with work, those due for longest first; the end of a lease counts.
select r.number from ready r join heads h on h.number = r.number
  join sessions s on s.number = r.number
where r.tenant = :tenant and s.deleted_us is null
group by r.number
order by min(case when h.owner is not null and h.expires_us > r.due_us then h.expires_us
  else r.due_us end), r.number
limit :limit

-- name: sessions_with_dead(tenant, limit)
-- Sessions with dead letters, the oldest first.
select d.number from ended_work d join sessions s on s.number = d.number
where d.tenant = :tenant and d.state = 'dead' and s.deleted_us is null
group by d.number order by min(d.ended_us), d.number limit :limit
