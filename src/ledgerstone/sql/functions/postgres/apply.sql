-- Planned commands, many in one call: lock, judge each by itself, write what is right.
--
-- Everything travels in three flat arrays, section after section. at[4n - 3] is the number of rows of
-- section n, and the three that follow say where its ints, texts and bytes begin. PL/pgSQL keeps
-- arrays expanded, so each subscript is one step. Section 1 are the commands; a name in braces stands
-- for the rows of a section, made from its columns (engines/postgres/planned/writes.py).
--
-- flags: 1 uses something, 2 makes a run, 4 depends on the time, 8 wants the state (16: the
-- session is deleted, which its head vouches for)
-- mode:  1 ids may be taken, 2 do not wait for heads, 4 some use, 8 some make runs, 16 rare sections
--
-- What comes back: one row about the call (place 0) with the number of this transaction, by which
-- the heads it wrote are known from now on, and the time; then one row per command that was not
-- carried out, with its word and the session as it stands:
--   moved   the head is not the one that the plan was made with, or its lease ended meanwhile
--   run     the run is known already; its row comes along when it is this session's
--   known   the turn was committed before
--   held    another transaction holds the head, and this call does not wait
--   slow    there are budgets, or an id is taken: the handler has to look
--
-- `version` is the number of the transaction that wrote a head (xmin). What a plan is compared by has
-- its times mixed in: after a failover, numbers of transactions that were lost are given out again.
--
-- Nothing is judged before its head is locked, and by a later statement than the one that locked:
-- only then it sees what was committed while it waited. Leases are judged by the clock after that.
--
-- How statements are planned is said by the connection (drivers/urls.py): generic plans, loops over
-- indexes. Expressions are few on purpose: each is made ready once per transaction, which takes as long as
-- many a row.

create or replace function ledger_apply(
  who text, now_us bigint, mode bigint,
  at bigint[], ints bigint[], texts text[], bytes bytea[]
) returns table (
  place bigint, word text, version bigint, clock_us bigint,
  number bigint, incarnation bigint, deleted_us bigint, revision bigint, ord bigint, leaf bigint,
  tip bigint, tip_seq bigint, messages bigint, users bigint, first_user bigint, live bigint,
  branched bigint, named bigint, amended bigint, fence bigint, owner text, token text,
  claimed_us bigint, expires_us bigint, updated_us bigint, link bytea, active_run text,
  open_run text, latest_run text, ledger bytea, checkpoint text, runs bigint, enqueued bigint,
  tip_id text, run_key bigint, run_first bigint, run_last bigint, run_status text,
  run_parent text, run_created_us bigint, run_body bytea, state bytea
) language plpgsql volatile
set search_path from current
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  _words text[];
  _clock bigint;
begin
  if who is not null then
    perform set_config('ledgerstone.tenant', who, true);
  end if;
  if at[1] = 1 and mode & 2 = 0 then
    _words := ledger_lock_head(mode, ints, texts);
  else
    _words := ledger_lock_heads(mode, at, ints, texts);
  end if;
  _clock := coalesce(ledger_apply.now_us, ledger_clock());
  _words := ledger_judge(mode, _clock, _words, at, ints, texts);
  if 'ok' = any (_words) then
    perform ledger_write(mode, _words, at, ints, texts, bytes);
    version := pg_current_xact_id()::xid::text::bigint;
  end if;
  place := 0;
  clock_us := _clock;
  return next;
  if 'ok' <> any (_words) then
    -- The sessions of all commands that were not carried out, as they stand.
    return query select c.n, _words[c.n], h.version, _clock,
      h.number, h.incarnation, h.deleted_us, h.revision, h.ord, h.leaf, h.tip, h.tip_seq,
      h.messages, h.users, h.first_user, h.live, h.branched, h.named, h.amended, h.fence, h.owner,
      h.token, h.claimed_us, h.expires_us, h.updated_us, h.link, h.active_run, h.open_run,
      h.latest_run, h.ledger, h.checkpoint, h.runs, h.enqueued,
      (select n.id from nodes n where n.key = (h.number << 32) + h.tip and n.tenant = h.tenant),
      r.key, r.first_ord, r.last_ord, r.status, r.parent_run, r.created_us, r.body,
      case when c.flags & 8 <> 0 then coalesce((
        select d.body from documents d
        where d.number = h.number and d.tenant = h.tenant and d.name = 'state'), '') end
    from {commands} c left join lateral (
      select h.*, h.xmin::text::bigint as version
      from sessions s join heads h on h.number = s.number and h.tenant = s.tenant
      where s.tenant = c.tenant and s.id = c.session
      limit 1
    ) h on true left join lateral (
      select r.key, r.first_ord, r.last_ord, r.status, r.parent_run, r.created_us, r.body
      from runs r
      where r.id = c.run and r.key >> 32 = h.number and r.realm = h.tenant and r.body is not null
      limit 1
    ) r on true
    where _words[c.n] <> 'ok';
  end if;
end
$$;

-- Holds the head of the only command, and before it, as everywhere, the names: who uses something
-- shares the budgets with others who do. A run that is being made elsewhere is not waited for.
create or replace function ledger_lock_head(
  mode bigint, ints bigint[], texts text[]
) returns text[] language plpgsql volatile
as $$
declare
  _done text;
begin
  if mode & 4 <> 0 then
    _done := pg_advisory_xact_lock_shared(ledger_lock_key(texts[1], 'u'))::text;
  end if;
  perform from heads h where h.number = ints[1] and h.tenant = texts[1] for no key update;
  if mode & 8 <> 0 and not pg_try_advisory_xact_lock(ledger_lock_key(texts[1], 'r:' || texts[4])) then
    return '{slow}';
  end if;
  return null;
end
$$;

-- The same for many, their heads in the order of their numbers.
create or replace function ledger_lock_heads(
  mode bigint, at bigint[], ints bigint[], texts text[]
) returns text[] language plpgsql volatile
as $$
declare
  _held bigint[];
begin
  if mode & 4 <> 0 then
    perform pg_advisory_xact_lock_shared(k.key) from (
      select distinct ledger_lock_key(c.tenant, 'u') as key from {commands} c where c.flags & 1 <> 0
    ) k;
  end if;
  if mode & 2 = 0 then
    perform from heads h
    where h.number = any (array(select c.number from {commands} c))
      and h.tenant = any (array(select distinct c.tenant from {commands} c))
    order by h.number for no key update;
  else
    _held := array(
      select h.number from heads h
      where h.number = any (array(select c.number from {commands} c))
        and h.tenant = any (array(select distinct c.tenant from {commands} c))
      order by h.number for no key update skip locked);
  end if;
  if mode & 10 = 0 then
    return null;
  end if;
  return array(
    select case
      when _held is not null and c.number <> all (_held) then 'held'
      when c.flags & 2 = 0 then 'ok'
      when pg_try_advisory_xact_lock(ledger_lock_key(c.tenant, 'r:' || c.run)) then 'ok'
      else 'slow'
    end
    from {commands} c);
end
$$;

-- One word per command: whether all that its plan assumed is so. Scalar subqueries with a limit
-- instead of `exists`: that one may be planned as a hash over the whole table. The row of the session
-- is not looked at: who deletes, restores or purges it writes its head. A turn is compared as a pair:
-- only the index on both fits that, and none that walks all turns of a session; its tenant by another
-- collation: see the top of take.sql.
create or replace function ledger_judge(
  mode bigint, clock bigint, words text[], at bigint[], ints bigint[], texts text[]
) returns text[] language plpgsql volatile
as $$
declare
  _words text[];
  _at bigint;
begin
  _words := array(
    select case
      when words[c.n] <> 'ok' then words[c.n]
      when h.number is null then 'moved'
      when (h.owner is not null and h.expires_us > clock) <> (c.live = 1) then 'moved'
      when c.flags & 4 <> 0 and abs(clock - c.planned_us) > 250000 then 'moved'
      when c.turn is not null and (
        select true from turns t
        where t.id = c.turn and (t.id, t.number) >= (c.turn, h.number)
          and (t.id, t.number) <= (c.turn, h.number) and t.tenant = c.tenant collate "POSIX"
        limit 1) then 'known'
      when c.flags & 2 <> 0 and coalesce((
        select true from runs r where r.id = c.run and r.realm = c.tenant limit 1), (
        select true from kept_runs k where k.tenant = c.tenant and k.id = c.run limit 1)) then 'run'
      when c.flags & 1 <> 0 and (
        select true from budgets b where b.tenant = c.tenant limit 1) then 'slow'
      else 'ok'
    end
    from {commands} c left join lateral (
      select h.number, h.owner, h.expires_us from heads h
      where h.number = c.number and h.tenant = c.tenant
        and (h.xmin::text::bigint << 32) | ((h.updated_us # h.expires_us) & 4294967295) = c.version
      limit 1
    ) h on true);
  if mode & 1 <> 0 then
    -- An earlier call failed since an id is taken: whose?
    for _at in
      select distinct u.place from {insert_nodes} u
      where (
        select true from nodes n
        where n.id = u.id and n.key >> 32 = u.key >> 32 and n.tenant = u.whose limit 1)
    loop
      _words[_at] := 'slow';
    end loop;
  end if;
  if mode & 16 <> 0 then
    -- Of commands that queue or complete work: whether ids are free, and claims still have their batches.
    for _at in
      select distinct u.place from {insert_work} u
      where coalesce((
        select true from work w
        where w.number = u.number and w.id = u.id and w.tenant = u.whose limit 1), (
        select true from work w
        where w.number = u.number and w.source_key = u.source_key and w.tenant = u.whose limit 1))
      union
      select u.place from {delete_work} u
      where u.batches is distinct from (
        select string_agg(w.seq::text, ',' order by w.priority, w.seq) from work w
        where w.number = u.number and w.claim = u.claim and w.claim_token = u.token
          and w.superseded is null and w.tenant = u.whose)
    loop
      _words[_at] := 'slow';
    end loop;
  end if;
  return _words;
end
$$;

-- One statement per section, each for all commands of a call whose word is ok.
create or replace function ledger_write(
  mode bigint, words text[], at bigint[], ints bigint[], texts text[], bytes bytea[]
) returns void language plpgsql volatile
as $$
begin
{often}
  if mode & 16 <> 0 then
{rarely}
  end if;
end
$$;

create or replace function ledger_overflow() returns bigint language plpgsql volatile
as $$
begin
  raise numeric_value_out_of_range using message = 'a sum would be 2^62 or more';
end
$$;

-- The sum of two, which is less than 2^62 either way.
create or replace function ledger_sum(one bigint, other bigint) returns bigint language sql volatile
return case when abs(one + other) < 4611686018427387904 then one + other else ledger_overflow() end;

-- What a plan that is carried out by a statement of its own asks (engines/postgres/planned/single.py).
-- These look with a snapshot of their own, so that they see what was committed before their caller got
-- its locks.

-- Whether nobody has the run and nothing bounds what is used. `used` and `made`: whether the caller got
-- the locks that keep it so, null where there is nothing to keep. They are arguments since those come
-- before the call.
create or replace function ledger_is_free(tenant text, run text, used boolean, made boolean)
returns boolean language plpgsql volatile
as $$
#variable_conflict use_variable
begin
  return coalesce(used, true) and coalesce(made, true) and coalesce(
    (select true from runs r where r.id = run and r.realm = tenant limit 1),
    (select true from kept_runs k where k.tenant = tenant and k.id = run limit 1),
    (select true from budgets b where used and b.tenant = tenant limit 1)) is null;
end
$$;

-- What ended while the head was waited for, as a lease: nothing of the statement stays.
create or replace function ledger_refuse() returns integer language plpgsql volatile
as $$
begin
  raise serialization_failure using message = 'the lease ended meanwhile';
end
$$;
