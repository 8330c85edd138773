-- Row-level security.

-- name: security_gaps()
-- Why row-level security would not hold here; no row when it does.
select * from ledger_gaps()

-- name: security_binds()
-- Whether policies hide rows from this role.
select row_security_active('sessions')
