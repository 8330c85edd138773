-- What every source is asked first.

-- name: sqlite_columns(name)
-- The columns of a table; none when there is no such table.
select name from pragma_table_info(:name)

-- name: postgres_columns(name)
-- The same, of the table that a bare name finds on the connection's path.
select attname from pg_attribute
where attrelid = to_regclass(:name) and attnum > 0 and not attisdropped
