-- The triggers that keep the seals. They are temporary, so they belong to the writer's connection
-- and not to the file: a row that any other program changes no longer fits its seal.
-- `ledger_seal` is `seal_of` in sql/seals.py. The columns are those of queries/seals.sql, in that order.

-- A head is written by every commit, and its seal must not be. It covers the lease, the queue and the
-- time of the last change without a commit, and a commit names none of these columns: even a trigger
-- that finds nothing to do costs a turn 8 us.

create temp trigger if not exists seal_new_heads after insert on main.heads
begin
  update heads set seal = ledger_seal(
    new.number, new.fence, new.owner, new.token, new.claimed_us, new.expires_us, new.enqueued,
    new.touched_us)
  where number = new.number;
end;

create temp trigger if not exists seal_heads after update of
  number, fence, owner, token, claimed_us, expires_us, enqueued, touched_us
on main.heads
begin
  update heads set seal = ledger_seal(
    new.number, new.fence, new.owner, new.token, new.claimed_us, new.expires_us, new.enqueued,
    new.touched_us)
  where number = new.number;
end;

-- Nodes are never inserted hidden.
create temp trigger if not exists seal_nodes after update of key, deleted_us, deleted_rev on main.nodes
begin
  update nodes set seal = ledger_seal(new.key, new.deleted_us, new.deleted_rev)
  where key = new.key;
end;

create temp trigger if not exists seal_new_sessions after insert on main.sessions
begin
  update sessions set seal = ledger_seal(
    new.number, new.tenant, new.id, new.incarnation, new.user, new.app, new.title, new.model,
    new.cwd, new.status, new.metadata, new.parent, new.cause, new.created_us, new.deleted_us,
    new.purged)
  where number = new.number;
end;

create temp trigger if not exists seal_sessions after update of
  number, tenant, id, incarnation, user, app, title, model, cwd, status, metadata, parent, cause,
  created_us, deleted_us, purged
on main.sessions
begin
  update sessions set seal = ledger_seal(
    new.number, new.tenant, new.id, new.incarnation, new.user, new.app, new.title, new.model,
    new.cwd, new.status, new.metadata, new.parent, new.cause, new.created_us, new.deleted_us,
    new.purged)
  where number = new.number;
end;

create temp trigger if not exists seal_new_branches after insert on main.branches
begin
  update branches set seal = ledger_seal(
    new.number, new.name, new.leaf)
  where number = new.number and name = new.name;
end;

create temp trigger if not exists seal_branches after update of
  number, name, leaf
on main.branches
begin
  update branches set seal = ledger_seal(
    new.number, new.name, new.leaf)
  where number = new.number and name = new.name;
end;

create temp trigger if not exists seal_new_amendments after insert on main.amendments
begin
  update amendments set seal = ledger_seal(
    new.key, new.version, new.revision, new.created_us)
  where key = new.key and version = new.version;
end;

create temp trigger if not exists seal_amendments after update of
  key, version, revision, created_us
on main.amendments
begin
  update amendments set seal = ledger_seal(
    new.key, new.version, new.revision, new.created_us)
  where key = new.key and version = new.version;
end;

create temp trigger if not exists seal_new_notes after insert on main.notes
begin
  update notes set seal = ledger_seal(
    new.number, new.node, new.key, new.format, new.refs, new.created_us, new.body)
  where number = new.number and node = new.node and key = new.key;
end;

create temp trigger if not exists seal_notes after update of
  number, node, key, format, refs, created_us, body
on main.notes
begin
  update notes set seal = ledger_seal(
    new.number, new.node, new.key, new.format, new.refs, new.created_us, new.body)
  where number = new.number and node = new.node and key = new.key;
end;

create temp trigger if not exists seal_new_documents after insert on main.documents
begin
  update documents set seal = ledger_seal(
    new.number, new.name, new.body)
  where number = new.number and name = new.name;
end;

create temp trigger if not exists seal_documents after update of
  number, name, body
on main.documents
begin
  update documents set seal = ledger_seal(
    new.number, new.name, new.body)
  where number = new.number and name = new.name;
end;

create temp trigger if not exists seal_new_kept_runs after insert on main.kept_runs
begin
  update kept_runs set seal = ledger_seal(
    new.tenant, new.id, new.session, new.status, new.parent_run, new.created_us, new.body)
  where tenant = new.tenant and id = new.id;
end;

create temp trigger if not exists seal_kept_runs after update of
  tenant, id, session, status, parent_run, created_us, body
on main.kept_runs
begin
  update kept_runs set seal = ledger_seal(
    new.tenant, new.id, new.session, new.status, new.parent_run, new.created_us, new.body)
  where tenant = new.tenant and id = new.id;
end;

create temp trigger if not exists seal_new_attachments after insert on main.attachments
begin
  update attachments set seal = ledger_seal(
    new.tenant, new.session, new.id, new.uri, new.intent_us, new.committed_us)
  where tenant = new.tenant and session = new.session and id = new.id;
end;

create temp trigger if not exists seal_attachments after update of
  tenant, session, id, uri, intent_us, committed_us
on main.attachments
begin
  update attachments set seal = ledger_seal(
    new.tenant, new.session, new.id, new.uri, new.intent_us, new.committed_us)
  where tenant = new.tenant and session = new.session and id = new.id;
end;

create temp trigger if not exists seal_new_work after insert on main.work
begin
  update work set seal = ledger_seal(
    new.number, new.id, new.queue, new.later, new.priority, new.seq, new.source_key, new.delivery,
    new.slot, new.merge, new.available_us, new.attempts, new.max_attempts, new.backoff_us,
    new.last_error, new.payloads, new.claim, new.claim_fence, new.claim_token, new.claim_owner,
    new.claimed_us, new.claim_expires_us, new.enqueued_us)
  where number = new.number and queue = new.queue and later = new.later
    and priority = new.priority and seq = new.seq;
end;

create temp trigger if not exists seal_work after update of
  number, id, queue, later, priority, seq, source_key, delivery, slot, merge, available_us,
  attempts, max_attempts, backoff_us, last_error, payloads, claim, claim_fence, claim_token,
  claim_owner, claimed_us, claim_expires_us, enqueued_us
on main.work
begin
  update work set seal = ledger_seal(
    new.number, new.id, new.queue, new.later, new.priority, new.seq, new.source_key, new.delivery,
    new.slot, new.merge, new.available_us, new.attempts, new.max_attempts, new.backoff_us,
    new.last_error, new.payloads, new.claim, new.claim_fence, new.claim_token, new.claim_owner,
    new.claimed_us, new.claim_expires_us, new.enqueued_us)
  where number = new.number and queue = new.queue and later = new.later
    and priority = new.priority and seq = new.seq;
end;

create temp trigger if not exists seal_new_dead_work after insert on main.dead_work
begin
  update dead_work set seal = ledger_seal(
    new.number, new.id, new.tenant, new.dead_us, new.reason, new.body)
  where tenant = new.tenant and id = new.id and number = new.number;
end;

create temp trigger if not exists seal_dead_work after update of
  number, id, tenant, dead_us, reason, body
on main.dead_work
begin
  update dead_work set seal = ledger_seal(
    new.number, new.id, new.tenant, new.dead_us, new.reason, new.body)
  where tenant = new.tenant and id = new.id and number = new.number;
end;

create temp trigger if not exists seal_new_stubs after insert on main.stubs
begin
  update stubs set seal = ledger_seal(
    new.tenant, new.id, new.incarnation, new.fence, new.link, new.retired)
  where tenant = new.tenant and id = new.id;
end;

create temp trigger if not exists seal_stubs after update of
  tenant, id, incarnation, fence, link, retired
on main.stubs
begin
  update stubs set seal = ledger_seal(
    new.tenant, new.id, new.incarnation, new.fence, new.link, new.retired)
  where tenant = new.tenant and id = new.id;
end;
