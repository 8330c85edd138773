-- What the tables of this schema are, as texts that two databases can compare.
create or replace function ledger_schema(
  out kind text, out name text, out tbl_name text, out sql text
) returns setof record language sql stable
set search_path from current
begin atomic
  select 'column', a.attname::text, c.relname::text, format_type(a.atttypid, a.atttypmod)
    || case when a.attnotnull then ' not null' else '' end
    || coalesce(' collate ' || (select l.collname from pg_collation l where l.oid = a.attcollation), '')
    || coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
  where c.relnamespace = (select n.oid from pg_namespace n where n.nspname = current_schema()) and c.relkind in ('r', 'p')
  union all
  select 'index', i.indexname::text, i.tablename::text,
    replace(i.indexdef, quote_ident(i.schemaname) || '.', '')
  from pg_indexes i where i.schemaname = current_schema()
  union all
  select 'constraint', k.conname::text, c.relname::text, pg_get_constraintdef(k.oid)
  from pg_constraint k join pg_class c on c.oid = k.conrelid
  where c.relnamespace = (select n.oid from pg_namespace n where n.nspname = current_schema()) and k.contype <> 'n'
  union all
  select 'trigger', g.tgname::text, c.relname::text, pg_get_triggerdef(g.oid)
  from pg_trigger g join pg_class c on c.oid = g.tgrelid
  where c.relnamespace = (select n.oid from pg_namespace n where n.nspname = current_schema()) and not g.tgisinternal;
end;
