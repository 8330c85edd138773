-- The feed, by the tenant that every row names. A reader stops before the oldest transaction that
-- is under way: what that one commits stands before everything that began later.

-- name: read_feed(tenant, after, limit)
-- Commits of a tenant after a position; `lateral`, so that each session is found by its number;
-- the other order of texts keeps the planner from going through all sessions of the tenant.
select t.pos, s.id, t.revision, t.id, t.kind, t.count, t.created_us
from turns t cross join lateral (
  select m.id from sessions m
  where m.number = t.number and m.tenant = t.tenant collate "POSIX" and m.purged = 0 limit 1
) s
where t.tenant = :tenant and t.pos > :after and t.pos < (select ledger_horizon())
order by t.pos limit :limit

-- name: feed_end(tenant)
-- The position of the newest commit that a reader of this tenant may see.
select max(t.pos) from turns t
where t.tenant = :tenant and t.pos < (select ledger_horizon())

-- name: read_session_feed(tenant, session, after, limit)
-- Commits of one session after a revision; `lateral`, or all of them would be sorted.
select t.pos, s.id, t.revision, t.id, t.kind, t.count, t.created_us
from sessions s cross join lateral (
  select m.* from turns m
  where m.number = s.number and m.tenant = s.tenant and m.revision > :after
  order by m.revision limit :limit
) t
where s.tenant = :tenant and s.id = :session and s.purged = 0
order by t.revision
