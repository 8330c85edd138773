-- The per-session queue.

-- name: find_batch(number, id, source_key)
-- A queued batch by its own id or by the key of its source.
select seq, id, source_key, payloads, claim, enqueued_us from work
where number = :number
  and id = :id -- if id
  and source_key = :source_key -- if source_key

-- name: insert_batch(number, seq, id, source_key, payloads, enqueued_us)
-- A new batch at the end.
insert into work (number, seq, id, source_key, payloads, enqueued_us)
values (:number, :seq, :id, :source_key, :payloads, :enqueued_us)

-- name: count_enqueued(number, enqueued)
-- Positions are never given out twice.
update heads set enqueued = :enqueued where number = :number

-- name: claimed_batches(number, claim)
-- What a claim owns.
select seq, id, source_key, payloads, claim, enqueued_us, claim_fence from work
where number = :number and claim = :claim order by seq

-- name: next_batch(number, fence)
-- The oldest batch that nobody owns, or only an older generation.
select seq from work
where number = :number and (claim is null or claim_fence < :fence)
order by seq limit 1

-- name: claim_batch(number, seq, claim, fence)
-- Own a batch.
update work set claim = :claim, claim_fence = :fence where number = :number and seq = :seq

-- name: complete_claim(number, claim)
-- Finished batches leave the queue.
delete from work where number = :number and claim = :claim

-- name: list_work(number)
-- Everything queued, in order.
select seq, id, source_key, payloads, claim, enqueued_us from work
where number = :number order by seq
