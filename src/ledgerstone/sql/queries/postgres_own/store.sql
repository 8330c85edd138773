-- The store itself, over all tenants.

-- name: cursor_key()
-- The halves of the key that signs cursors.
select value from store where name in ('cursor.key.1', 'cursor.key.2') order by name

-- name: count_rows()
-- How much is stored.
select (select count(*) from sessions), (select count(*) from nodes), (select count(*) from turns)

-- name: list_tenants()
-- Every tenant that has a session, or something that needs none.
select tenant from sessions
union select tenant from attachments
union select tenant from blobs
union select tenant from uploads
union select tenant from artifacts
union select tenant from evidence
union select tenant from budgets
union select tenant from memories
union select tenant from embeddings
union select tenant from kept_runs
union select tenant from stubs
order by tenant

-- name: verified_tenants()
-- Every tenant of which something may be lost.
select tenant from sessions
union select tenant from usage_days
union select tenant from call_sums
union select tenant from ready
union select tenant from spaces
union select tenant from embeddings
union select tenant from artifacts
union select tenant from evidence
order by tenant

-- name: schema_texts()
-- What the database says its tables, columns, indexes and triggers are.
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
