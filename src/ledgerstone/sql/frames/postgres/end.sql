-- After the steps: what the schema is now.
update store set value = {version} where name = 'version';
select ledger_settle_feed();
