-- The per-session queue. Columns of a batch are in the order of WorkRow in rules/work.py.
-- `unlikely` leads the planner to the index over claims; else it walks the session's whole queue.

-- name: find_batch(number, id, source_key)
-- A queued batch by its own id or by the key of its source.
select seq, queue, priority, id, source_key, delivery, slot, merge, available_us, max_attempts,
  backoff_us, payloads, enqueued_us, attempts, last_error, claim, claim_fence, claim_token,
  claim_owner, claimed_us, claim_expires_us
from work
where number = :number
  and id = :id -- if id
  and source_key = :source_key -- if source_key

-- name: insert_batch(number, later, seq, queue, priority, id, source_key, delivery, slot, merge, available_us, max_attempts, backoff_us, payloads, enqueued_us)
-- A new batch, unless its id or the key of its source is queued already.
insert into work (number, later, seq, queue, priority, id, source_key, delivery, slot, merge,
  available_us, max_attempts, backoff_us, payloads, enqueued_us)
values (:number, :later, :seq, :queue, :priority, :id, :source_key, :delivery, :slot, :merge,
  :available_us, :max_attempts, :backoff_us, :payloads, :enqueued_us)
on conflict do nothing

-- name: count_enqueued(number, enqueued)
-- Positions are never given out twice.
update heads set enqueued = :enqueued where number = :number

-- name: promote_work(number, queue, now_us)
-- What has become available since it was last looked at.
update work set later = 0
where number = :number and queue = :queue and later = 1 and available_us <= :now_us

-- name: candidates(number, queue, fence, now_us, limit)
-- What may be claimed next, in order: nobody's, or only an older generation's; nothing behind a batch
-- that waits for a decision.
select seq, queue, priority, id, source_key, delivery, slot, merge, available_us, max_attempts,
  backoff_us, payloads, enqueued_us, attempts, last_error, claim, claim_fence, claim_token,
  claim_owner, claimed_us, claim_expires_us
from work w
where number = :number and queue = :queue and later = 0
  and (claim is null or claim_fence < :fence) and available_us <= :now_us
  and not exists (select 1 from work p where p.number = w.number
    and p.claim_fence = 9223372036854775807 and (p.priority, p.seq) < (w.priority, w.seq))
order by priority, seq limit :limit

-- name: claim_batch(number, id, attempts, claim, claim_fence, claim_token, claim_owner, claimed_us, claim_expires_us)
-- Own a batch.
update work set attempts = :attempts, claim = :claim, claim_fence = :claim_fence,
  claim_token = :claim_token, claim_owner = :claim_owner, claimed_us = :claimed_us,
  claim_expires_us = :claim_expires_us
where number = :number and id = :id

-- name: claimed_batches(number, claim)
-- What a claim owns, in order.
select seq, queue, priority, id, source_key, delivery, slot, merge, available_us, max_attempts,
  backoff_us, payloads, enqueued_us, attempts, last_error, claim, claim_fence, claim_token,
  claim_owner, claimed_us, claim_expires_us
from work
where number = :number and unlikely(claim = :claim) order by priority, seq

-- name: claim_places(number, claim)
-- Under which fence a claim owns its batches, in which queues they stand, and its token.
select claim_fence, queue, claim_token from work where number = :number and unlikely(claim = :claim)

-- name: renew_claim(number, claim, expires_us)
-- A later end.
update work set claim_expires_us = case
  when claim_expires_us > :expires_us then claim_expires_us else :expires_us end
where number = :number and unlikely(claim = :claim)

-- name: free_batch(number, id, later, available_us, attempts, last_error)
-- A batch is nobody's again, now or later.
update work set later = :later, available_us = :available_us, attempts = :attempts,
  last_error = :last_error, claim = null, claim_fence = 0, claim_token = null, claim_owner = null,
  claimed_us = 0, claim_expires_us = 0
where number = :number and id = :id

-- name: park_batch(number, id, available_us, attempts, claim, claim_fence, claimed_us)
-- A batch waits for a decision about an execution, which stands in the place of its claim.
update work set later = 1, available_us = :available_us, attempts = :attempts, claim = :claim,
  claim_fence = :claim_fence, claim_token = null, claim_owner = null, claimed_us = :claimed_us,
  claim_expires_us = 0
where number = :number and id = :id

-- name: parked_batches(number)
-- What waits for a decision.
select seq, queue, priority, id, source_key, delivery, slot, merge, available_us, max_attempts,
  backoff_us, payloads, enqueued_us, attempts, last_error, claim, claim_fence, claim_token,
  claim_owner, claimed_us, claim_expires_us
from work
where number = :number and claim_fence = 9223372036854775807 order by priority, seq

-- name: complete_claim(number, claim)
-- Finished batches leave the queue.
delete from work where number = :number and unlikely(claim = :claim)

-- name: drop_batch(number, id)
-- A batch leaves the queue.
delete from work where number = :number and id = :id

-- name: list_work(number)
-- Everything queued, in the order it came.
select seq, queue, priority, id, source_key, delivery, slot, merge, available_us, max_attempts,
  backoff_us, payloads, enqueued_us, attempts, last_error, claim, claim_fence, claim_token,
  claim_owner, claimed_us, claim_expires_us
from work
where number = :number order by seq
