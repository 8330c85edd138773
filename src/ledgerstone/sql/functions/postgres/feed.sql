-- Where the feed stands.

-- Every place below this one is decided: committed and visible, or never to come.
create or replace function ledger_horizon() returns bigint language sql stable
set search_path from current
return (pg_snapshot_xmin(pg_current_snapshot())::text::bigint
  + (select s.value from store s where s.name = 'feed.base')) * 1048576;

-- The place of the next commit of a session. A transaction that got its number early, as one of the
-- application's that a turn joins, may write after commits of younger ones: its own place would
-- stand before theirs. A later place is as safe: readers stop before this transaction until it
-- ends.
create or replace function ledger_pos_of(session bigint) returns bigint language plpgsql volatile
set search_path from current
as $$
declare
  _own bigint := ledger_pos();
  _last bigint := (
    select t.pos from turns t where t.number = session order by t.revision desc limit 1);
begin
  if _last is null or _last < _own then
    return _own;
  end if;
  -- The upper half of a transaction's places is free but for others that came late as well.
  _last := greatest(_last + 1, _last | 524288);
  while exists (select from turns t where t.tenant = ledger_tenant() and t.pos = _last) loop
    _last := _last + 1;
  end loop;
  return _last;
end
$$;

-- Called at opening: transactions of a cluster count from its birth, so a dump that was restored
-- into a younger one must add what is missing, or new commits would stand before old ones. True
-- when the feed is in order; false when this role may not put it in order.
create or replace function ledger_settle_feed() returns boolean language plpgsql volatile
set search_path from current
as $$
declare
  _cluster bigint := (select c.system_identifier from pg_control_system() c);
  _forced boolean;
  _last bigint;
begin
  if exists (select from store s where s.name = 'feed.cluster' and s.value = _cluster) then
    return true;
  end if;
  if not pg_has_role(current_user,
    (select c.relowner from pg_class c where c.oid = 'store'::regclass), 'usage') then
    return false;
  end if;
  lock table store in exclusive mode;
  -- Row-level security would hide every row, from the owner too.
  _forced := (select c.relforcerowsecurity from pg_class c where c.oid = 'turns'::regclass);
  if _forced then
    alter table turns no force row level security;
  end if;
  -- No row, whoever wrote it, may carry the feed beyond what a number can count.
  select least(greatest((select max(t.pos) from turns t),
    (select s.value from store s where s.name = 'feed.mark')), 1::bigint << 62) / 1048576 + 1
  into _last;
  if _forced then
    alter table turns force row level security;
  end if;
  update store set value = greatest(value, _last - pg_current_xact_id()::text::bigint)
  where name = 'feed.base';
  update store set value = _cluster where name = 'feed.cluster';
  return true;
end
$$;

-- Before commits are swept: every place that was given out so far is below this mark. It takes
-- nothing from its caller, so that a role bound to one tenant may call it with the owner's rights.
create or replace function ledger_mark_swept() returns boolean language sql volatile
security definer set search_path from current
begin atomic
  update store set value = greatest(value,
    (pg_snapshot_xmax(pg_current_snapshot())::text::bigint
      + (select s.value from store s where s.name = 'feed.base')) * 1048576)
  where name = 'feed.mark' returning true;
end;

-- After a restore: commits that are lost may have had places that somebody remembers, so the next
-- ones come far behind them. Whoever is about to write a commit waits, and then sees the new
-- number.
create or replace function ledger_skip_places() returns boolean language plpgsql volatile
set search_path from current
as $$
begin
  lock table turns in exclusive mode;
  update store set value = value + 16777216 where name = 'feed.base';
  return true;
end
$$;
