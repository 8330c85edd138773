-- Before the steps of a migration; the name of the schema was checked to be a plain one.
-- Replicas that start together wait here for one another. The schema is looked for first: making one
-- needs a right that somebody may lack whose schema is there.
select pg_advisory_xact_lock(hashtextextended('ledgerstone.migrate {schema}', 0));
do $$ begin
  if to_regnamespace('"{schema}"') is null then create schema "{schema}"; end if;
end $$;
set local search_path = "{schema}", pg_temp;
