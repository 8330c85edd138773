-- Commands of the queue in one round trip each: see functions/postgres/take.sql. Lists travel as one
-- text each, numbers as an array reads, texts between chr(31) with chr(30) for null.

-- name: take_sessions(tenant, now_us, queue, most, again, texts, ttls)
-- Sessions that are due, for as many takers as there are.
select * from ledger_take(:tenant, :now_us, :queue, :most, :again,
  string_to_array(:texts, chr(31), chr(30)), cast(cast(:ttls as text) as bigint[]))

-- name: claim_groups(tenant, now_us, most, sessions, queues, fences, ttls, texts)
-- The next group of batches for each claimant.
select * from ledger_claim(:tenant, :now_us, :most,
  string_to_array(:sessions, chr(31), chr(30)), string_to_array(:queues, chr(31), chr(30)),
  cast(cast(:fences as text) as bigint[]), cast(cast(:ttls as text) as bigint[]),
  string_to_array(:texts, chr(31), chr(30)))

-- name: renew_claims(tenant, now_us, ttls, texts)
-- A later end for claims.
select * from ledger_renew_claims(:tenant, :now_us, cast(cast(:ttls as text) as bigint[]),
  string_to_array(:texts, chr(31), chr(30)))
