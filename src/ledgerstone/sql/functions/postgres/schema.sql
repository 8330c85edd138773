-- What the tables of this schema are, in words that do not depend on the version of the server.
create or replace function ledger_schema(
  out kind text, out name text, out tbl_name text, out sql text
) returns setof record language sql stable
set search_path from current
begin atomic
  select 'column', a.attname::text, c.relname::text,
    format_type(a.atttypid, a.atttypmod) || case when a.attnotnull then ' not null' else '' end
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  where n.nspname = current_schema() and c.relkind in ('r', 'p')
  union all
  select 'index', i.relname::text, c.relname::text,
    case when x.indisunique then 'unique' else '' end
      || case when x.indisvalid then '' else ' invalid' end
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
    join pg_index x on x.indrelid = c.oid join pg_class i on i.oid = x.indexrelid
  where n.nspname = current_schema() and c.relkind in ('r', 'p')
  union all
  select 'trigger', g.tgname::text, c.relname::text, 'of somebody else'
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
    join pg_trigger g on g.tgrelid = c.oid
  where n.nspname = current_schema() and not g.tgisinternal;
end;
