-- What `ledgerstone partition` asks, once the functions beside this are there.

-- name: part_evidence(now)
-- Whether the table was divided just now.
select ledger_part_evidence(:now)

-- name: next_months(now, months)
-- How many partitions were made.
select ledger_next_months(:now, :months)

-- name: drop_months(older, now)
-- How many partitions were dropped.
select ledger_drop_months(:older, :now)

-- name: partitions()
-- What there is, and before which moment all of it is.
select name, before_us from ledger_partitions()
