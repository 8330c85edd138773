-- Row-level security: a role that can only touch rows of the tenant its transaction named.

-- Called by the owner of the tables, again after each migration. Every table gets a policy, also
-- for its owner; one without a tenant is refused. `store` has no tenant: a role only reads it.
create or replace function ledger_secure(role regrole) returns void language plpgsql volatile
set search_path from current
as $$
declare
  _table record;
  _tenant text;
begin
  perform from pg_roles r where r.oid = role and (r.rolsuper or r.rolbypassrls);
  if found then
    raise exception '% is a superuser or has BYPASSRLS: no policy would hold for it', role;
  end if;
  perform ledger_settle_feed();
  execute format('grant usage on schema %I to %s', current_schema(), role);
  execute format('grant execute on all functions in schema %I to %s', current_schema(), role);
  execute format('grant usage on all sequences in schema %I to %s', current_schema(), role);
  for _table in
    select c.oid, c.relname as name, c.relowner as owner from pg_class c
      join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = current_schema() and c.relkind in ('r', 'p') order by c.relname
  loop
    if pg_has_role(role, _table.owner, 'usage') then
      raise exception '% owns the table %: make the tables with another role', role, _table.name;
    end if;
    execute format('alter table %I enable row level security', _table.name);
    continue when _table.name = 'store';
    select a.attname into _tenant from pg_attribute a
    where a.attrelid = _table.oid and a.attname in ('realm', 'tenant') and not a.attisdropped
    order by a.attname limit 1;
    if _tenant is null then
      raise exception 'the table % has no column with its tenant', _table.name;
    end if;
    execute format('alter table %I force row level security', _table.name);
    execute format('drop policy if exists ledger_of_tenant on %I', _table.name);
    execute format('create policy ledger_of_tenant on %I using (%I = (select ledger_tenant()))',
      _table.name, _tenant);
    execute format('grant select, insert, update, delete on %I to %s', _table.name, role);
  end loop;
  drop policy if exists ledger_reads on store;
  drop policy if exists ledger_sweeps on store;
  create policy ledger_reads on store for select using (true);
  execute format('revoke insert, update, delete, truncate on store from %s', role);
  execute format('grant select on store to %s', role);
end
$$;

-- Why row-level security would not hold for whoever asks: one row per reason.
create or replace function ledger_gaps() returns setof text language plpgsql stable
set search_path from current
as $$
begin
  return query
    select format('the role %s is a superuser or has BYPASSRLS', r.rolname)
    from pg_roles r where r.rolname = current_user and (r.rolsuper or r.rolbypassrls);
  return query
    select format('the table %s has no policy for its tenant', c.relname)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = current_schema() and c.relkind in ('r', 'p') and c.relname <> 'store'
      and not (c.relrowsecurity and c.relforcerowsecurity and exists (
        select from pg_policy p where p.polrelid = c.oid and p.polname = 'ledger_of_tenant'))
    order by c.relname;
end
$$;
