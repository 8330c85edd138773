-- Traces and reports. Row 0 of a list says that there is one; its body remembers the last append
-- that may be repeated.

-- name: evidence_mark(tenant, session, kind)
-- The row that says there is a list.
select created_us, body from evidence
where tenant = :tenant and session = :session and kind = :kind and n = 0

-- name: last_evidence(tenant, session, kind)
-- The place of the last document; null when there is no list.
select max(n) from evidence where tenant = :tenant and session = :session and kind = :kind

-- name: insert_evidence(tenant, session, kind, n, created_us, body)
-- A document, or the mark of a list.
insert into evidence (tenant, session, kind, n, created_us, body)
values (:tenant, :session, :kind, :n, :created_us, :body)

-- name: move_evidence_mark(tenant, session, kind, body)
-- What the last append was.
update evidence set body = :body
where tenant = :tenant and session = :session and kind = :kind and n = 0

-- name: drop_evidence(tenant, session, kind, first)
-- Documents from this place on.
delete from evidence
where tenant = :tenant and session = :session and kind = :kind and n >= :first

-- name: read_evidence(tenant, session, kind, after, limit)
-- Documents in order.
select n, created_us, body from evidence
where tenant = :tenant and session = :session and kind = :kind and n > :after and n > 0
order by n
limit :limit -- if limit
