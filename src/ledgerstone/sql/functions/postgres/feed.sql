-- Where the feed stands.

-- Every place below this one is decided: committed and visible, or never to come.
create or replace function ledger_horizon() returns bigint language sql stable
set search_path from current
return (pg_snapshot_xmin(pg_current_snapshot())::text::bigint
  + (select s.value from store s where s.name = 'feed.base')) * 1048576;

-- Called at opening: transactions of a cluster count from its birth, so a dump that was restored into
-- a younger one must add what is missing, or new commits would stand before old ones. True when the
-- feed is in order; false when this role may not put it in order.
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
  select greatest((select max(t.pos) from turns t),
    (select s.value from store s where s.name = 'feed.mark')) / 1048576 + 1 into _last;
  if _forced then
    alter table turns force row level security;
  end if;
  update store set value = greatest(value, _last - pg_current_xact_id()::text::bigint)
  where name = 'feed.base';
  update store set value = _cluster where name = 'feed.cluster';
  return true;
end
$$;
