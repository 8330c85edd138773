-- Artifacts, traces and reports for verify; what seals are stands in seals.sql.

-- name: sealed_artifacts(tenant, id, limit)
-- Artifacts after this one, with their seals.
select tenant, id, scope, name, version, place, uri, ref, size_bytes, created_us, body, seal
from artifacts
where tenant = :tenant and id > :id
order by id
limit :limit

-- name: sealed_evidence(tenant, session, kind, n, limit)
-- Traces and reports after this one, with their seals.
select tenant, session, kind, n, created_us, body, seal from evidence
where tenant = :tenant and (session, kind, n) > (:session, :kind, :n)
order by session, kind, n
limit :limit

-- name: lost_bytes(tenant)
-- Artifacts whose blob is not there.
select a.id from artifacts a
where a.tenant = :tenant
  and not exists (select 1 from blobs b where b.tenant = a.tenant and b.ref = a.ref)
order by a.id

-- name: broken_lists(tenant)
-- Lists that lack their first row or one in between.
select session, kind, count(*), max(n) from evidence
where tenant = :tenant
group by session, kind
having count(*) <> max(n) + 1
order by session, kind

-- name: loose_evidence_tenants(tenant)
-- Other tenants that have any of these.
select tenant from artifacts where tenant <> :tenant
union
select tenant from evidence where tenant <> :tenant
