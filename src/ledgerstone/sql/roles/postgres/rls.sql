-- The rights of a role that sees one tenant at a time; both names are quoted ones.
select {schema}.ledger_secure('{role}'::regrole);
