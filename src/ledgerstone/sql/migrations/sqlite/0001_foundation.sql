-- The foundation. The whole story in one screen:
--
--   generation one row, on page 2, which says which log belongs to the file (docs/adr/0007)
--   sessions   the wide, rarely written row; a small integer `number` stands for (tenant, id) below
--   heads      one narrow row per session: all that every commit checks and moves, and whether it is
--              deleted
--   nodes      the append-only graph; key = number << 32 | ord, ord = commit order in the session
--   turns      one row per commit: idempotency stamp, link of the hash chain, feed row and usage;
--              pos is the commit order of the whole file; the newest row of a purged session stays,
--              blank and of session 0, so that no pos is given out twice
--   branches   named leaves besides `main` (which stands in the head)
--   amendments newer versions of messages; the node's own body never changes
--   notes      small records beside a node, which may not exist yet (drafts are notes)
--   contents   values: bytes kept once per session by their SHA-256
--   documents  one row per session and name: document, state, config, frames, checkpoint
--   runs       one row per session and run: its record, when there is one, and the stretch of
--              the session it wrote; nodes name their run by its number in the session
--   kept_runs  records of runs that outlive their purged session
--   tickets    tool calls that wait, or waited, for a decision
--   executions tool calls: the intent, later the outcome
--   work       what a session has still to do; `later` 1: not available yet when it was last looked at
--   ready      one row per session and queue with work: when a worker may take the session
--   ended_work batches that are done, cancelled, dead (they had their attempts) or superseded
--   work_sums  ended batches of a session, counted, and how often its queue was interrupted
--   blobs      bytes by their SHA-256: where they are, and the sums of their pieces
--   uploads    keys of bytes that no blob owns: on their way in, or on their way out
--   chunks     bytes that live in the database, piece by piece
--   attachments  which session needs which bytes: an intent, later the stamp of a commit
--   artifacts  named versions of blobs, of a session (scope s:id), a user (u:id) or the tenant (t:)
--   evidence   traces and reports, by place from 1; place 0 says that there is a list
--   call_sums  tool calls of a session, counted
--   usage_days what a session used per day, model, provider, source and currency ('': no price)
--   budgets    what may be used, and what of it is
--   memories   values by namespace and key
--   embeddings vectors, of memories too; `change` is their place in the life of their space
--   spaces     one row per model: the dimension, and what an index has to follow
--   stubs      what stays of a purged session: its fence and incarnation go on from here
--   purged     sessions that are gone, and of which rows are still to be removed
--   store      numbers of the store itself: the key that signs cursors, in halves
--
-- `seal` is a checksum over the key of a row and the columns that no link of the chain vouches for
-- (docs/adr/0013); the writer computes it with each row, `verify` compares it.
--
-- All but `generation` and `store` is what the declarations say (ledgerstone/tables; a test
-- compares them).
--
-- Indexes begin with the id, not the session: ids are UUIDv7, so one commit of many sessions
-- touches the same few pages (docs/adr/0006).

-- The first table: its row is read from page 2 without SQLite (engines/sqlite/marks.py).
create table generation (
  mark blob not null
) strict;
insert into generation (mark) values (zeroblob(21));

create table store (
  name text primary key,
  value integer not null
) strict, without rowid;
insert into store (name, value) values
  ('cursor.key.1', random()), ('cursor.key.2', random());

create table sessions (
  number integer primary key,
  tenant text not null,
  id text not null,
  user text,
  app text not null,
  title text,
  model text,
  cwd text,
  status text not null,
  metadata blob,
  parent text,
  cause blob,
  created_us integer not null,
  recency integer not null,
  seal integer
) strict;
create unique index sessions_id on sessions (tenant, id);
create index sessions_recency on sessions (tenant, recency);
create index sessions_user on sessions (tenant, user, recency) where user is not null;
create index sessions_created on sessions (tenant, created_us, id);
create index sessions_parent on sessions (tenant, parent, id) where parent is not null;

create table heads (
  number integer primary key,
  incarnation integer not null,
  deleted_us integer,
  revision integer not null,
  ord integer not null,
  leaf integer not null,
  tip integer not null,
  tip_seq integer not null,
  messages integer not null,
  users integer not null,
  first_user integer not null,
  live integer not null,
  branched integer not null,
  named integer not null,
  amended integer not null,
  fence integer not null,
  owner text,
  token text,
  claimed_us integer not null,
  expires_us integer not null,
  updated_us integer not null,
  link blob not null,
  active_run text,
  open_run text,
  latest_run text,
  ledger blob,
  checkpoint text,
  runs integer not null,
  enqueued integer not null,
  touched_us integer not null,
  seal integer
) strict;

create table nodes (
  key integer primary key,
  parent integer not null,
  seq integer not null,
  role integer,
  kind text,
  label text,
  run integer,
  meta blob,
  format text,
  refs text,
  created_us integer not null,
  id text not null,
  salt blob,
  body blob,
  deleted_us integer,
  deleted_rev integer,
  commitment blob,
  seal integer
) strict;
create unique index nodes_id on nodes (id, key >> 32);
-- Where a straight stretch of the graph begins: a node whose parent is not its predecessor.
create index nodes_jumps on nodes (key) where parent <> (key & 4294967295) - 1;
-- The requests to compact a conversation; where a message has a label, it is this one.
create index nodes_compactions on nodes (key) where label = 'ledger.compaction';
create index nodes_kind on nodes (kind, label, id) where kind is not null;
create index nodes_label on nodes (key >> 32, kind, label, id) where kind is not null;

create table turns (
  pos integer primary key,
  number integer not null,
  revision integer not null,
  id text not null,
  kind text not null,
  hash blob not null,
  link blob not null,
  created_us integer not null,
  leaf integer not null,
  first_ord integer not null,
  count integer not null,
  usage blob,
  effects blob,
  usage_digest blob
) strict;
create unique index turns_id on turns (id, number);
create unique index turns_revision on turns (number, revision);

create table branches (
  number integer not null,
  name text not null,
  leaf integer not null,
  seal integer,
  primary key (number, name)
) strict, without rowid;

create table amendments (
  key integer not null,
  version integer not null,
  revision integer not null,
  created_us integer not null,
  salt blob,
  patch blob,
  commitment blob not null,
  seal integer,
  primary key (key, version)
) strict, without rowid;

create table notes (
  number integer not null,
  node text not null,
  key text not null,
  format text,
  refs text,
  created_us integer not null,
  body blob not null,
  seal integer,
  primary key (number, node, key)
) strict, without rowid;
create index notes_drafts on notes (number, node, key)
  where key >= 'ledger.draft/' and key < 'ledger.draft0';

create table contents (
  number integer not null,
  digest text not null,
  data blob not null,
  primary key (number, digest)
) strict, without rowid;

create table documents (
  number integer not null,
  name text not null,
  body blob not null,
  seal integer,
  primary key (number, name)
) strict, without rowid;

create table runs (
  key integer primary key,
  id text not null,
  first_ord integer not null,
  last_ord integer not null,
  tenant text,
  status text,
  parent_run text,
  created_us integer,
  body blob,
  seal integer
) strict;
create unique index runs_id on runs (id, key >> 32);
create index runs_created on runs (tenant, created_us, id) where tenant is not null;
create index runs_open on runs (tenant, status, created_us, id)
  where tenant is not null and status <> 'done';
create index runs_parent on runs (tenant, parent_run, created_us, id)
  where tenant is not null and parent_run is not null;

create table kept_runs (
  tenant text not null,
  id text not null,
  session text not null,
  status text not null,
  parent_run text,
  created_us integer not null,
  body blob not null,
  seal integer,
  primary key (tenant, id)
) strict, without rowid;
create index kept_runs_created on kept_runs (tenant, created_us, id);
create index kept_runs_session on kept_runs (tenant, session, created_us, id);
create index kept_runs_parent on kept_runs (tenant, parent_run, created_us, id)
  where parent_run is not null;

create table tickets (
  tenant text not null,
  id text not null,
  number integer not null,
  run text,
  status text not null,
  reason text,
  created_us integer not null,
  expires_us integer,
  body blob not null,
  seal integer,
  primary key (tenant, id)
) strict, without rowid;
create index tickets_session on tickets (number, created_us, id);
create index tickets_status on tickets (tenant, status, created_us, id);
create index tickets_expiry on tickets (tenant, expires_us, id)
  where status = 'open' and expires_us is not null;
create index tickets_created on tickets (tenant, created_us, id);

create table executions (
  tenant text not null,
  id text not null,
  number integer not null,
  call text not null,
  message text,
  run text,
  ticket text,
  status text not null,
  fence integer,
  created_us integer not null,
  body blob not null,
  seal integer,
  primary key (tenant, id)
) strict, without rowid;
create index executions_session on executions (number, created_us, id);
create index executions_call on executions (number, call);
create index executions_message on executions (message, created_us, id) where message is not null;
create index executions_run on executions (run, created_us, id) where run is not null;
create index executions_started on executions (tenant, created_us, id) where status = 'started';

create table work (
  seq integer not null,
  queue text not null,
  priority integer not null,
  id text not null,
  source_key text,
  delivery text not null,
  slot text not null,
  merge text not null,
  available_us integer not null,
  max_attempts integer,
  backoff_us integer not null,
  payloads blob not null,
  enqueued_us integer not null,
  attempts integer not null,
  last_error text,
  claim text,
  claim_fence integer not null,
  claim_token text,
  claim_owner text,
  claimed_us integer not null,
  claim_expires_us integer not null,
  superseded text,
  number integer not null,
  later integer not null,
  seal integer,
  primary key (number, seq)
) strict, without rowid;
create index work_line on work (number, queue, later, priority, seq);
create unique index work_id on work (number, id);
create unique index work_source on work (number, source_key) where source_key is not null;
create index work_claim on work (number, claim, priority, seq) where claim is not null;
create index work_later on work (number, queue, available_us) where later = 1;
-- A batch that waits for a decision about an execution has that one's id in the place of its claim, the
-- highest fence there is, and is available at the end of the calendar.
create index work_parked on work (number, priority, seq) where claim_fence = 9223372036854775807;

create table ready (
  number integer not null,
  queue text not null,
  tenant text not null,
  priority integer not null,
  due_us integer not null,
  primary key (number, queue)
) strict, without rowid;
create index ready_due on ready (tenant, queue, priority, due_us, number);

create table ended_work (
  number integer not null,
  seq integer not null,
  tenant text not null,
  id text not null,
  state text not null,
  ended_us integer not null,
  reason text not null,
  body blob not null,
  seal integer,
  primary key (number, seq)
) strict, without rowid;
create index ended_work_time on ended_work (tenant, state, ended_us, id, seq);
create index ended_work_session on ended_work (number, state, ended_us, id, seq);
create index ended_work_dead on ended_work (tenant, id, number) where state = 'dead';

create table work_sums (
  number integer primary key,
  tenant text not null,
  epoch integer not null,
  done integer not null,
  cancelled integer not null,
  dead integer not null,
  superseded integer not null
) strict;
create index work_sums_tenant on work_sums (tenant, number);

create table blobs (
  tenant text not null,
  ref text not null,
  size_bytes integer not null,
  media_type text,
  place text not null,
  key text not null,
  sums blob not null,
  created_us integer not null,
  touched_us integer not null,
  seal integer,
  primary key (tenant, ref)
) strict, without rowid;

create table uploads (
  tenant text not null,
  key text not null,
  place text not null,
  created_us integer not null,
  leaving integer not null,
  seal integer,
  primary key (tenant, key)
) strict, without rowid;

-- The sums of the blob vouch for these.
create table chunks (
  tenant text not null,
  key text not null,
  n integer not null,
  data blob not null
) strict;
create unique index chunks_primary on chunks (tenant, key, n);

create table attachments (
  tenant text not null,
  session text not null,
  id text not null,
  uri text not null,
  intent_us integer not null,
  committed_us integer,
  seal integer,
  primary key (tenant, session, id)
) strict, without rowid;
create index attachments_open on attachments (tenant, intent_us) where committed_us is null;
create index attachments_bytes on attachments (tenant, id);

create table artifacts (
  tenant text not null,
  id text not null,
  scope text not null,
  name text not null,
  version integer not null,
  place integer not null,
  uri text not null,
  ref text not null,
  size_bytes integer not null,
  created_us integer not null,
  body blob not null,
  seal integer,
  primary key (tenant, id)
) strict, without rowid;
create unique index artifacts_version on artifacts (tenant, scope, name, version);
create unique index artifacts_place on artifacts (tenant, scope, place);
create unique index artifacts_uri on artifacts (tenant, uri);
create index artifacts_bytes on artifacts (tenant, ref);

create table evidence (
  tenant text not null,
  session text not null,
  kind text not null,
  n integer not null,
  created_us integer not null,
  body blob not null,
  seal integer,
  primary key (tenant, session, kind, n)
) strict, without rowid;

create table call_sums (
  number integer primary key,
  calls integer not null,
  succeeded integer not null,
  failed integer not null,
  duration_ms integer not null
) strict;

-- Follows from the turns; verify counts again.
create table usage_days (
  number integer not null,
  day integer not null,
  model text not null,
  provider text not null,
  source text not null,
  currency text not null,
  tenant text not null,
  calls integer not null,
  input integer not null,
  output integer not null,
  cached_input integer not null,
  cache_write integer not null,
  reasoning integer not null,
  total integer not null,
  cost_nano integer not null,
  primary key (number, day, model, provider, source, currency)
) strict, without rowid;
create index usage_days_tenant on usage_days (tenant, day);

create table budgets (
  tenant text not null,
  scope text not null,
  subject text not null,
  id text not null,
  body blob not null,
  since_us integer not null,
  spent_nano integer not null,
  spent_tokens integer not null,
  seal integer,
  primary key (tenant, scope, subject, id)
) strict, without rowid;
create unique index budgets_id on budgets (tenant, id);

create table memories (
  tenant text not null,
  namespace text not null,
  key text not null,
  value blob not null,
  ttl_us integer,
  created_us integer not null,
  updated_us integer not null,
  expires_us integer,
  seal integer,
  primary key (tenant, namespace, key)
) strict, without rowid;
create index memories_expiry on memories (tenant, expires_us) where expires_us is not null;

create table embeddings (
  tenant text not null,
  kind text not null,
  id text not null,
  model text not null,
  change integer not null,
  session text,
  namespace text not null,
  metadata blob,
  created_us integer not null,
  vector blob not null,
  seal integer
) strict;
create unique index embeddings_primary on embeddings (tenant, kind, id);
create unique index embeddings_change on embeddings (tenant, model, change);
create index embeddings_session on embeddings (tenant, session) where session is not null;

create table spaces (
  tenant text not null,
  model text not null,
  dimension integer not null,
  count integer not null,
  changes integer not null,
  drops integer not null,
  primary key (tenant, model)
) strict, without rowid;

create table stubs (
  tenant text not null,
  id text not null,
  incarnation integer not null,
  fence integer not null,
  link blob not null,
  retired integer not null,
  seal integer,
  primary key (tenant, id)
) strict, without rowid;

create table purged (
  tenant text not null,
  number integer not null,
  primary key (tenant, number)
) strict, without rowid;
