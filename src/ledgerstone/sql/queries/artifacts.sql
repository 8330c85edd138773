-- Artifacts: named versions of blobs. `place` is their order of age within a scope.

-- name: artifact_by_id(tenant, id)
-- One artifact, whoever owns it.
select id, scope, name, version, uri, ref, size_bytes, created_us, body from artifacts
where tenant = :tenant and id = :id

-- name: artifact_by_uri(tenant, uri)
-- One artifact by its address.
select id, scope, name, version, uri, ref, size_bytes, created_us, body from artifacts
where tenant = :tenant and uri = :uri

-- name: artifact_by_name(tenant, scope, name, version)
-- One version of a name, or the greatest.
select id, scope, name, version, uri, ref, size_bytes, created_us, body from artifacts
where tenant = :tenant and scope = :scope and name = :name
  and version = :version -- if version
order by version desc limit 1

-- name: last_version(tenant, scope, name)
-- The greatest version of a name.
select max(version) from artifacts where tenant = :tenant and scope = :scope and name = :name

-- name: last_place(tenant, scope)
-- Where the newest one stands.
select max(place) from artifacts where tenant = :tenant and scope = :scope

-- name: measure_artifacts(tenant, scope)
-- What a quota looks at, oldest first.
select id, place, size_bytes from artifacts
where tenant = :tenant and scope = :scope
order by place

-- name: list_artifacts(tenant, scope, name, newest, after, limit)
-- An owner's artifacts, oldest first, each after its place.
select place, id, scope, name, version, uri, ref, size_bytes, created_us, body from artifacts a
where tenant = :tenant and scope = :scope and place > :after
  and name = :name -- if name
  and not exists (select 1 from artifacts b where b.tenant = a.tenant -- if newest
    and b.scope = a.scope and b.name = a.name and b.version > a.version) -- if newest
order by place
limit :limit -- if limit

-- name: insert_artifact(tenant, id, scope, name, version, place, uri, ref, size_bytes, created_us, body)
-- A new row.
insert into artifacts (
  tenant, id, scope, name, version, place, uri, ref, size_bytes, created_us, body)
values (
  :tenant, :id, :scope, :name, :version, :place, :uri, :ref, :size_bytes, :created_us, :body)

-- name: delete_artifact(tenant, id)
-- Remove one.
delete from artifacts where tenant = :tenant and id = :id

-- name: delete_artifacts(tenant, scope, name, version, id)
-- Remove what fits.
delete from artifacts
where tenant = :tenant
  and scope = :scope -- if scope
  and name = :name -- if name
  and version = :version -- if version
  and id = :id -- if id
returning id
