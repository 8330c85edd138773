-- Moving a store: rows of a table in the order of their keys, after one of them. Columns are in the
-- order of rules/transfer.py; rows of sessions, of which many follow each other, begin with its number. `sizes`: how many bytes each row
-- is about, asked before rows that may be long are fetched. What is imported is written by the
-- statements that write it otherwise; here stand only those that have no such twin.

-- name: export_stubs(tenant, after, limit)
-- What purged sessions left; the first may have an empty id: where the fences of new ones begin.
select id, incarnation, fence, link, retired from stubs
where tenant = :tenant and incarnation >= 0
  and id > :after -- if after
order by id limit :limit

-- name: export_kept_runs(tenant, after, limit, sizes, rows)
-- Records of runs that outlived their session.
select length(body) -- if sizes
select id, session, body -- if rows
from kept_runs where tenant = :tenant and id > :after order by id limit :limit

-- name: export_memories(tenant, namespace, key, limit, sizes, rows)
-- Memories, those that have ended too.
select length(value) -- if sizes
select namespace, key, value, ttl_us, created_us, updated_us, expires_us -- if rows
from memories where tenant = :tenant
  and (namespace, key) > (:namespace, :key) -- if namespace, key
order by namespace, key limit :limit

-- name: export_spaces(tenant, after, limit)
-- The spaces of vectors.
select model, dimension, count, changes, drops from spaces
where tenant = :tenant
  and model > :after -- if after
order by model limit :limit

-- name: export_embeddings(tenant, kind, id, limit, sizes, rows)
-- Vectors.
select length(vector) + coalesce(length(metadata), 0) -- if sizes
select kind, id, model, change, vector, session, namespace, metadata, created_us -- if rows
from embeddings where tenant = :tenant
  and (kind, id) > (:kind, :id) -- if kind, id
order by kind, id limit :limit

-- name: export_blobs(tenant, after, limit)
-- Blobs, but not where they are.
select ref, size_bytes, media_type, created_us, touched_us from blobs
where tenant = :tenant and ref > :after order by ref limit :limit

-- name: export_attachments(tenant, session, id, limit)
-- Attachments.
select session, id, uri, intent_us, committed_us from attachments
where tenant = :tenant and (session, id) > (:session, :id)
order by session, id limit :limit

-- name: export_artifacts(tenant, scope, place, limit, sizes, rows)
-- Artifacts.
select length(body) -- if sizes
select scope, place, id, name, version, uri, ref, size_bytes, created_us, body -- if rows
from artifacts where tenant = :tenant and (scope, place) > (:scope, :place)
order by scope, place limit :limit

-- name: export_evidence(tenant, session, kind, n, limit, sizes, rows)
-- Traces, reports, and what says that there are lists.
select length(body) -- if sizes
select session, kind, n, created_us, body -- if rows
from evidence where tenant = :tenant and (session, kind, n) > (:session, :kind, :n)
order by session, kind, n limit :limit

-- name: export_budgets(tenant, after, limit)
-- Budgets.
select id, body, since_us, spent_nano, spent_tokens from budgets
where tenant = :tenant and id > :after order by id limit :limit

-- name: export_sessions(tenant, after, limit, start, sizes, rows)
-- Sessions with their heads, oldest first, each after its number. A tenant that has more than a page
-- of them is not sorted again for each page: there the numbers lead.
select coalesce(length(s.metadata), 0) + coalesce(length(h.ledger), 0) -- if sizes
select s.number, s.id, s.incarnation, s."user", s.app, s.title, s.model, s.cwd, s.status, -- if rows
  s.metadata, s.parent, s.cause, s.created_us, s.deleted_us, -- if rows
  h.revision, h.ord, h.leaf, h.tip, h.tip_seq, h.messages, h.users, h.first_user, h.live, -- if rows
  h.branched, h.named, h.amended, h.fence, h.owner, h.token, h.claimed_us, h.expires_us, -- if rows
  h.updated_us, h.link, h.active_run, h.open_run, h.latest_run, h.ledger, h.checkpoint, -- if rows
  h.enqueued -- if rows
from sessions s join heads h on h.number = s.number
where s.number > :after and s.purged = 0
  and s.tenant = :tenant -- if start
  and s.tenant || '' = :tenant
order by s.number limit :limit

-- name: export_turns(tenant, after, limit, sizes, rows)
-- Commits of a tenant in the order of the feed, each after its position.
select coalesce(length(t.usage), 0) + coalesce(length(t.effects), 0) -- if sizes
select t.pos, s.id, t.revision, t.id, t.kind, t.hash, t.link, t.created_us, t.leaf, -- if rows
  t.first_ord, t.count, t.usage, t.effects, t.usage_digest -- if rows
from turns t cross join sessions s
where t.pos > :after and s.number = t.number and s.tenant = :tenant and s.purged = 0
order by t.pos limit :limit

-- name: survey_sessions(low, high, first, last)
-- How many rows sessions have in each table, and about how many bytes these are.
select 'nodes', count(*), coalesce(sum(length(body)), 0) + coalesce(sum(length(meta)), 0)
  from nodes where key between :first and :last
union all select 'amendments', count(*), coalesce(sum(length(patch)), 0)
  from amendments where key between :first and :last
union all select 'branches', count(*), 0 from branches where number between :low and :high
union all select 'notes', count(*), coalesce(sum(length(body)), 0)
  from notes where number between :low and :high
union all select 'contents', count(*), coalesce(sum(length(data)), 0)
  from contents where number between :low and :high
union all select 'documents', count(*), coalesce(sum(length(body)), 0)
  from documents where number between :low and :high
union all select 'runs', count(*), coalesce(sum(length(body)), 0)
  from runs where key between :first and :last and body is not null
union all select 'tickets', count(*), coalesce(sum(length(body)), 0)
  from tickets where number between :low and :high
union all select 'executions', count(*), coalesce(sum(length(body)), 0)
  from executions where number between :low and :high
union all select 'work', count(*), coalesce(sum(length(payloads)), 0)
  from work where number between :low and :high
union all select 'ended_work', count(*), coalesce(sum(length(body)), 0)
  from ended_work where number between :low and :high
union all select 'work_sums', count(*), 0 from work_sums where number between :low and :high
union all select 'call_sums', count(*), 0 from call_sums where number between :low and :high
union all select 'usage_days', count(*), 0 from usage_days where number between :low and :high
union all select 'ready', count(*), 0 from ready where number between :low and :high

-- name: export_nodes(first, last, limit, sizes, rows)
-- Nodes in commit order; their runs by id, and what is left out here to save room is said. The run
-- is looked up, not joined: under row-level security a key that a join computes finds no index.
select coalesce(length(n.body), 0) + coalesce(length(n.meta), 0) -- if sizes
select n.key >> 32, n.key & 4294967295, n.parent, n.seq, n.role, -- if rows
  case when n.role is null then coalesce(n.kind, '') else 'message' end, coalesce(n.label, ''), -- if rows
  (select r.id from runs r where r.key = n.key - (n.key & 4294967295) + n.run), -- if rows
  n.meta, n.format, coalesce(n.refs, ''), n.created_us, n.id, n.salt, n.body, -- if rows
  n.deleted_us, n.deleted_rev, n.commitment -- if rows
from nodes n
where n.key > :first and n.key <= :last
order by n.key limit :limit

-- name: export_amendments(first, last, key, version, limit, sizes, rows)
-- Every version of messages.
select coalesce(length(patch), 0) -- if sizes
select key >> 32, key & 4294967295, version, revision, created_us, salt, patch, commitment -- if rows
from amendments where key > :first and key <= :last
  and (key, version) > (:key, :version) -- if key, version
order by key, version limit :limit

-- name: export_branches(low, high, number, after, limit)
-- Named leaves.
select number, name, leaf from branches where number between :low and :high
  and (number, name) > (:number, :after) -- if number, after
order by number, name limit :limit

-- name: export_notes(low, high, number, node, key, limit, sizes, rows)
-- Notes, drafts too.
select length(body) -- if sizes
select number, node, key, format, coalesce(refs, ''), created_us, body -- if rows
from notes where number between :low and :high
  and (number, node, key) > (:number, :node, :key) -- if number, node, key
order by number, node, key limit :limit

-- name: export_contents(low, high, number, after, limit, sizes, rows)
-- Values.
select length(data) -- if sizes
select number, digest, data -- if rows
from contents where number between :low and :high
  and (number, digest) > (:number, :after) -- if number, after
order by number, digest limit :limit

-- name: export_documents(low, high, number, after, limit, sizes, rows)
-- Documents.
select length(body) -- if sizes
select number, name, body -- if rows
from documents where number between :low and :high
  and (number, name) > (:number, :after) -- if number, after
order by number, name limit :limit

-- name: export_runs(first, last, number, after, limit, sizes, rows)
-- Records of runs.
select length(body) -- if sizes
select key >> 32, id, body -- if rows
from runs where key between :first and :last and body is not null
  and (key >> 32, id) > (:number, :after) -- if number, after
order by key >> 32, id limit :limit

-- name: export_tickets(low, high, number, after, limit, sizes, rows)
-- Tickets.
select length(body) -- if sizes
select number, id, body -- if rows
from tickets where number between :low and :high
  and (number, id) > (:number, :after) -- if number, after
order by number, id limit :limit

-- name: export_executions(low, high, number, after, limit, sizes, rows)
-- Executions.
select length(body) -- if sizes
select number, id, body -- if rows
from executions where number between :low and :high
  and (number, id) > (:number, :after) -- if number, after
order by number, id limit :limit

-- name: export_work(low, high, number, after, limit, sizes, rows)
-- Queued batches in the order they came.
select length(payloads) -- if sizes
select number, seq, queue, priority, id, source_key, delivery, slot, merge, available_us, -- if rows
  max_attempts, backoff_us, payloads, enqueued_us, attempts, last_error, claim, claim_fence, -- if rows
  claim_token, claim_owner, claimed_us, claim_expires_us, superseded -- if rows
from work where number between :low and :high
  and (number, seq) > (:number, :after) -- if number, after
order by number, seq limit :limit

-- name: export_ended_work(low, high, number, after, limit, sizes, rows)
-- Ended batches in the order they were queued.
select length(body) -- if sizes
select number, seq, id, state, ended_us, reason, body -- if rows
from ended_work where number between :low and :high
  and (number, seq) > (:number, :after) -- if number, after
order by number, seq limit :limit

-- name: export_work_sums(low, high, number, limit)
-- Counted ended batches.
select number, epoch, done, cancelled, dead, superseded from work_sums
where number between :low and :high
  and number > :number -- if number
order by number limit :limit

-- name: export_call_sums(low, high, number, limit)
-- Counted tool calls.
select number, calls, succeeded, failed, duration_ms from call_sums
where number between :low and :high
  and number > :number -- if number
order by number limit :limit

-- name: export_usage_days(low, high, number, day, model, provider, source, currency, limit)
-- What was used per day.
select number, day, model, provider, source, currency, calls, input, output, cached_input,
  cache_write, reasoning, total, cost_nano
from usage_days where number between :low and :high
  and (number, day, model, provider, source, currency) -- if number, day, model, provider, source, currency
    > (:number, :day, :model, :provider, :source, :currency) -- if number, day, model, provider, source, currency
order by number, day, model, provider, source, currency limit :limit

-- name: export_ready(low, high, number, after, limit)
-- The places of sessions in the line of workers.
select number, queue, priority, due_us from ready where number between :low and :high
  and (number, queue) > (:number, :after) -- if number, after
order by number, queue limit :limit

-- name: import_places(tenant, ids)
-- Those of the named sessions that are there: numbers, and what tells whether they are the same.
select s.id, s.number, h.runs, s.incarnation, h.revision, h.fence, h.link
from sessions s join heads h on h.number = s.number
where s.tenant = :tenant and s.purged = 0 and s.id in (select value from json_each(:ids))

-- name: import_numbers(after)
-- The numbers of the sessions that were made a moment ago, and whose they are.
select tenant, id, number from sessions where purged = 0 and number > :after

-- name: last_number()
-- The greatest number of any session.
select coalesce(max(number), 0) from sessions

-- name: import_session(tenant, id, incarnation, user, app, title, model, cwd, status, metadata, parent, cause, created_us, deleted_us, recency)
-- A session as it is.
insert into sessions (tenant, id, incarnation, "user", app, title, model, cwd, status, metadata,
  parent, cause, created_us, deleted_us, recency)
values (:tenant, :id, :incarnation, :user, :app, :title, :model, :cwd, :status, :metadata,
  :parent, :cause, :created_us, :deleted_us, :recency)

-- name: import_head(number, revision, ord, leaf, tip, tip_seq, messages, users, first_user, live, branched, named, amended, fence, owner, token, claimed_us, expires_us, updated_us, link, active_run, open_run, latest_run, ledger, checkpoint, enqueued, touched_us, runs)
-- Its head.
insert into heads (number, revision, ord, leaf, tip, tip_seq, messages, users, first_user, live,
  branched, named, amended, fence, owner, token, claimed_us, expires_us, updated_us, link,
  active_run, open_run, latest_run, ledger, checkpoint, enqueued, touched_us, runs)
values (:number, :revision, :ord, :leaf, :tip, :tip_seq, :messages, :users, :first_user, :live,
  :branched, :named, :amended, :fence, :owner, :token, :claimed_us, :expires_us, :updated_us, :link,
  :active_run, :open_run, :latest_run, :ledger, :checkpoint, :enqueued, :touched_us, :runs)

-- name: import_run(key, id, first_ord, last_ord, tenant, status, parent_run, created_us, body, seal)
-- What a session knows of a run.
insert into runs (key, id, first_ord, last_ord, tenant, status, parent_run, created_us, body, seal)
values (:key, :id, :first_ord, :last_ord, :tenant, :status, :parent_run, :created_us, :body, :seal)

-- name: import_stub(tenant, id, incarnation, fence, link, retired)
-- What stays of a purged session.
insert into stubs (tenant, id, incarnation, fence, link, retired)
values (:tenant, :id, :incarnation, :fence, :link, :retired)

-- name: drop_stub(tenant, id)
-- The mark of a copy that has ended.
delete from stubs where tenant = :tenant and id = :id

-- name: import_memory(tenant, namespace, key, value, ttl_us, created_us, updated_us, expires_us)
-- A memory.
insert into memories (tenant, namespace, key, value, ttl_us, created_us, updated_us, expires_us)
values (:tenant, :namespace, :key, :value, :ttl_us, :created_us, :updated_us, :expires_us)

-- name: import_vector(tenant, kind, id, model, change, vector, session, namespace, metadata, created_us)
-- A vector.
insert into embeddings (tenant, kind, id, model, change, vector, session, namespace, metadata,
  created_us)
values (:tenant, :kind, :id, :model, :change, :vector, :session, :namespace, :metadata,
  :created_us)

-- name: import_branch(number, name, leaf)
-- A branch.
insert into branches (number, name, leaf) values (:number, :name, :leaf)

-- name: import_document(number, name, body)
-- A document.
insert into documents (number, name, body) values (:number, :name, :body)

-- name: import_ticket(tenant, id, number, run, status, reason, created_us, expires_us, body)
-- A ticket.
insert into tickets (tenant, id, number, run, status, reason, created_us, expires_us, body)
values (:tenant, :id, :number, :run, :status, :reason, :created_us, :expires_us, :body)

-- name: import_execution(tenant, id, number, call, message, run, ticket, status, fence, created_us, body)
-- An execution.
insert into executions (tenant, id, number, call, message, run, ticket, status, fence, created_us,
  body)
values (:tenant, :id, :number, :call, :message, :run, :ticket, :status, :fence, :created_us,
  :body)

-- name: import_ended(tenant, number, seq, id, state, ended_us, reason, body)
-- An ended batch.
insert into ended_work (tenant, number, seq, id, state, ended_us, reason, body)
values (:tenant, :number, :seq, :id, :state, :ended_us, :reason, :body)

-- name: import_work_sums(tenant, number, epoch, done, cancelled, dead, superseded)
-- Counted ended batches.
insert into work_sums (tenant, number, epoch, done, cancelled, dead, superseded)
values (:tenant, :number, :epoch, :done, :cancelled, :dead, :superseded)

-- name: import_calls(number, calls, succeeded, failed, duration_ms)
-- Counted tool calls.
insert into call_sums (number, calls, succeeded, failed, duration_ms)
values (:number, :calls, :succeeded, :failed, :duration_ms)

-- name: import_kept_run(tenant, id, session, status, parent_run, created_us, body)
-- A record that outlived its session.
insert into kept_runs (tenant, id, session, status, parent_run, created_us, body)
values (:tenant, :id, :session, :status, :parent_run, :created_us, :body)

-- name: import_batch(number, later, seq, queue, priority, id, source_key, delivery, slot, merge, available_us, max_attempts, backoff_us, payloads, enqueued_us, attempts, last_error, claim, claim_fence, claim_token, claim_owner, claimed_us, claim_expires_us, superseded)
-- A batch as it is, claimed or not.
insert into work (number, later, seq, queue, priority, id, source_key, delivery, slot, merge,
  available_us, max_attempts, backoff_us, payloads, enqueued_us, attempts, last_error, claim,
  claim_fence, claim_token, claim_owner, claimed_us, claim_expires_us, superseded)
values (:number, :later, :seq, :queue, :priority, :id, :source_key, :delivery, :slot, :merge,
  :available_us, :max_attempts, :backoff_us, :payloads, :enqueued_us, :attempts, :last_error, :claim,
  :claim_fence, :claim_token, :claim_owner, :claimed_us, :claim_expires_us, :superseded)

-- name: import_turn(number, revision, id, kind, hash, link, created_us, leaf, first_ord, count, usage, effects, usage_digest)
-- A commit; it stands in the feed after all that were imported before it.
insert into turns (number, revision, id, kind, hash, link, created_us, leaf, first_ord, count,
  usage, effects, usage_digest)
values (:number, :revision, :id, :kind, :hash, :link, :created_us, :leaf, :first_ord, :count,
  :usage, :effects, :usage_digest)

-- name: import_usage_day(tenant, number, day, model, provider, source, currency, calls, input, output, cached_input, cache_write, reasoning, total, cost_nano)
-- What was used on a day.
insert into usage_days (tenant, number, day, model, provider, source, currency, calls, input,
  output, cached_input, cache_write, reasoning, total, cost_nano)
values (:tenant, :number, :day, :model, :provider, :source, :currency, :calls, :input,
  :output, :cached_input, :cache_write, :reasoning, :total, :cost_nano)

-- name: import_ready(tenant, number, queue, priority, due_us)
-- A place in the line of workers, unless it was brought before.
insert into ready (tenant, number, queue, priority, due_us)
values (:tenant, :number, :queue, :priority, :due_us)
on conflict do nothing

-- name: import_attachment(tenant, session, id, uri, intent_us, committed_us)
-- An attachment with its stamp.
insert into attachments (tenant, session, id, uri, intent_us, committed_us)
values (:tenant, :session, :id, :uri, :intent_us, :committed_us)

-- name: import_blob_times(tenant, ref, size_bytes, media_type, created_us, touched_us)
-- Bytes that were put a moment ago are as old as they were where they came from.
update blobs set media_type = :media_type, created_us = :created_us, touched_us = :touched_us
where tenant = :tenant and ref = :ref and size_bytes = :size_bytes

-- name: import_run_count(number, runs)
-- How many runs the session knows now.
update heads set runs = :runs where number = :number
