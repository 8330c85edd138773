-- What a test asks of a whole server. The format is that of sql/queries/sessions.sql, with one
-- difference: {name} is put in as a quoted name, since names cannot be bound.

-- name: create_database()
-- Copied as files: where they lie in memory that is faster than through the log.
create database {name} template {template} strategy file_copy

-- name: drop_database()
-- Also when somebody is still connected.
drop database if exists {name} with (force)

-- name: answers()
select 1

-- name: insist_on_standby()
-- From now on a commit waits for the standby of that name.
alter system set synchronous_standby_names = {name}

-- name: forget_standby()
alter system reset synchronous_standby_names

-- name: reload()
select pg_reload_conf()

-- name: standbys(name)
-- How the standby of that name stands.
select sync_state from pg_stat_replication
where application_name = :name and state = 'streaming'

-- name: create_locked_role()
-- The one role that has to say a password.
create role {name} login superuser password {password}

-- name: cut_others()
-- Nobody else stays connected to this database.
select pg_terminate_backend(pid) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid()

-- name: empty_tables()
-- Every row goes but those about the store itself, and numbers begin again: as good as a new
-- database, and ten times faster. No table refers to another, so no order is needed.
do $$
declare
  one record;
begin
  for one in select c.oid::regclass as place, c.relkind = 'S' as counts from pg_class c
    where c.relnamespace = 'ledgerstone'::regnamespace and c.relname <> 'store'
      and c.relkind in ('r', 'S')
  loop
    if one.counts then
      perform setval(one.place, 1, false);
    else
      execute format('delete from %s', one.place);
    end if;
  end loop;
end
$$

-- name: enter_schema()
set search_path = {name}

-- name: table_names(schema)
select tablename from pg_tables where schemaname = :schema order by tablename

-- name: copy_table()
copy {name} to stdout (format binary)
