-- The seals of memories and embeddings; what a seal is stands in seals.sql.

create temp trigger if not exists seal_new_memories after insert on main.memories
begin
  update memories set seal = ledger_seal(
    new.tenant, new.namespace, new.key, new.value, new.ttl_us, new.created_us, new.updated_us,
    new.expires_us)
  where tenant = new.tenant and namespace = new.namespace and key = new.key;
end;

create temp trigger if not exists seal_memories after update of
  tenant, namespace, key, value, ttl_us, created_us, updated_us, expires_us
on main.memories
begin
  update memories set seal = ledger_seal(
    new.tenant, new.namespace, new.key, new.value, new.ttl_us, new.created_us, new.updated_us,
    new.expires_us)
  where tenant = new.tenant and namespace = new.namespace and key = new.key;
end;

create temp trigger if not exists seal_new_embeddings after insert on main.embeddings
begin
  update embeddings set seal = ledger_seal(
    new.tenant, new.kind, new.id, new.model, new.change, new.session, new.namespace,
    new.metadata, new.created_us, new.vector)
  where tenant = new.tenant and kind = new.kind and id = new.id;
end;

create temp trigger if not exists seal_embeddings after update of
  tenant, kind, id, model, change, session, namespace, metadata, created_us, vector
on main.embeddings
begin
  update embeddings set seal = ledger_seal(
    new.tenant, new.kind, new.id, new.model, new.change, new.session, new.namespace,
    new.metadata, new.created_us, new.vector)
  where tenant = new.tenant and kind = new.kind and id = new.id;
end;
