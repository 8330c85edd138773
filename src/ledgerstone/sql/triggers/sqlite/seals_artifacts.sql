-- The seals of artifacts, traces and reports; what a seal is stands in seals.sql.

create temp trigger if not exists seal_new_artifacts after insert on main.artifacts
begin
  update artifacts set seal = ledger_seal(
    new.tenant, new.id, new.scope, new.name, new.version, new.place, new.uri, new.ref,
    new.size_bytes, new.created_us, new.body)
  where tenant = new.tenant and id = new.id;
end;

create temp trigger if not exists seal_artifacts after update of
  tenant, id, scope, name, version, place, uri, ref, size_bytes, created_us, body
on main.artifacts
begin
  update artifacts set seal = ledger_seal(
    new.tenant, new.id, new.scope, new.name, new.version, new.place, new.uri, new.ref,
    new.size_bytes, new.created_us, new.body)
  where tenant = new.tenant and id = new.id;
end;

create temp trigger if not exists seal_new_evidence after insert on main.evidence
begin
  update evidence set seal = ledger_seal(
    new.tenant, new.session, new.kind, new.n, new.created_us, new.body)
  where tenant = new.tenant and session = new.session and kind = new.kind and n = new.n;
end;

create temp trigger if not exists seal_evidence after update of
  tenant, session, kind, n, created_us, body
on main.evidence
begin
  update evidence set seal = ledger_seal(
    new.tenant, new.session, new.kind, new.n, new.created_us, new.body)
  where tenant = new.tenant and session = new.session and kind = new.kind and n = new.n;
end;
