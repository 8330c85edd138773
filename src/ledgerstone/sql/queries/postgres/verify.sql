-- What verify asks of the database itself.

-- name: schema_texts()
-- What the database says its tables, columns, indexes, functions and policies are.
select kind, name, tbl_name, sql from ledger_schema() order by kind, name, tbl_name, sql

-- name: broken_lists(tenant)
-- Lists that lack their first row or one in between. Where months are dropped (`ledgerstone partition`),
-- the first documents of a list may be gone.
select session, kind, count(*), max(n) from evidence
where tenant = :tenant
group by session, kind
having min(n) <> 0 or count(*) <> coalesce(max(n) filter (where n > 0) + 2
  - case when (select c.relkind = 'p' from pg_class c where c.oid = to_regclass('evidence'))
      then min(n) filter (where n > 0) else 1 end, 1)
order by session, kind
