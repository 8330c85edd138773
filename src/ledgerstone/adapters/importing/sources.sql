-- What every source is asked first.

-- name: sqlite_columns(name)
-- The columns of a table, and whether it is one; none when nothing has that name.
select c.name, t.type = 'table' from pragma_table_list(:name) t, pragma_table_info(:name) c
where t.schema = 'main'

-- name: postgres_columns(name)
-- The same, of the table that a bare name finds on the connection's path.
select a.attname, c.relkind in ('r', 'p') from pg_class c
  join pg_attribute a on a.attrelid = c.oid
where c.oid = to_regclass(:name) and a.attnum > 0 and not a.attisdropped

-- name: postgres_limit()
-- Maximum time for each piece of rows: ten minutes, of which sorting a large table may take some.
set local statement_timeout = 600000
