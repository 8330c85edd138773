-- Commands of the queue in one round trip each: see functions/postgres/take.sql. Lists travel as one
-- text each, numbers as an array reads, texts between chr(31) with chr(30) for null.

-- name: take_sessions(tenant, now_us, queue, most, texts, ttls, again)
-- Sessions that are due, for as many takers as there are.
select * from ledger_take(:tenant, :now_us, :queue, :most, :again,
  string_to_array(:texts, chr(31), chr(30)), cast(cast(:ttls as text) as bigint[]))

-- name: claim_groups(tenant, now_us, most, texts, fences, ttls, sessions, queues)
-- The next group of batches for each claimant.
select * from ledger_claim(:tenant, :now_us, :most,
  string_to_array(:sessions, chr(31), chr(30)), string_to_array(:queues, chr(31), chr(30)),
  cast(cast(:fences as text) as bigint[]), cast(cast(:ttls as text) as bigint[]),
  string_to_array(:texts, chr(31), chr(30)))

-- name: renew_claims(tenant, now_us, texts, ttls)
-- A later end for claims.
select * from ledger_renew_claims(:tenant, :now_us, cast(cast(:ttls as text) as bigint[]),
  string_to_array(:texts, chr(31), chr(30)))

-- name: claim_alone(tenant, number, version, was_us, expires_us, now_us, fence, token, claim, queue, boundary, claim_token, owner, ttl_us)
-- The first batch of a session under a live lease; none that is over. At any other boundary than
-- `idle`, only what may come in the middle of a turn. It is enough where nobody else waits, as in
-- engines/postgres/planned/single.py.
with held as materialized (
  select k.number, k.expires_us, coalesce(cast(:now_us as bigint), ledger_clock()) as clock_us
  from heads k
  where k.number = :number and k.tenant = :tenant and k.xmin = :version
    and k.updated_us = :was_us and k.expires_us = :expires_us
    and k.fence = cast(:fence as bigint) and k.owner is not null and k.token = cast(:token as text)
    and k.expires_us > coalesce(cast(:now_us as bigint), ledger_clock())
    and (select true from work w
      where w.number = :number and w.tenant = :tenant and w.claim = cast(:claim as text) limit 1) is null
    and (select true from work w where w.number = :number and w.tenant = :tenant
      and w.claim_fence = 9223372036854775807 limit 1) is null
    and (select true from ready r join work w on w.number = r.number and w.tenant = r.tenant
        and w.queue = r.queue and w.later = 1
      where r.number = :number and r.tenant = :tenant collate "POSIX"
        and w.available_us <= coalesce(cast(:now_us as bigint), ledger_clock()) limit 1) is null
  for no key update skip locked
), first as materialized (
  select h.clock_us, h.expires_us, r.due_us, v.* from held h cross join ready r cross join lateral (
    select w.number, w.id, w.queue, w.priority, w.seq, w.delivery,
      w.superseded is not null or w.max_attempts is not null and w.attempts >= w.max_attempts as is_spent
    from work w
    where w.number = :number and w.tenant = :tenant and w.queue = r.queue and w.later = 0
      and (w.claim is null or w.claim_fence < cast(:fence as bigint)) and w.available_us <= h.clock_us
    order by w.priority, w.seq limit 1
  ) v
  where r.number = h.number and r.tenant = :tenant collate "POSIX"
    and (cast(:queue as text) is null or r.queue = :queue)
  order by v.priority, v.seq limit 1
), moved as (
  update ready r set due_us = f.expires_us from first f
  where r.number = f.number and r.tenant = :tenant collate "POSIX" and r.queue = f.queue
    and f.due_us <> f.expires_us and not f.is_spent
    and (cast(:boundary as text) = 'idle' or f.delivery = 'earliest_safe_boundary')
)
update work w set attempts = w.attempts + 1, claim = :claim, claim_fence = :fence,
  claim_token = cast(:claim_token as text), claim_owner = cast(:owner as text),
  claimed_us = f.clock_us, claim_expires_us = f.clock_us + cast(:ttl_us as bigint)
from first f
where w.number = f.number and w.tenant = :tenant and w.id = f.id and not f.is_spent
  and (w.claim is null or w.claim_fence < :fence)
  and (cast(:boundary as text) = 'idle' or f.delivery = 'earliest_safe_boundary')
returning cast(1 as bigint), 'ok', w.seq, w.queue, w.priority, w.id, w.source_key, w.delivery, w.slot,
  w.merge, w.available_us, w.max_attempts, w.backoff_us, w.payloads, w.enqueued_us, w.attempts,
  w.last_error, w.claim, w.claim_fence, w.claim_token, w.claim_owner, w.claimed_us, w.claim_expires_us
