-- Seals of blobs and uploads; what a seal is stands in seals.sql.

create temp trigger if not exists seal_new_blobs after insert on main.blobs
begin
  update blobs set seal = ledger_seal(
    new.tenant, new.ref, new.size_bytes, new.media_type, new.place, new.key, new.sums,
    new.created_us, new.touched_us)
  where tenant = new.tenant and ref = new.ref;
end;

create temp trigger if not exists seal_blobs after update of
  tenant, ref, size_bytes, media_type, place, key, sums, created_us, touched_us
on main.blobs
begin
  update blobs set seal = ledger_seal(
    new.tenant, new.ref, new.size_bytes, new.media_type, new.place, new.key, new.sums,
    new.created_us, new.touched_us)
  where tenant = new.tenant and ref = new.ref;
end;

create temp trigger if not exists seal_new_uploads after insert on main.uploads
begin
  update uploads set seal = ledger_seal(
    new.tenant, new.key, new.place, new.created_us, new.leaving)
  where tenant = new.tenant and key = new.key;
end;

create temp trigger if not exists seal_uploads after update of
  tenant, key, place, created_us, leaving
on main.uploads
begin
  update uploads set seal = ledger_seal(
    new.tenant, new.key, new.place, new.created_us, new.leaving)
  where tenant = new.tenant and key = new.key;
end;
