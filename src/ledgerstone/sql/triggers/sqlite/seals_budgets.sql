-- The seals of budgets; what a seal is stands in seals.sql. What is used is written by every commit
-- that uses something, and is counted again by verify instead.

create temp trigger if not exists seal_new_budgets after insert on main.budgets
begin
  update budgets set seal = ledger_seal(new.tenant, new.id, new.scope, new.subject, new.body)
  where tenant = new.tenant and id = new.id;
end;

create temp trigger if not exists seal_budgets after update of
  tenant, id, scope, subject, body
on main.budgets
begin
  update budgets set seal = ledger_seal(new.tenant, new.id, new.scope, new.subject, new.body)
  where tenant = new.tenant and id = new.id;
end;
