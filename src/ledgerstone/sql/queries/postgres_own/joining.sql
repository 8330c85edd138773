-- A turn in a transaction of the caller's.

-- name: server_identity()
-- Which server this is, and which database of it.
select (select system_identifier from pg_control_system()),
  (select cast(d.oid as bigint) from pg_database d where d.datname = current_database())

-- name: join_look()
-- What is set on a connection of somebody else's, and where it leads.
select current_setting('search_path'), current_setting('statement_timeout'),
  coalesce(current_setting('ledgerstone.tenant', true), ''),
  (select system_identifier from pg_control_system()),
  (select cast(d.oid as bigint) from pg_database d where d.datname = current_database())

-- name: join_set(path, timeout, tenant)
-- For the rest of the transaction.
select set_config('search_path', :path, true), set_config('statement_timeout', :timeout, true),
  set_config('ledgerstone.tenant', :tenant, true)
