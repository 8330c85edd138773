-- Budgets with their seals, for verify; what is used of them follows from usage_days.

-- name: sealed_budgets(tenant)
-- What was decided.
select tenant, id, scope, subject, body, seal from budgets where tenant = :tenant

-- name: loose_budgets(tenant)
-- Budgets of other tenants.
select tenant, id, scope, subject, body, seal from budgets where tenant <> :tenant
