-- What only PostgreSQL is asked: how transactions begin and end, and facts about the server.

-- name: begin_command(tenant, sessions, runs, tickets, executions, dead, shared, alone, now_us)
-- The tenant, all locks of a command, then the time, the number of the transaction, the timeline on
-- which that number counts, and the numbers of the sessions that are locked.
select moment_us, xid, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8), locked
from ledger_begin(:tenant, :sessions, :runs, :tickets, :executions, :dead, :shared, :alone, :now_us)

-- name: begin_read(tenant)
-- The tenant of the queries that follow, and the time.
select ledger_clock(), set_config('ledgerstone.tenant', :tenant, true)

-- name: lock_session(tenant, id)
-- Nobody else moves this session until the transaction ends.
select h.number from sessions s join heads h on h.number = s.number and h.tenant = :tenant
where s.tenant = :tenant and s.id = :id for no key update of h

-- name: lock_name(tenant, name)
-- Nobody who needs it alone goes on before the transaction ends.
select pg_advisory_xact_lock_shared(ledger_lock_key(:tenant, :name)) is null

-- name: lock_numbers(tenant, numbers)
-- The same of several by number.
select number from heads
where number = any (cast(:numbers as bigint[])) and tenant = :tenant collate "POSIX"
order by number for no key update

-- name: new_numbers(count)
-- Numbers that no session has.
select nextval(pg_get_serial_sequence('sessions', 'number'))
from generate_series(1, cast(:count as bigint))

-- name: xact_status(xid)
-- What became of a transaction, null when that is too long ago; then who says so: the timeline, the
-- cluster, and when it last lost its memory. The message makes the end of this statement wait until a
-- synchronous standby has it, and so everything before it.
select pg_xact_status(cast(cast(cast(:xid as bigint) as text) as xid8)),
  left(pg_walfile_name(pg_current_wal_insert_lsn()), 8),
  (select system_identifier from pg_control_system()),
  cast(coalesce(extract(epoch from pg_stat_get_bgwriter_stat_reset_time()), 0) * 1000000 as bigint),
  pg_logical_emit_message(true, 'ledgerstone', 'xact_status') is not null

-- name: end_transaction(xid)
-- End the process that still holds a transaction of ours whose client is gone.
select pg_terminate_backend(pid) from pg_stat_activity
where backend_xid = cast(cast(mod(cast(:xid as bigint), 4294967296) as text) as xid)
  and datname = current_database() and pid <> pg_backend_pid()

-- name: cluster_identity()
-- Which cluster this is (a copy made by replication has the same number, a restored dump another), and
-- when it last lost its memory: a server that crashed gives numbers of transactions out again that
-- never reached its log, and counts its statistics from anew.
select system_identifier,
  cast(coalesce(extract(epoch from pg_stat_get_bgwriter_stat_reset_time()), 0) * 1000000 as bigint)
from pg_control_system()

-- name: wait_for_standby()
-- From here on, the end of this transaction waits for a synchronous standby.
select pg_logical_emit_message(true, 'ledgerstone', 'again') is not null

-- name: snapshot_moved()
-- A number that is another one after anybody committed: xmax alone is not, when older transactions
-- end after younger ones.
select hashtextextended(cast(pg_current_snapshot() as text), 0)

-- name: store_version()
-- The version of the schema.
select value from store where name = 'version'

-- name: store_functions()
-- Whose functions these are: `sql.migrate.layout` of the program that made them.
select value from store where name = 'functions'

-- name: settle_feed()
-- Whether new commits stand behind all old ones.
select ledger_settle_feed()

-- name: database_facts()
-- The server about itself.
select cast(current_setting('server_version_num') as bigint), pg_is_in_recovery(),
  current_setting('fsync'), current_setting('synchronous_commit'),
  current_setting('full_page_writes'),
  cast(current_setting('max_connections') as bigint),
  (select count(*) from pg_stat_activity)

-- name: database_sizes()
-- Bytes of the database, and of the tables of the store.
select pg_database_size(current_database()),
  coalesce((select sum(pg_total_relation_size(c.oid)) from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = current_schema() and c.relkind in ('r', 'p')), 0)

-- name: schema_present(schema)
-- Whether the tables of a store are in a schema.
select to_regclass(format('%I.store', cast(:schema as text))) is not null

-- name: search_path()
-- Where names are looked up now.
select current_setting('search_path')

-- name: set_search_path(path)
-- The same, until the transaction ends.
select set_config('search_path', :path, true)

-- name: missing_rights()
-- What somebody must grant this role before it can use the store; nothing when it can.
select format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), current_user)
where not has_schema_privilege(current_schema(), 'usage')
union all
select format('GRANT %s ON %I.%I TO %I', n.need, current_schema(), c.relname, current_user)
from pg_class c cross join unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE']) n (need)
where c.relnamespace = to_regnamespace(current_schema()) and c.relkind in ('r', 'p')
  and not c.relispartition
  and (n.need = 'SELECT' or c.relname <> 'store')
  and not has_table_privilege(c.oid, n.need)
union all
select format('GRANT USAGE ON SEQUENCE %I.%I TO %I', current_schema(), c.relname, current_user)
from pg_class c
where c.relnamespace = to_regnamespace(current_schema())
  and case c.relkind when 'S' then not has_sequence_privilege(c.oid, 'usage') else false end
