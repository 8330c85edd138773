-- The seals of tickets and executions; what a seal is stands in seals.sql.

create temp trigger if not exists seal_new_tickets after insert on main.tickets
begin
  update tickets set seal = ledger_seal(
    new.number, new.id, new.tenant, new.run, new.status, new.reason, new.created_us,
    new.expires_us, new.body)
  where tenant = new.tenant and id = new.id;
end;

create temp trigger if not exists seal_tickets after update of
  number, id, tenant, run, status, reason, created_us, expires_us, body
on main.tickets
begin
  update tickets set seal = ledger_seal(
    new.number, new.id, new.tenant, new.run, new.status, new.reason, new.created_us,
    new.expires_us, new.body)
  where tenant = new.tenant and id = new.id;
end;

create temp trigger if not exists seal_new_executions after insert on main.executions
begin
  update executions set seal = ledger_seal(
    new.number, new.id, new.tenant, new.call, new.message, new.run, new.ticket, new.status,
    new.fence, new.created_us, new.body)
  where tenant = new.tenant and id = new.id;
end;

create temp trigger if not exists seal_executions after update of
  number, id, tenant, call, message, run, ticket, status, fence, created_us, body
on main.executions
begin
  update executions set seal = ledger_seal(
    new.number, new.id, new.tenant, new.call, new.message, new.run, new.ticket, new.status,
    new.fence, new.created_us, new.body)
  where tenant = new.tenant and id = new.id;
end;
