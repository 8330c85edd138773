-- A store that is large enough for a wrong plan to show: {sessions} sessions of 20 tenants. One of
-- a hundred, the first too, is long.

insert into sessions (tenant, id, "user", app, status, created_us, recency, parent)
select 't' || n % 20, 's' || n, 'u' || n % 100, 'a', 'active', n, n,
  case when n % 10 = 0 then 's' || n - 1 end
from generate_series(1, {sessions}) n;

insert into heads (tenant, number, incarnation, revision, ord, leaf, tip, tip_seq, updated_us,
  touched_us, link)
select tenant, number, 1, 100, 300, 300, 300, 300, created_us, created_us, '' from sessions;

insert into nodes (tenant, key, parent, seq, role, kind, label, run, created_us, id, body)
select tenant, (number << 32) + o, case when o % 100 = 0 then o - 10 else o - 1 end, o, o % 3,
  case when o % 50 = 0 then 'k' || o % 3 end,
  case when o % 150 = 1 then 'ledger.compaction' when o % 50 = 0 then 'l' end,
  o / 100, o, 'n' || o || '-' || number, '\x00'
from sessions, generate_series(1, case when number % 100 = 1 then 300 else 20 end) o;

insert into turns (tenant, pos, number, revision, id, kind, hash, link, created_us, leaf, first_ord,
  count, usage)
select tenant, r * {sessions} + number, number, r, 'turn' || r || '-' || number, 'turn', '', '', r,
  r * 3, r * 3, 3, '\x00'
from sessions, generate_series(1, case when number % 100 = 1 then 100 else 5 end) r;

insert into runs (realm, key, id, first_ord, last_ord, tenant, status, parent_run, created_us, body)
select tenant, (number << 32) + r, 'r' || r || '-' || number, r * 60, r * 60 + 59, tenant,
  case when r < 3 then 'done' else 'running' end, case when r > 1 then 'r1-' || number end, r, '\x00'
from generate_series(1, 3) r, sessions;

insert into kept_runs (tenant, id, session, status, parent_run, created_us, body)
select 't' || n % 20, 'kr' || n, 'x' || n / 5, 'done', 'kr' || n / 2, n, ''
from generate_series(1, 2 * {sessions}) n;

insert into amendments (tenant, key, version, revision, created_us, patch, commitment)
select tenant, (number << 32) + a * 20, 1, 50, 1, '', '' from generate_series(1, 3) a, sessions;

insert into notes (tenant, number, node, key, created_us, body)
select tenant, number, 'n' || a, case when a % 2 = 0 then 'ledger.draft/' || a else 'k' end, 1, ''
from generate_series(1, 3) a, sessions;

insert into contents (tenant, number, digest, data)
select tenant, number, 'd' || a, '' from generate_series(1, 3) a, sessions;

insert into documents (tenant, number, name, body)
select tenant, number, name, ''
from unnest(array['state', 'config', 'document', 'frames']) name, sessions;

insert into branches (tenant, number, name, leaf)
select tenant, number, 'b' || b, 100 from generate_series(1, 3) b, sessions;

insert into tickets (tenant, id, number, run, status, reason, created_us, expires_us, body)
select tenant, 'tk' || a || '-' || number, number, 'r1-' || number,
  case when a = 3 then 'open' else 'approved' end, 'why', a, a, ''
from generate_series(1, 3) a, sessions;

insert into executions (tenant, id, number, call, message, run, status, created_us, body)
select tenant, 'ex' || a || '-' || number, number, 'c' || a, 'n' || a || '-' || number,
  'r1-' || number, case when a = 3 then 'started' else 'done' end, a, ''
from generate_series(1, 3) a, sessions;

insert into work (tenant, number, queue, later, priority, seq, id, source_key, delivery, slot, merge,
  available_us, payloads, claim, enqueued_us)
select tenant, number, 'q', a % 2, a % 10, a, 'w' || a, 'sk' || a, '', '', '', a, '',
  case when a % 10 = 0 then 'c' || a end, a
from sessions, generate_series(1, case when number % 100 = 1 then 50 else 2 end) a;

insert into ready (number, queue, tenant, priority, due_us)
select number, 'q', tenant, number % 5, number from sessions;

insert into ended_work (tenant, id, number, seq, state, ended_us, reason, body)
select tenant, 'dw' || a || '-' || number, number, a, 'dead', a, '', ''
from generate_series(1, 3) a, sessions;

insert into work_sums (tenant, number, dead) select tenant, number, 3 from sessions;

insert into evidence (tenant, session, kind, n, created_us, body)
select tenant, id, 'trace', a, 1, '' from generate_series(0, 3) a, sessions;

insert into blobs (tenant, ref, size_bytes, place, key, sums, created_us, touched_us)
select 't' || n % 20, 'ref' || n, 1, '', 'key' || n, '', n, n from generate_series(1, 20000) n;

insert into uploads (tenant, key, place, created_us)
select 't' || n % 20, 'up' || n, '', n from generate_series(1, 20000) n;

insert into chunks (tenant, key, n, data)
select 't' || n % 20, 'key' || n, 0, '' from generate_series(1, 20000) n;

insert into attachments (tenant, session, id, uri, intent_us, committed_us)
select tenant, id, 'ref' || a * number, '', a, case when a > 1 then a end
from generate_series(1, 3) a, sessions;

insert into artifacts (tenant, id, scope, name, version, place, uri, ref, size_bytes, created_us, body)
select tenant, 'ar' || a || '-' || number, 's:' || id, 'name' || a / 3, a % 3, a,
  'uri' || a || '-' || number, 'ref' || a * number, 1, 1, ''
from generate_series(1, 3) a, sessions;

insert into call_sums (tenant, number, calls, succeeded, failed, duration_ms)
select tenant, number, 1, 1, 1, 1 from sessions;

insert into usage_days (number, day, model, provider, source, currency, tenant, calls, input, output,
  cached_input, cache_write, reasoning, total, cost_nano)
select number, d, 'm', 'p', '', 'usd', tenant, 1, 1, 1, 1, 1, 1, 1, 1
from generate_series(1, 3) d, sessions;

insert into budgets (tenant, id, scope, subject, body, since_us, spent_nano, spent_tokens)
select 't' || n % 20, 'b' || n, 'session', 's' || n, '', 0, 0, 0 from generate_series(1, 5000) n;

insert into memories (tenant, namespace, key, value, created_us, updated_us, expires_us)
select 't' || n % 20, 'ns' || n % 100, 'k' || n, '', n, n, case when n % 10 = 0 then n end
from generate_series(1, 50000) n;

insert into embeddings (tenant, kind, id, model, change, session, namespace, created_us, vector)
select 't' || n % 20, 'memory', 'e' || n, 'm', n, 's' || n % {sessions}, 'ns', n, ''
from generate_series(1, 50000) n;

insert into spaces (tenant, model, dimension, count, changes, drops)
select 't' || n % 20, 'm' || n, 1, 1, 1, 1 from generate_series(1, 2000) n;

insert into stubs (tenant, id, incarnation, fence, link, retired)
select 't' || n % 20, 'gone' || n, 1, 1, '', 0 from generate_series(1, 20000) n;

analyze;
