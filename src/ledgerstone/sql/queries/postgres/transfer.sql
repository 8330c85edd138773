-- Moving a store.

-- name: import_places(tenant, ids)
-- Those of the named sessions that are there; JSON is another function here.
select s.id, s.number, h.runs, s.incarnation, h.revision, h.fence, h.link
from sessions s join heads h on h.number = s.number
where s.tenant = :tenant and s.purged = 0
  and s.id in (select jsonb_array_elements_text(cast(cast(:ids as text) as jsonb)))

-- name: export_turns(tenant, after, limit, sizes, rows)
-- Commits of a tenant in the order of the feed: by the tenant's own stretch of the index.
select coalesce(length(t.usage), 0) + coalesce(length(t.effects), 0) -- if sizes
select t.pos, s.id, t.revision, t.id, t.kind, t.hash, t.link, t.created_us, t.leaf, -- if rows
  t.first_ord, t.count, t.usage, t.effects, t.usage_digest -- if rows
from turns t join sessions s on s.number = t.number
where t.tenant = :tenant and t.pos > :after and s.tenant = :tenant and s.purged = 0
order by t.pos limit :limit
