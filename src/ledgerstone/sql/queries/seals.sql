-- Rows with their seals, for verify: key, sealed columns, seal.
-- `sealed_*` are the rows of one session or tenant, `loose_*` those of none that can be seen.

-- name: keeps_seals()
-- Whether rows of this database carry a seal.
select 1

-- name: sealed_sessions(number)
-- The session row; recency is not sealed, since it follows from the head.
select number, tenant, id, incarnation, "user", app, title, model, cwd, status, metadata, parent,
  cause, created_us, deleted_us, purged, seal
from sessions
where number = :number

-- name: sealed_heads(number)
-- Lease, queue and time of the last change without a commit.
select number, fence, owner, token, claimed_us, expires_us, enqueued, touched_us, seal
from heads
where number = :number

-- name: sealed_nodes(number)
-- When nodes were hidden.
select key, deleted_us, deleted_rev, seal from nodes
where key between :number * 4294967296 and :number * 4294967296 + 4294967295
  and (deleted_us is not null or deleted_rev is not null or seal is not null)

-- name: sealed_branches(number)
-- Where branches stand.
select number, name, leaf, seal from branches where number = :number

-- name: sealed_amendments(number)
-- When messages were amended; the chain vouches for the rest.
select key, version, revision, created_us, seal from amendments
where key between :number * 4294967296 and :number * 4294967296 + 4294967295

-- name: sealed_notes(number)
-- Notes and drafts.
select number, node, key, format, refs, created_us, body, seal from notes
where number = :number

-- name: sealed_documents(number)
-- Documents.
select number, name, body, seal from documents
where number = :number

-- name: sealed_runs(number)
-- Records of runs; which nodes a run wrote is compared with the nodes.
select key, id, tenant, status, parent_run, created_us, body, seal from runs
where key between :number * 4294967296 and :number * 4294967296 + 4294967295
  and (coalesce(tenant, status, parent_run) is not null or created_us is not null
    or body is not null or seal is not null)

-- name: sealed_work(number)
-- The queue.
select
  number, id, queue, later, priority, seq, source_key, delivery, slot, merge, available_us,
  attempts, max_attempts, backoff_us, last_error, payloads, claim, claim_fence, claim_token,
  claim_owner, claimed_us, claim_expires_us, enqueued_us, seal
from work where number = :number

-- name: sealed_dead_work(number)
-- Its dead letters.
select number, id, tenant, dead_us, reason, body, seal from dead_work where number = :number

-- name: sealed_tickets(number)
-- Tickets.
select number, id, tenant, run, status, reason, created_us, expires_us, body, seal
from tickets
where number = :number

-- name: sealed_executions(number)
-- Executions.
select number, id, tenant, call, message, run, ticket, status, fence, created_us, body, seal
from executions
where number = :number

-- name: sealed_attachments(tenant)
-- Attachments, which belong to the id of a session that may not exist yet.
select tenant, session, id, uri, intent_us, committed_us, seal from attachments
where tenant = :tenant

-- name: sealed_kept_runs(tenant)
-- Records that outlived their session.
select tenant, id, session, status, parent_run, created_us, body, seal
from kept_runs where tenant = :tenant

-- name: sealed_stubs(tenant)
-- What stays of purged sessions.
select tenant, id, incarnation, fence, link, retired, seal from stubs where tenant = :tenant

-- name: loose_sessions()
-- Session rows that wait for the sweep.
select number, tenant, id, incarnation, "user", app, title, model, cwd, status, metadata, parent,
  cause, created_us, deleted_us, purged, seal
from sessions
where purged <> 0

-- name: loose_heads()
-- Heads of no session.
select number, fence, owner, token, claimed_us, expires_us, enqueued, touched_us, seal
from heads
where number not in (select number from sessions where purged = 0)

-- name: loose_notes()
-- Notes of no session.
select number, node, key, format, refs, created_us, body, seal from notes
where number not in (select number from sessions where purged = 0)

-- name: loose_documents()
-- Documents of no session.
select number, name, body, seal from documents
where number not in (select number from sessions where purged = 0)

-- name: loose_runs()
-- Runs of no session.
select key, id, tenant, status, parent_run, created_us, body, seal from runs
where key >> 32 not in (select number from sessions where purged = 0)
  and (coalesce(tenant, status, parent_run) is not null or created_us is not null
    or body is not null or seal is not null)

-- name: loose_work()
-- Work of no session.
select
  number, id, queue, later, priority, seq, source_key, delivery, slot, merge, available_us,
  attempts, max_attempts, backoff_us, last_error, payloads, claim, claim_fence, claim_token,
  claim_owner, claimed_us, claim_expires_us, enqueued_us, seal
from work where number not in (select number from sessions where purged = 0)

-- name: loose_dead_work()
-- Dead letters of no session.
select number, id, tenant, dead_us, reason, body, seal from dead_work
where number not in (select number from sessions where purged = 0)

-- name: loose_ready()
-- Places in the line of no session.
select number, queue from ready
where number not in (select number from sessions where purged = 0)

-- name: queue_places(number)
-- Each queue that has work, its least priority and the greatest seq, and its place in the line.
select w.queue, w.least, w.last, r.priority from (
  select queue, min(priority) as least, max(seq) as last from work
  where number = :number group by queue
) w left join ready r on r.number = :number and r.queue = w.queue

-- name: loose_tickets()
-- Tickets of no session.
select number, id, tenant, run, status, reason, created_us, expires_us, body, seal
from tickets
where number not in (select number from sessions where purged = 0)

-- name: loose_executions()
-- Executions of no session.
select number, id, tenant, call, message, run, ticket, status, fence, created_us, body, seal
from executions
where number not in (select number from sessions where purged = 0)

-- name: loose_attachments(tenant)
-- Attachments of other tenants.
select tenant, session, id, uri, intent_us, committed_us, seal from attachments
where tenant <> :tenant

-- name: loose_kept_runs(tenant)
-- Kept records of other tenants.
select tenant, id, session, status, parent_run, created_us, body, seal
from kept_runs where tenant <> :tenant

-- name: loose_stubs(tenant)
-- Stubs of other tenants.
select tenant, id, incarnation, fence, link, retired, seal from stubs where tenant <> :tenant

-- name: standing_runs(number)
-- The runs that a session knows, and the records of those that have one.
select id, key & 4294967295, first_ord, last_ord, body from runs
where key between :number * 4294967296 and :number * 4294967296 + 4294967295

-- name: headless_sessions()
-- Sessions that nobody can find, because their head is gone.
select number from sessions where number not in (select number from heads)

-- name: recency_of(number)
-- Where the session stands in lists by time of change.
select recency from sessions where number = :number

-- name: schema_texts()
-- What the file says its tables are; an ANALYZE by somebody else may have added its own.
select type, name, tbl_name, sql from sqlite_schema
where name not like 'sqlite_stat%' order by type, name
