-- The feed: commits in the order they happened.

-- name: read_feed(tenant, after, limit)
-- Commits of a tenant after a position; `cross join` says that the positions lead.
select t.pos, s.id, t.revision, t.id, t.kind, t.count, t.created_us
from turns t cross join sessions s
where t.pos > :after and s.number = t.number and s.tenant = :tenant and s.purged = 0
order by t.pos limit :limit

-- name: read_session_feed(tenant, session, after, limit)
-- Commits of one session after a revision.
select t.pos, s.id, t.revision, t.id, t.kind, t.count, t.created_us
from sessions s join turns t on t.number = s.number
where s.tenant = :tenant and s.id = :session and s.purged = 0 and t.revision > :after
order by t.revision limit :limit

-- name: feed_end(tenant)
-- The position of the newest commit of the file, whoever asks.
select (select max(pos) from turns) where :tenant is not null

-- name: cursor_key()
-- The halves of the key that signs cursors.
select value from store where name in ('cursor.key.1', 'cursor.key.2') order by name
