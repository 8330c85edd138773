-- Which log belongs to a file (engines/sqlite/marks.py).

-- name: write_mark(mark)
update generation set mark = :mark

-- name: read_mark()
select mark from generation

-- The store itself.

-- name: cursor_halves()
-- The halves of the key that signs cursors.
select value from store where name in ('cursor.key.1', 'cursor.key.2') order by name

-- name: count_stored()
-- How much is stored, over all tenants; a blank turn is of session 0.
select (select count(*) from sessions), (select count(*) from nodes),
  (select count(*) from turns where number > 0)

-- name: schema_texts()
-- What the file says its tables are; an ANALYZE by somebody else may have added its own.
select type, name, tbl_name, sql from sqlite_schema
where name not like 'sqlite_stat%' order by type, name
