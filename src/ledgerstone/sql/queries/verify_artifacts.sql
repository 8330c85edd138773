-- Artifacts, traces and reports for verify.

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
