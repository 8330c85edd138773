-- The beginning of a command, and what else one transaction asks of the database.

-- The key of a named lock. Two schemas of one database do not stand in each other's way.
create or replace function ledger_lock_key(tenant text, name text) returns bigint
language sql stable parallel safe
return hashtextextended(tenant || chr(31) || name, hashtext(current_schema())::bigint);

-- Microseconds since 1970 by the clock of this server.
create or replace function ledger_clock() returns bigint language sql volatile parallel safe
return (extract(epoch from clock_timestamp()) * 1000000)::bigint;

-- Sets the tenant and takes every lock of a command: the named ones by the order of their keys,
-- then the heads of all sessions concerned by the order of their numbers, so that no two commands
-- wait for one another. The time is read after that: it is never before that of whom was waited
-- for.
create or replace function ledger_begin(
  tenant text, sessions text[], runs text[], tickets text[], executions text[], dead text[],
  shared text[], exclusive text[], now_us bigint,
  out moment_us bigint, out xid bigint, out locked bigint[]
) language plpgsql volatile
set search_path from current
as $$
#variable_conflict use_column
declare
  _tenant text := tenant;
  _sessions text[] := sessions;
  _runs text[] := runs;
  _tickets text[] := tickets;
  _executions text[] := executions;
  _dead text[] := dead;
  _lock record;
  _numbers bigint[];
  _bounded boolean;
begin
  -- First of all: under row-level security there are no rows before.
  perform set_config('ledgerstone.tenant', _tenant, true);
  -- Whoever uses something shares the lock of the budgets, unless the tenant has any.
  _bounded := 'u' = any (ledger_begin.shared)
    and exists (select from budgets b where b.tenant = _tenant);
  for _lock in
    select ledger_lock_key(_tenant, l.name) as key, bool_or(l.alone) as alone from (
      select n.name, n.name = 'u' and _bounded as alone
      from unnest(ledger_begin.shared) n (name)
      union all
      select unnest(ledger_begin.exclusive), true
    ) l group by 1 order by 1
  loop
    if _lock.alone then
      perform pg_advisory_xact_lock(_lock.key);
    else
      perform pg_advisory_xact_lock_shared(_lock.key);
    end if;
  end loop;
  if not _bounded and 'u' = any (ledger_begin.shared)
    and exists (select from budgets b where b.tenant = _tenant) then
    raise serialization_failure using message = 'the first budget was set meanwhile';
  end if;
  _numbers := array(
    select s.number from sessions s
    where s.tenant = _tenant and s.id = any (_sessions));
  if cardinality(_runs) > 0 then
    _numbers := _numbers || array(
      select r.key >> 32 from runs r where r.id = any (_runs) and r.realm = _tenant);
  end if;
  if cardinality(_tickets) > 0 then
    _numbers := _numbers || array(
      select t.number from tickets t where t.tenant = _tenant and t.id = any (_tickets));
  end if;
  if cardinality(_executions) > 0 then
    _numbers := _numbers || array(
      select e.number from executions e where e.tenant = _tenant and e.id = any (_executions));
  end if;
  if cardinality(_dead) > 0 then
    _numbers := _numbers || array(
      select w.number from ended_work w
      where w.tenant = _tenant and w.id = any (_dead) and w.state = 'dead');
  end if;
  perform from heads h where h.number = any (_numbers) and h.tenant = _tenant
  order by h.number for no key update;
  locked := _numbers;
  moment_us := coalesce(ledger_begin.now_us, ledger_clock());
  xid := pg_current_xact_id()::text::bigint;
end
$$;
