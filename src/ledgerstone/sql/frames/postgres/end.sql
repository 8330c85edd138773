-- After the steps: what the schema is now.
update store set value = {version} where name = 'version';
insert into store (name, value) values ('functions', {layout})
on conflict (name) do update set value = excluded.value;
select ledger_settle_feed();
