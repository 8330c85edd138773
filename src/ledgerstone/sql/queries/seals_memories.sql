-- Memories and embeddings with their seals, for verify: in chunks, since there may be many.

-- name: sealed_memories(tenant, namespace, key, limit)
-- Memories after one.
select tenant, namespace, key, value, ttl_us, created_us, updated_us, expires_us, seal
from memories
where tenant = :tenant and (namespace, key) > (:namespace, :key)
order by namespace, key limit :limit

-- name: sealed_embeddings(tenant, kind, id, limit)
-- Vectors after one.
select tenant, kind, id, model, change, session, namespace, metadata, created_us, vector, seal
from embeddings
where tenant = :tenant and (kind, id) > (:kind, :id)
order by kind, id limit :limit

-- name: loose_memory_tenants(tenant)
-- The other tenants that have memories or vectors.
select tenant from memories where tenant <> :tenant
union
select tenant from embeddings where tenant <> :tenant
