-- The usual turn when nobody else waits: one plain statement (docs/adr/0023).
--
-- It does what `ledger_apply` does for one command, for half the price: nothing is set up before it.
-- There is one snapshot, taken before the head is locked, and it suffices. Whoever changes a session,
-- its runs, its turns or its sums, deletes or purges it, writes its head; so the version of the head,
-- which is looked at again after a wait, vouches for all of that. What other sessions may change is
-- looked at by `ledger_is_free`, with a later snapshot, under locks that are held until the end.
--
-- No row comes back when something is not as the plan has it; `ledger_apply` then says what.

-- name: commit_alone(tenant, number, version, was_us, expires_us, revision, ord, leaf, tip, tip_seq, messages, users, first_user, live, updated_us, link, active_run, open_run, latest_run, ledger, runs, now_us, ints, texts, blobs, count, first_ord, turn, kind, hash, usage, effects, is_held, is_guarded, uses, run, makes_run, changes_run, run_key, run_first, run_last, run_created_us, run_status, run_parent, run_body, recency, day, model, provider, source, currency, calls, input, output, cached_input, cache_write, reasoning, total, cost_nano, document, document_body)
-- ints: parent, seq, role, run, created_us of each node; texts: id, kind, label, format, refs; blobs:
-- meta, salt, body. `is_guarded`: it makes a run or uses something. The turn is compared as a pair:
-- only the index on both fits that, and none that would walk the session's turns or the tenant's. By
-- another collation the tenant is found as well, but not looked up (see take.sql).
with moved as (
  update heads h set revision = :revision, ord = :ord, leaf = :leaf, tip = :tip, tip_seq = :tip_seq,
    messages = :messages, users = :users, first_user = :first_user, live = :live,
    updated_us = :updated_us, link = :link, active_run = :active_run, open_run = :open_run,
    latest_run = :latest_run, ledger = :ledger, runs = :runs
  where h.number = :number and h.tenant = :tenant and h.xmin = :version
    and h.updated_us = :was_us and h.expires_us = :expires_us and (
      select true from turns t
      where (t.id, t.number) >= (:turn, :number) and (t.id, t.number) <= (:turn, :number)
        and t.tenant = :tenant collate "POSIX"
    ) is null
    and h.expires_us > coalesce(cast(:now_us as bigint), ledger_clock()) -- if is_held
    and ledger_is_free(:tenant, :run, -- if is_guarded
      case when cast(:uses as bigint) = 1 -- if is_guarded
        then pg_try_advisory_xact_lock_shared(ledger_lock_key(:tenant, 'u')) end, -- if is_guarded
      case when cast(:run as text) is not null -- if is_guarded
        then pg_try_advisory_xact_lock(ledger_lock_key(:tenant, 'r:' || :run)) end) -- if is_guarded
  returning cast(cast(pg_current_xact_id() as text) as bigint) as xid,
    coalesce(cast(:now_us as bigint), ledger_clock()) as clock_us
    , case when h.expires_us > coalesce(cast(:now_us as bigint), ledger_clock()) -- if is_held
      then 0 else ledger_refuse() end as refused -- if is_held
), said as (
  insert into nodes (tenant, key, parent, seq, role, run, created_us, kind, label, format, refs, id,
    meta, salt, body)
  select :tenant, (:number << 32) + :first_ord + r, p.i[r * 5 + 1], p.i[r * 5 + 2], p.i[r * 5 + 3],
    p.i[r * 5 + 4], p.i[r * 5 + 5], p.t[r * 5 + 2], p.t[r * 5 + 3], p.t[r * 5 + 4], p.t[r * 5 + 5],
    p.t[r * 5 + 1], (cast(:blobs as bytea[]))[r * 3 + 1], (cast(:blobs as bytea[]))[r * 3 + 2],
    (cast(:blobs as bytea[]))[r * 3 + 3]
  from moved, (
    select cast(cast(:ints as text) as bigint[]) as i, string_to_array(:texts, chr(31), chr(30)) as t
    offset 0
  ) p, generate_series(0, cast(:count as bigint) - 1) r
), turned as (
  insert into turns (tenant, pos, number, revision, created_us, leaf, first_ord, count, id, kind, hash,
    link, usage, effects)
  select :tenant, (m.xid + s.value) * 1048576, :number, :revision, :updated_us, :leaf, :first_ord,
    cast(:count as bigint), cast(:turn as text), cast(:kind as text), cast(:hash as bytea), :link,
    cast(:usage as bytea), cast(:effects as bytea)
  from moved m, store s where s.name = 'feed.base'
), ran as ( -- if makes_run
  insert into runs (realm, key, first_ord, last_ord, created_us, id, tenant, status, parent_run, body) -- if makes_run
  select :tenant, cast(:run_key as bigint), cast(:run_first as bigint), cast(:run_last as bigint), -- if makes_run
    cast(:run_created_us as bigint), cast(:run as text), :tenant, cast(:run_status as text), -- if makes_run
    cast(:run_parent as text), cast(:run_body as bytea) from moved -- if makes_run
), changed as ( -- if changes_run
  update runs r set first_ord = :run_first, last_ord = :run_last, status = :run_status, -- if changes_run
    parent_run = :run_parent, body = :run_body -- if changes_run
  from moved where r.key = :run_key and r.realm = :tenant -- if changes_run
), listed as ( -- if recency
  update sessions s set recency = :recency -- if recency
  from moved where s.number = :number and s.tenant = :tenant collate "POSIX" -- if recency
), counted as ( -- if day
  update usage_days u set calls = u.calls + :calls, input = u.input + :input, -- if day
    output = u.output + :output, cached_input = u.cached_input + :cached_input, -- if day
    cache_write = u.cache_write + :cache_write, reasoning = u.reasoning + :reasoning, -- if day
    total = u.total + :total, cost_nano = u.cost_nano + :cost_nano -- if day
  from moved -- if day
  where u.number = :number and u.day = :day and u.model = :model and u.provider = :provider -- if day
    and u.source = :source and u.currency = :currency and u.tenant = :tenant collate "POSIX" -- if day
    and greatest(abs(u.input + :input), abs(u.output + :output), -- if day
      abs(u.cached_input + :cached_input), abs(u.cache_write + :cache_write), -- if day
      abs(u.reasoning + :reasoning), abs(u.total + :total), -- if day
      abs(u.cost_nano + :cost_nano)) < 4611686018427387904 -- if day
  returning 1 -- if day
), begun as ( -- if day
  insert into usage_days (tenant, number, day, model, provider, source, currency, calls, input, -- if day
    output, cached_input, cache_write, reasoning, total, cost_nano) -- if day
  select :tenant, :number, :day, :model, :provider, :source, :currency, :calls, :input, :output, -- if day
    :cached_input, :cache_write, :reasoning, :total, :cost_nano -- if day
  from moved where not exists (select from counted) -- if day
), kept as ( -- if document
  insert into documents (tenant, number, name, body) -- if document
  select :tenant, :number, cast(:document as text), cast(:document_body as bytea) from moved -- if document
  on conflict (number, name) do update set body = excluded.body -- if document
)
select m.xid, m.clock_us from moved m
