-- Budgets: what may be used, and what of it is. What is used follows from usage_days.

-- name: budgets_of(tenant, number, session)
-- Those that bound a session: its own, its user's and the tenant's.
select id, body, since_us, spent_nano, spent_tokens from budgets
where tenant = :tenant and scope = 'session' and subject = :session
union all
select id, body, since_us, spent_nano, spent_tokens from budgets
where tenant = :tenant and scope = 'tenant' and subject = ''
union all
select id, body, since_us, spent_nano, spent_tokens from budgets
where tenant = :tenant and scope = 'user'
  and subject = (select "user" from sessions where number = :number)

-- name: budgets_on(tenant, scope, subject)
-- Those of one subject.
select id, body, since_us, spent_nano, spent_tokens from budgets
where tenant = :tenant and scope = :scope and subject = :subject

-- name: list_budgets(tenant)
-- All of a tenant, by id.
select id, body, since_us, spent_nano, spent_tokens from budgets
where tenant = :tenant order by id

-- name: any_budget(tenant)
-- One of a tenant, whichever.
select 1 from budgets where tenant = :tenant limit 1

-- name: user_of(number)
-- Whose session it is.
select "user" from sessions where number = :number

-- name: insert_budget(tenant, id, scope, subject, body, since_us, spent_nano, spent_tokens)
-- Set a budget whose id is free.
insert into budgets (tenant, id, scope, subject, body, since_us, spent_nano, spent_tokens)
values (:tenant, :id, :scope, :subject, :body, :since_us, :spent_nano, :spent_tokens)

-- name: drop_budget(tenant, id)
-- Remove a budget.
delete from budgets where tenant = :tenant and id = :id

-- name: spend(tenant, id, since_us, spent_nano, spent_tokens)
-- What of a budget is used now; no sealed column is named here.
update budgets set since_us = :since_us, spent_nano = :spent_nano, spent_tokens = :spent_tokens
where tenant = :tenant and id = :id

-- name: last_used_day(tenant, whole, user, session)
-- The last day on which a budget's subject used something.
select max(u.day) from usage_days u where u.tenant = :tenant -- if whole
select max(u.day) from sessions s join usage_days u on u.number = s.number -- if user
select max(u.day) from sessions s join usage_days u on u.number = s.number -- if session
where s.tenant = :tenant and s.purged = 0 and s."user" = :user -- if user
where s.tenant = :tenant and s.purged = 0 and s.id = :session -- if session

-- name: spent_between(tenant, whole, user, session, currency, first, last)
-- What a budget's subject used on these days, in one currency and in tokens; in halves, as in
-- usage.sql, and null when that is nothing.
select sum(case when u.currency = :currency then u.cost_nano >> 31 else 0 end), -- if whole
  sum(case when u.currency = :currency then u.cost_nano & 2147483647 else 0 end), -- if whole
  sum(u.total >> 31), sum(u.total & 2147483647) -- if whole
from usage_days u -- if whole
where u.tenant = :tenant -- if whole
select sum(case when u.currency = :currency then u.cost_nano >> 31 else 0 end), -- if user
  sum(case when u.currency = :currency then u.cost_nano & 2147483647 else 0 end), -- if user
  sum(u.total >> 31), sum(u.total & 2147483647) -- if user
from sessions s join usage_days u on u.number = s.number -- if user
where s.tenant = :tenant and s.purged = 0 and s."user" = :user -- if user
select sum(case when u.currency = :currency then u.cost_nano >> 31 else 0 end), -- if session
  sum(case when u.currency = :currency then u.cost_nano & 2147483647 else 0 end), -- if session
  sum(u.total >> 31), sum(u.total & 2147483647) -- if session
from sessions s join usage_days u on u.number = s.number -- if session
where s.tenant = :tenant and s.purged = 0 and s.id = :session -- if session
  and u.day >= :first and u.day < :last
