-- Memories: values by namespace and key. What has ended looks absent, until the sweep.

-- name: get_memory(tenant, namespace, key, now)
-- One that has not ended.
select namespace, key, value, ttl_us, created_us, updated_us, expires_us from memories
where tenant = :tenant and namespace = :namespace and key = :key
  and (expires_us is null or expires_us > :now)

-- name: put_memory(tenant, namespace, key, value, ttl_us, created_us, updated_us, expires_us)
-- Insert or replace all of it.
insert into memories (tenant, namespace, key, value, ttl_us, created_us, updated_us, expires_us)
values (:tenant, :namespace, :key, :value, :ttl_us, :created_us, :updated_us, :expires_us)
on conflict (tenant, namespace, key) do update set value = excluded.value,
  ttl_us = excluded.ttl_us, created_us = excluded.created_us, updated_us = excluded.updated_us,
  expires_us = excluded.expires_us

-- name: touch_memory(tenant, namespace, key, expires_us)
-- Let its time begin anew.
update memories set expires_us = :expires_us
where tenant = :tenant and namespace = :namespace and key = :key

-- name: delete_memory(tenant, namespace, key)
-- Remove one.
delete from memories where tenant = :tenant and namespace = :namespace and key = :key

-- name: ended_memories(tenant, now, limit)
-- Those that have ended, the first to end first.
select namespace, key from memories
where tenant = :tenant and expires_us is not null and expires_us <= :now
order by expires_us, namespace, key limit :limit

-- name: scan_memories(tenant, first, last, after_namespace, after_key, now, limit)
-- By namespace and key, in a range of namespaces, after one of them.
select namespace, key, value, ttl_us, created_us, updated_us, expires_us from memories
where tenant = :tenant and (expires_us is null or expires_us > :now)
  and namespace >= :first -- if first
  and (namespace, key) > (:after_namespace, :after_key) -- if after_namespace, after_key
  and namespace < :last -- if last
order by namespace, key limit :limit

-- name: next_namespace(tenant, first, after, last, now)
-- The first namespace from one on, or behind one, that holds something.
select namespace from memories
where tenant = :tenant and (expires_us is null or expires_us > :now)
  and namespace >= :first -- if first
  and namespace > :after -- if after
  and namespace < :last -- if last
order by namespace limit 1
