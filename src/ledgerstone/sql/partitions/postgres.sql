-- Traces and reports in partitions of one month, for those who keep them for so long and no longer:
-- dropping a partition costs nothing, however much is in it. `ledgerstone partition` runs this.
--
-- What changes: the primary key of `evidence` gets the time of a row, as partitions ask for. That no
-- place of a list is used twice is seen to by the lock that every writer of it holds.

-- The month of a moment, and where it begins, in microseconds.
create or replace function ledger_month(moment_us bigint, months integer default 0) returns bigint
language sql immutable
return (extract(epoch from date_trunc('month', to_timestamp(moment_us / 1000000) at time zone 'UTC')
  + make_interval(months => months)) * 1000000)::bigint;

create or replace function ledger_month_name(moment_us bigint) returns text language sql immutable
return 'evidence_' || to_char(to_timestamp(moment_us / 1000000) at time zone 'UTC', 'YYYYMM');

-- The partitions, and before which moment everything in them is; null for the rest.
create or replace function ledger_partitions(out name text, out before_us bigint)
returns setof record language sql stable
set search_path from current
as $$
  select c.relname::text,
    (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \(''?(\d+)'))[1]::bigint
  from pg_inherits i join pg_class c on c.oid = i.inhrelid
  where i.inhparent = to_regclass('evidence') order by c.relname;
$$;

-- The table as it is becomes the first partition, up to the end of this month; nothing is copied.
create or replace function ledger_part_evidence(now_us bigint) returns boolean language plpgsql
set search_path from current
as $$
declare
  _grant record;
begin
  perform pg_advisory_xact_lock(ledger_lock_key('', 'partitions'));
  if row_security_active('evidence') then
    raise exception 'row-level security hides rows from this role; run it as one with BYPASSRLS'
      using errcode = '55000';
  end if;
  if (select c.relkind = 'p' from pg_class c where c.oid = 'evidence'::regclass) then
    return false;
  end if;
  if (select c.relrowsecurity from pg_class c where c.oid = 'evidence'::regclass) then
    raise exception 'row-level security is on; switch it off for this table (ALTER TABLE %.evidence '
      'DISABLE ROW LEVEL SECURITY), divide it, then run `ledgerstone migrate --rls ROLE`',
      current_schema() using errcode = '55000';
  end if;
  lock table evidence in access exclusive mode;
  alter table evidence rename to evidence_before;
  alter table evidence_before drop constraint evidence_pkey;
  alter table evidence_before add primary key (tenant, session, kind, n, created_us);
  create table evidence (like evidence_before including defaults including storage)
    partition by range (created_us);
  alter table evidence add primary key (tenant, session, kind, n, created_us);
  execute format('alter table evidence attach partition evidence_before '
    'for values from (minvalue) to (%s)', ledger_month(now_us, 1));
  -- What no month was made for: a clock that is wrong, or nobody who made one.
  create table evidence_rest partition of evidence default;
  for _grant in
    select a.privilege_type as what, a.grantee::regrole as who from pg_class c
      cross join aclexplode(c.relacl) a
    where c.oid = 'evidence_before'::regclass and a.grantee <> 0 and a.grantee <> c.relowner
  loop
    execute format('grant %s on evidence to %s', _grant.what, _grant.who);
  end loop;
  return true;
end
$$;

-- Months from the next one on that have no partition yet; what the rest has of them moves there.
create or replace function ledger_next_months(now_us bigint, months integer) returns bigint
language plpgsql
set search_path from current
as $$
declare
  _made bigint := 0;
  _secured boolean := (select c.relrowsecurity from pg_class c where c.oid = 'evidence'::regclass);
  _from bigint;
  _to bigint;
  _name text;
begin
  perform pg_advisory_xact_lock(ledger_lock_key('', 'partitions'));
  for i in 0..months loop
    _from := ledger_month(now_us, i);
    _to := ledger_month(now_us, i + 1);
    _name := ledger_month_name(_from);
    continue when exists (select from ledger_partitions() p where p.name = _name)
      or exists (select from ledger_partitions() p where p.name = 'evidence_before' and p.before_us >= _to);
    execute format('create table %I (like evidence including all)', _name);
    execute format('with moved as (delete from evidence_rest where created_us >= %s '
      'and created_us < %s returning *) insert into %I select * from moved', _from, _to, _name);
    execute format('alter table evidence attach partition %I for values from (%s) to (%s)',
      _name, _from, _to);
    if _secured then
      execute format('alter table %I enable row level security, force row level security', _name);
      execute format('create policy ledger_of_tenant on %I using (tenant = (select ledger_tenant()))',
        _name);
    end if;
    _made := _made + 1;
  end loop;
  return _made;
end
$$;

-- Drop every partition in which all is older. The row that says that there is a list stays, as one of
-- now, so an emptied list is still a list.
create or replace function ledger_drop_months(older_us bigint, now_us bigint) returns bigint
language plpgsql
set search_path from current
as $$
declare
  _dropped bigint := 0;
  _old record;
begin
  perform pg_advisory_xact_lock(ledger_lock_key('', 'partitions'));
  for _old in
    select p.name, p.before_us from ledger_partitions() p
    where p.before_us <= least(older_us, ledger_month(now_us))
  loop
    execute format('lock table %I in access exclusive mode', _old.name);
    update evidence set created_us = now_us where n = 0 and created_us < _old.before_us;
    execute format('drop table %I', _old.name);
    _dropped := _dropped + 1;
  end loop;
  return _dropped;
end
$$;
