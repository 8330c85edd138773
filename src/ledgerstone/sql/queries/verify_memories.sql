-- Memories and embeddings for verify.

-- name: loose_memory_tenants(tenant)
-- The other tenants that have memories or vectors.
select tenant from memories where tenant <> :tenant
union
select tenant from embeddings where tenant <> :tenant
