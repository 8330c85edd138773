-- The foundation. The whole story in one screen:
--
--   sessions   the wide, rarely written row; a small integer `number` stands for (tenant, id) below
--   heads      one narrow row per session: all that every commit checks and moves, and whether it is
--              deleted
--   nodes      the append-only graph; key = number << 32 | ord, ord = commit order in the session
--   turns      one row per commit: idempotency stamp, link of the hash chain, feed row and usage;
--              pos is the order in which a reader may see them: transaction << 20 | n
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
--   store      numbers of the store itself: the version of the schema, where the feed stands, and the
--              key that signs cursors, in halves
--
-- It is what the declarations say (ledgerstone/tables; a test makes the same of them) with every tenant in a column: row-level security and sharding ask for it there. Where a statement does not name the tenant, `ledger_tenant()` does. `runs.tenant` is
-- null where there is no record, so the column that always has it is called `realm`. `seal` stays
-- null: checksums of pages and the rights of roles are the database's own (docs/adr/0026).
--
-- Names are unqualified: the search path says in which schema all of this is.
--
-- Indexes begin with the id, not the session: ids are UUIDv7, so one commit of many sessions
-- touches the same few pages (docs/adr/0006).

-- The tenant that this transaction works for. A setting that ended with its transaction is left as
-- an empty text, which is nobody.
create function ledger_tenant() returns text language sql stable parallel safe
return nullif(current_setting('ledgerstone.tenant', true), '');

create table store (
  name text collate "C" primary key,
  value bigint not null
);
-- feed.base: what is added to the number of a transaction; feed.mark: the greatest place that was
-- swept; feed.cluster: where these numbers of transactions come from.
insert into store (name, value) values
  ('version', 0), ('feed.base', 0), ('feed.mark', 0), ('feed.cluster', 0);
insert into store (name, value)
select 'cursor.key.' || n, ('x' || left(md5(gen_random_uuid()::text), 16))::bit(64)::bigint
from generate_series(1, 2) n;

-- The first of `count` places in the feed. Later transactions have greater ones, so a reader that
-- stops before the oldest transaction under way (pg_snapshot_xmin) never steps over a late commit.
create function ledger_pos(count bigint default 1) returns bigint language plpgsql volatile
set search_path from current
as $$
declare
  n bigint := coalesce(nullif(current_setting('ledgerstone.places', true), ''), '0')::bigint;
begin
  if n + count > 1048576 then
    raise exception 'one transaction has at most 1048576 commits' using errcode = '54000';
  end if;
  perform set_config('ledgerstone.places', (n + count)::text, true);
  return (pg_current_xact_id()::text::bigint
    + (select s.value from store s where s.name = 'feed.base')) * 1048576 + n;
end
$$;

create table sessions (
  number bigint generated by default as identity primary key,
  tenant text collate "C" not null,
  id text collate "C" not null,
  "user" text collate "C",
  app text collate "C" not null,
  title text collate "C",
  model text collate "C",
  cwd text collate "C",
  status text collate "C" not null,
  metadata bytea,
  parent text collate "C",
  cause bytea,
  created_us bigint not null,
  recency bigint not null,
  seal bigint
);
create unique index sessions_id on sessions (tenant, id);
create index sessions_recency on sessions (tenant, recency);
create index sessions_user on sessions (tenant, "user", recency) where "user" is not null;
create index sessions_created on sessions (tenant, created_us, id);
create index sessions_parent on sessions (tenant, parent, id) where parent is not null;

-- Half of a page stays free: a new version of a row stands beside the old one, and no index moves.
create table heads (
  tenant text collate "C" not null default ledger_tenant(),
  number bigint primary key,
  incarnation bigint not null,
  deleted_us bigint,
  revision bigint not null default 0,
  ord bigint not null default 0,
  leaf bigint not null default 0,
  tip bigint not null default 0,
  tip_seq bigint not null default 0,
  messages bigint not null default 0,
  users bigint not null default 0,
  first_user bigint not null default 0,
  live bigint not null default 0,
  branched bigint not null default 0,
  named bigint not null default 0,
  amended bigint not null default 0,
  fence bigint not null default 0,
  owner text collate "C",
  token text collate "C",
  claimed_us bigint not null default 0,
  expires_us bigint not null default 0,
  updated_us bigint not null,
  touched_us bigint not null,
  link bytea not null,
  active_run text collate "C",
  open_run text collate "C",
  latest_run text collate "C",
  ledger bytea,
  checkpoint text collate "C",
  runs bigint not null default 0,
  enqueued bigint not null default 0,
  seal bigint
) with (fillfactor = 50);

-- Numbers before texts, here and in `turns` and `runs`, wide ones first: what has a fixed width needs
-- no padding then, and these are most of the rows. Ords that no parameter is compared with are short:
-- a session has less than 2^31 nodes.
create table nodes (
  key bigint primary key,
  created_us bigint not null,
  deleted_us bigint,
  deleted_rev bigint,
  seal bigint,
  parent integer not null,
  seq integer not null,
  run integer,
  role smallint,
  tenant text collate "C" not null default ledger_tenant(),
  id text collate "C" not null,
  kind text collate "C",
  label text collate "C",
  format text collate "C",
  refs text collate "C",
  meta bytea,
  salt bytea,
  body bytea,
  commitment bytea
);
create unique index nodes_id on nodes (id, (key >> 32));
-- Where a straight stretch of the graph begins: a node whose parent is not its predecessor.
create index nodes_jumps on nodes (key) where parent <> (key & 4294967295) - 1;
-- The requests to compact a conversation; where a message has a label, it is this one.
create index nodes_compactions on nodes (key) where label = 'ledger.compaction';
create index nodes_kind on nodes (kind, label, id) where kind is not null;
create index nodes_label on nodes ((key >> 32), kind, label, id) where kind is not null;

create table turns (
  pos bigint not null default ledger_pos(),
  number bigint not null,
  revision bigint not null,
  created_us bigint not null,
  leaf integer not null,
  first_ord integer not null,
  count integer not null,
  tenant text collate "C" not null default ledger_tenant(),
  id text collate "C" not null,
  kind text collate "C" not null,
  hash bytea not null,
  link bytea not null,
  usage bytea,
  effects bytea,
  usage_digest bytea,
  primary key (tenant, pos)
);
create unique index turns_id on turns (id, number);
create unique index turns_revision on turns (number, revision);

create table branches (
  tenant text collate "C" not null default ledger_tenant(),
  number bigint not null,
  name text collate "C" not null,
  leaf bigint not null,
  seal bigint,
  primary key (number, name)
);

create table amendments (
  tenant text collate "C" not null default ledger_tenant(),
  key bigint not null,
  version bigint not null,
  revision bigint not null,
  created_us bigint not null,
  salt bytea,
  patch bytea,
  commitment bytea not null,
  seal bigint,
  primary key (key, version)
);

create table notes (
  tenant text collate "C" not null default ledger_tenant(),
  number bigint not null,
  node text collate "C" not null,
  key text collate "C" not null,
  format text collate "C",
  refs text collate "C",
  created_us bigint not null,
  body bytea not null,
  seal bigint,
  primary key (number, node, key)
);
create index notes_drafts on notes (number, node, key)
  where key >= 'ledger.draft/' and key < 'ledger.draft0';

create table contents (
  tenant text collate "C" not null default ledger_tenant(),
  number bigint not null,
  digest text collate "C" not null,
  data bytea not null,
  primary key (number, digest)
);

create table documents (
  tenant text collate "C" not null default ledger_tenant(),
  number bigint not null,
  name text collate "C" not null,
  body bytea not null,
  seal bigint,
  primary key (number, name)
);

create table runs (
  key bigint primary key,
  first_ord bigint not null default 0,
  last_ord bigint not null default 0,
  created_us bigint,
  seal bigint,
  realm text collate "C" not null default ledger_tenant(),
  tenant text collate "C",
  id text collate "C" not null,
  status text collate "C",
  parent_run text collate "C",
  body bytea
) with (fillfactor = 95);
create unique index runs_id on runs (id, (key >> 32));
create index runs_created on runs (tenant, created_us, id) where tenant is not null;
create index runs_open on runs (tenant, status, created_us, id)
  where tenant is not null and status <> 'done';
create index runs_parent on runs (tenant, parent_run, created_us, id)
  where tenant is not null and parent_run is not null;

create table kept_runs (
  tenant text collate "C" not null,
  id text collate "C" not null,
  session text collate "C" not null,
  status text collate "C" not null,
  parent_run text collate "C",
  created_us bigint not null,
  body bytea not null,
  seal bigint,
  primary key (tenant, id)
);
create index kept_runs_created on kept_runs (tenant, created_us, id);
create index kept_runs_session on kept_runs (tenant, session, created_us, id);
create index kept_runs_parent on kept_runs (tenant, parent_run, created_us, id)
  where parent_run is not null;

create table tickets (
  tenant text collate "C" not null,
  id text collate "C" not null,
  number bigint not null,
  run text collate "C",
  status text collate "C" not null,
  reason text collate "C",
  created_us bigint not null,
  expires_us bigint,
  body bytea not null,
  seal bigint,
  primary key (tenant, id)
);
create index tickets_session on tickets (number, created_us, id);
create index tickets_status on tickets (tenant, status, created_us, id);
create index tickets_expiry on tickets (tenant, expires_us, id)
  where status = 'open' and expires_us is not null;
create index tickets_created on tickets (tenant, created_us, id);

create table executions (
  tenant text collate "C" not null,
  id text collate "C" not null,
  number bigint not null,
  call text collate "C" not null,
  message text collate "C",
  run text collate "C",
  ticket text collate "C",
  status text collate "C" not null,
  fence bigint,
  created_us bigint not null,
  body bytea not null,
  seal bigint,
  primary key (tenant, id)
);
create index executions_session on executions (number, created_us, id);
create index executions_call on executions (number, call);
create index executions_message on executions (message, created_us, id)
  where message is not null;
create index executions_run on executions (run, created_us, id) where run is not null;
create index executions_started on executions (tenant, created_us, id) where status = 'started';

create table attachments (
  tenant text collate "C" not null,
  session text collate "C" not null,
  id text collate "C" not null,
  uri text collate "C" not null,
  intent_us bigint not null,
  committed_us bigint,
  seal bigint,
  primary key (tenant, session, id)
);
create index attachments_open on attachments (tenant, intent_us) where committed_us is null;
create index attachments_bytes on attachments (tenant, id);

create table blobs (
  tenant text collate "C" not null,
  ref text collate "C" not null,
  size_bytes bigint not null,
  media_type text collate "C",
  place text collate "C" not null,
  key text collate "C" not null,
  sums bytea not null,
  created_us bigint not null,
  touched_us bigint not null,
  seal bigint,
  primary key (tenant, ref)
);

create table uploads (
  tenant text collate "C" not null,
  key text collate "C" not null,
  place text collate "C" not null,
  created_us bigint not null,
  leaving bigint not null default 0,
  seal bigint,
  primary key (tenant, key)
);

-- The sums of the blob vouch for these.
create table chunks (
  tenant text collate "C" not null,
  key text collate "C" not null,
  n bigint not null,
  data bytea not null
);
alter table chunks alter column data set storage external;
create unique index chunks_primary on chunks (tenant, key, n);

create table artifacts (
  tenant text collate "C" not null,
  id text collate "C" not null,
  scope text collate "C" not null,
  name text collate "C" not null,
  version bigint not null,
  place bigint not null,
  uri text collate "C" not null,
  ref text collate "C" not null,
  size_bytes bigint not null,
  created_us bigint not null,
  body bytea not null,
  seal bigint,
  primary key (tenant, id)
);
create unique index artifacts_version on artifacts (tenant, scope, name, version);
create unique index artifacts_place on artifacts (tenant, scope, place);
create unique index artifacts_uri on artifacts (tenant, uri);
create index artifacts_bytes on artifacts (tenant, ref);

create table evidence (
  tenant text collate "C" not null,
  session text collate "C" not null,
  kind text collate "C" not null,
  n bigint not null,
  created_us bigint not null,
  body bytea not null,
  seal bigint,
  primary key (tenant, session, kind, n)
);

create table call_sums (
  tenant text collate "C" not null default ledger_tenant(),
  number bigint primary key,
  calls bigint not null,
  succeeded bigint not null,
  failed bigint not null,
  duration_ms bigint not null
) with (fillfactor = 50);

-- Follows from the turns; verify counts again.
create table usage_days (
  number bigint not null,
  day bigint not null,
  model text collate "C" not null,
  provider text collate "C" not null,
  source text collate "C" not null,
  currency text collate "C" not null,
  tenant text collate "C" not null,
  calls bigint not null,
  input bigint not null,
  output bigint not null,
  cached_input bigint not null,
  cache_write bigint not null,
  reasoning bigint not null,
  total bigint not null,
  cost_nano bigint not null,
  primary key (number, day, model, provider, source, currency)
) with (fillfactor = 70);
create index usage_days_tenant on usage_days (tenant, day);

create table budgets (
  tenant text collate "C" not null,
  id text collate "C" not null,
  scope text collate "C" not null,
  subject text collate "C" not null,
  body bytea not null,
  since_us bigint not null,
  spent_nano bigint not null,
  spent_tokens bigint not null,
  seal bigint,
  primary key (tenant, scope, subject, id)
) with (fillfactor = 50);
create unique index budgets_id on budgets (tenant, id);

create table memories (
  tenant text collate "C" not null,
  namespace text collate "C" not null,
  key text collate "C" not null,
  value bytea not null,
  ttl_us bigint,
  created_us bigint not null,
  updated_us bigint not null,
  expires_us bigint,
  seal bigint,
  primary key (tenant, namespace, key)
);
create index memories_expiry on memories (tenant, expires_us) where expires_us is not null;

create table embeddings (
  tenant text collate "C" not null,
  kind text collate "C" not null,
  id text collate "C" not null,
  model text collate "C" not null,
  change bigint not null,
  session text collate "C",
  namespace text collate "C" not null,
  metadata bytea,
  created_us bigint not null,
  vector bytea not null,
  seal bigint
);
create unique index embeddings_primary on embeddings (tenant, kind, id);
create unique index embeddings_change on embeddings (tenant, model, change);
create index embeddings_session on embeddings (tenant, session) where session is not null;

create table spaces (
  tenant text collate "C" not null,
  model text collate "C" not null,
  dimension bigint not null,
  count bigint not null,
  changes bigint not null,
  drops bigint not null,
  primary key (tenant, model)
) with (fillfactor = 50);

create table work (
  tenant text collate "C" not null default ledger_tenant(),
  number bigint not null,
  queue text collate "C" not null,
  later bigint not null,
  priority bigint not null,
  seq bigint not null,
  id text collate "C" not null,
  source_key text collate "C",
  delivery text collate "C" not null,
  slot text collate "C" not null,
  merge text collate "C" not null,
  available_us bigint not null,
  attempts bigint not null default 0,
  max_attempts bigint,
  backoff_us bigint not null default 0,
  last_error text collate "C",
  payloads bytea not null,
  claim text collate "C",
  claim_fence bigint not null default 0,
  claim_token text collate "C",
  claim_owner text collate "C",
  claimed_us bigint not null default 0,
  claim_expires_us bigint not null default 0,
  superseded text collate "C",
  enqueued_us bigint not null,
  seal bigint,
  primary key (number, seq)
);
create index work_line on work (number, queue, later, priority, seq);
create unique index work_id on work (number, id);
create unique index work_source on work (number, source_key) where source_key is not null;
create index work_claim on work (number, claim, priority, seq) where claim is not null;
create index work_later on work (number, queue, available_us) where later = 1;
-- A batch that waits for a decision about an execution has that one's id in the place of its claim, the
-- highest fence there is, and is available at the end of the calendar.
create index work_parked on work (number, priority, seq) where claim_fence = 9223372036854775807;

create table ready (
  number bigint not null,
  queue text collate "C" not null,
  tenant text collate "C" not null,
  priority bigint not null,
  due_us bigint not null,
  primary key (number, queue)
);
create index ready_due on ready (tenant, queue, priority, due_us, number);

create table ended_work (
  number bigint not null,
  seq bigint not null,
  tenant text collate "C" not null,
  id text collate "C" not null,
  state text collate "C" not null,
  ended_us bigint not null,
  reason text collate "C" not null,
  body bytea not null,
  seal bigint,
  primary key (number, seq)
);
create index ended_work_time on ended_work (tenant, state, ended_us, id, seq);
create index ended_work_session on ended_work (number, state, ended_us, id, seq);
create index ended_work_dead on ended_work (tenant, id, number) where state = 'dead';

create table work_sums (
  number bigint primary key,
  tenant text collate "C" not null,
  epoch bigint not null default 0,
  done bigint not null default 0,
  cancelled bigint not null default 0,
  dead bigint not null default 0,
  superseded bigint not null default 0
) with (fillfactor = 50);
create index work_sums_tenant on work_sums (tenant, number);

create table stubs (
  tenant text collate "C" not null,
  id text collate "C" not null,
  incarnation bigint not null,
  fence bigint not null,
  link bytea not null,
  retired bigint not null,
  seal bigint,
  primary key (tenant, id)
);

create table purged (
  tenant text collate "C" not null,
  number bigint not null,
  primary key (tenant, number)
);
