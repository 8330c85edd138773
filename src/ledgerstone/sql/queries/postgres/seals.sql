-- What verify asks of the database itself.

-- name: keeps_seals()
-- Pages have checksums and tables have roles: the seals stay empty (docs/adr/0022).
select 0

-- name: schema_texts()
-- What the database says its tables, columns, indexes, functions and policies are.
select kind, name, tbl_name, sql from ledger_schema() order by kind, name, tbl_name, sql
