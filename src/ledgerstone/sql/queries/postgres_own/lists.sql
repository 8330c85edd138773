-- The feed, and what changed of a space (engines/postgres/overrides.py, pgvector.py).

-- name: read_feed(tenant, after, limit)
-- Commits of a tenant after a position, up to the oldest transaction that is under way: what that one
-- commits stands before everything that began later. `lateral`, so that each session is found by its
-- number; the other order of texts keeps the planner from going through all sessions of the tenant.
select t.pos, s.id, t.revision, t.id, t.kind, t.count, t.created_us
from turns t cross join lateral (
  select m.id from sessions m
  where m.number = t.number and m.tenant = t.tenant collate "POSIX" limit 1
) s
where t.tenant = :tenant and t.pos > :after and t.pos < (select ledger_horizon())
order by t.pos limit :limit

-- name: feed_end(tenant)
-- The position of the newest commit that a reader of this tenant may see.
select max(t.pos) from turns t
where t.tenant = :tenant and t.pos < (select ledger_horizon())

-- name: changed_vectors(tenant, model, after, limit)
-- Rows of a space that changed after a change, in that order.
select kind, id, model, change, vector, session, namespace, metadata, created_us from embeddings
where tenant = :tenant and model = :model and change > :after
order by change limit :limit
