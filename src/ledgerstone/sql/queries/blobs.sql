-- Blobs: where bytes are, uploads on their way in or out, and bytes that live in the database.

-- name: get_blob(tenant, ref)
-- One blob.
select ref, size_bytes, media_type, created_us, place, key, sums, touched_us from blobs
where tenant = :tenant and ref = :ref

-- name: insert_blob(tenant, ref, size_bytes, media_type, place, key, sums, created_us)
-- Bytes that are complete.
insert into blobs (tenant, ref, size_bytes, media_type, place, key, sums, created_us, touched_us)
values (:tenant, :ref, :size_bytes, :media_type, :place, :key, :sums, :created_us, :created_us)

-- name: touch_blob(tenant, ref, media_type, touched_us)
-- The same content was put again; the first media type stays.
update blobs set touched_us = :touched_us, media_type = coalesce(media_type, :media_type)
where tenant = :tenant and ref = :ref

-- name: move_blob(tenant, ref, size_bytes, sums, place, key)
-- The same bytes are somewhere else from here on.
update blobs set size_bytes = :size_bytes, sums = :sums, place = :place, key = :key
where tenant = :tenant and ref = :ref

-- name: drop_blob(tenant, ref)
-- The row; its bytes are somebody else's to delete.
delete from blobs where tenant = :tenant and ref = :ref

-- name: is_referenced(tenant, ref)
-- Whether an artifact or an attachment names the bytes.
select exists (select 1 from artifacts where tenant = :tenant and ref = :ref)
  or exists (select 1 from attachments where tenant = :tenant and id = :ref)

-- name: list_blobs(tenant, after, limit)
-- All of them, by ref.
select ref, size_bytes, media_type, created_us, place, key, sums, touched_us from blobs
where tenant = :tenant and ref > :after order by ref limit :limit

-- name: list_unreferenced(tenant, before_us, intents_before_us, after, limit)
-- Blobs that no artifact, no commit and no young intent names, by ref.
select b.ref, b.size_bytes, b.media_type, b.created_us, b.place, b.key, b.sums, b.touched_us
from blobs b
where b.tenant = :tenant and b.ref > :after and b.touched_us <= :before_us
  and not exists (select 1 from artifacts a where a.tenant = b.tenant and a.ref = b.ref)
  and not exists (
    select 1 from attachments t where t.tenant = b.tenant and t.id = b.ref
      and (t.committed_us is not null or t.intent_us > :intents_before_us)
  )
order by b.ref limit :limit

-- name: count_blobs(tenant)
-- Blobs, their bytes, how many of them are named, uploads, and what names bytes.
select count(*), coalesce(sum(b.size_bytes), 0),
  coalesce(sum(case
    when exists (select 1 from artifacts a where a.tenant = b.tenant and a.ref = b.ref) then 1
    when exists (select 1 from attachments t where t.tenant = b.tenant and t.id = b.ref) then 1
  end), 0),
  (select count(*) from uploads where tenant = :tenant),
  (select count(*) from artifacts where tenant = :tenant)
    + (select count(*) from attachments where tenant = :tenant)
from blobs b where b.tenant = :tenant

-- name: get_upload(tenant, key)
-- One upload.
select key, place, created_us, leaving from uploads where tenant = :tenant and key = :key

-- name: insert_upload(tenant, key, place, created_us, leaving)
-- Bytes that no blob owns; the first row of a key stays, but leaving is for good.
insert into uploads (tenant, key, place, created_us, leaving)
values (:tenant, :key, :place, :created_us, :leaving)
on conflict (tenant, key) do update set
  leaving = case when excluded.leaving = 0 then uploads.leaving else excluded.leaving end

-- name: condemn_upload(tenant, key, now_us)
-- No blob can be made of it any more; its age begins anew.
update uploads set leaving = 1, created_us = :now_us
where tenant = :tenant and key = :key and leaving = 0

-- name: drop_upload(tenant, key)
-- The bytes are gone, or a blob's.
delete from uploads where tenant = :tenant and key = :key

-- name: list_uploads(tenant, before_us, after, limit)
-- Old uploads by key.
select key, place, created_us, leaving from uploads
where tenant = :tenant and key > :after and created_us <= :before_us
order by key limit :limit

-- name: put_chunk(tenant, key, n, data)
-- One piece; a repeated one is the same.
insert into chunks (tenant, key, n, data) values (:tenant, :key, :n, :data)
on conflict (tenant, key, n) do update set data = excluded.data

-- name: read_chunk(tenant, key, n)
-- One piece.
select data from chunks where tenant = :tenant and key = :key and n = :n

-- name: drop_chunks(tenant, key)
-- All pieces of a key.
delete from chunks where tenant = :tenant and key = :key
