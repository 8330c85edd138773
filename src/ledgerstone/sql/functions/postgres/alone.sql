-- What `commit_alone` asks (queries/postgres_own/alone.sql). These look with a snapshot of their own, so
-- that they see what was committed before their caller got its locks.

-- Whether nobody has the run and nothing bounds what is used. `used` and `made`: whether the caller got
-- the locks that keep it so, null where there is nothing to keep. They are arguments since those come
-- before the call.
create or replace function ledger_is_free(tenant text, run text, used boolean, made boolean)
returns boolean language plpgsql volatile
as $$
#variable_conflict use_variable
begin
  return coalesce(used, true) and coalesce(made, true) and coalesce(
    (select true from runs r where r.id = run and r.realm = tenant limit 1),
    (select true from kept_runs k where k.tenant = tenant and k.id = run limit 1),
    (select true from budgets b where used and b.tenant = tenant limit 1)) is null;
end
$$;

-- A lease that ended while its head was waited for: nothing of the statement stays.
create or replace function ledger_refuse() returns integer language plpgsql volatile
as $$
begin
  raise serialization_failure using message = 'the lease ended meanwhile';
end
$$;
