-- Tables for the statements that PostgreSQL is asked by name (sql/queries), as SQLite can have them: for
-- tests of planned commands without a server (named_statements.py).

create table store (
  name text primary key,
  value integer not null
) strict, without rowid;
insert into store (name, value) values ('cursor.key.1', 1), ('cursor.key.2', 2);

create table sessions (
  number integer primary key,
  tenant text not null,
  id text not null,
  incarnation integer not null,
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
  deleted_us integer,
  purged integer not null default 0,
  seal integer
) strict;
create unique index sessions_id on sessions (tenant, id) where purged = 0;
create index sessions_recency on sessions (tenant, recency) where purged = 0;
create index sessions_user on sessions (tenant, user, recency) where purged = 0;
create index sessions_created on sessions (tenant, created_us, id) where purged = 0;
create index sessions_parent on sessions (tenant, parent) where parent is not null;
create index sessions_purged on sessions (number) where purged = 1;

create table heads (
  number integer primary key,
  revision integer not null default 0,
  ord integer not null default 0,
  leaf integer not null default 0,
  tip integer not null default 0,
  tip_seq integer not null default 0,
  messages integer not null default 0,
  users integer not null default 0,
  first_user integer not null default 0,
  live integer not null default 0,
  branched integer not null default 0,
  named integer not null default 0,
  amended integer not null default 0,
  fence integer not null default 0,
  owner text,
  token text,
  claimed_us integer not null default 0,
  expires_us integer not null default 0,
  updated_us integer not null,
  touched_us integer not null,
  link blob not null,
  active_run text,
  open_run text,
  latest_run text,
  ledger blob,
  checkpoint text,
  runs integer not null default 0,
  enqueued integer not null default 0,
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
  first_ord integer not null default 0,
  last_ord integer not null default 0,
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
create index executions_message on executions (message, created_us, id)
  where message is not null;
create index executions_run on executions (run, created_us, id) where run is not null;
create index executions_started on executions (tenant, created_us, id) where status = 'started';

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
  leaving integer not null default 0,
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
create unique index chunks_place on chunks (tenant, key, n);

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
  id text not null,
  scope text not null,
  subject text not null,
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
create unique index embeddings_id on embeddings (tenant, kind, id);
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

create table work (
  number integer not null,
  queue text not null,
  later integer not null,
  priority integer not null,
  seq integer not null,
  id text not null,
  source_key text,
  delivery text not null,
  slot text not null,
  merge text not null,
  available_us integer not null,
  attempts integer not null default 0,
  max_attempts integer,
  backoff_us integer not null default 0,
  last_error text,
  payloads blob not null,
  claim text,
  claim_fence integer not null default 0,
  claim_token text,
  claim_owner text,
  claimed_us integer not null default 0,
  claim_expires_us integer not null default 0,
  superseded text,
  enqueued_us integer not null,
  seal integer,
  primary key (number, queue, later, priority, seq)
) strict, without rowid;
create unique index work_id on work (number, id);
create unique index work_source on work (number, source_key) where source_key is not null;
create index work_claim on work (number, claim) where claim is not null;
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
create index work_sums_tenant on work_sums (tenant);

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
