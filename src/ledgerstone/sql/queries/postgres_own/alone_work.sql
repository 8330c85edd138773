-- Work when nobody else waits: one plain statement each (docs/adr/0023), as in alone.sql. Whoever queues a
-- batch writes the head, so no work can be in a session that its version does not know. What others may
-- change without that (hand back, cancel) leads at worst to a place in the line that a taker corrects.
--
-- No row comes back when something is not as it was expected, or a batch waits for a decision; the functions in apply.sql and
-- take_claims.sql then say what.

-- name: enqueue_alone(tenant, number, version, was_us, expires_us, now_us, planned_us, is_held, seq, later, priority, available_us, max_attempts, backoff_us, enqueued_us, queue, id, source_key, delivery, slot, merge, payloads, due_us)
-- One batch, unless its id or the key of its source is queued already.
with moved as (
  update heads h set enqueued = :seq
  where h.number = :number and h.tenant = :tenant and h.xmin = :version
    and h.updated_us = :was_us and h.expires_us = :expires_us
    and (h.owner is not null and h.expires_us > coalesce(cast(:now_us as bigint), ledger_clock()))
      = (cast(:is_held as bigint) = 1)
    and abs(coalesce(cast(:now_us as bigint), ledger_clock()) - cast(:planned_us as bigint)) <= 250000
    and (select true from work w
      where w.number = :number and w.tenant = :tenant and w.id = :id limit 1) is null
    and (select true from work w -- if source_key
      where w.number = :number and w.tenant = :tenant and w.source_key = :source_key limit 1) is null -- if source_key
  returning cast(cast(cast(pg_current_xact_id() as xid) as text) as bigint) as version,
    coalesce(cast(:now_us as bigint), ledger_clock()) as clock_us
), queued as (
  insert into work (tenant, number, later, seq, priority, available_us, max_attempts, backoff_us,
    enqueued_us, queue, id, delivery, slot, merge, payloads
    , source_key -- if source_key
  )
  select :tenant, :number, cast(:later as bigint), :seq, cast(:priority as bigint),
    cast(:available_us as bigint), cast(:max_attempts as bigint), cast(:backoff_us as bigint),
    cast(:enqueued_us as bigint), cast(:queue as text), :id, cast(:delivery as text),
    cast(:slot as text), cast(:merge as text), cast(:payloads as bytea)
    , :source_key -- if source_key
  from moved
), lined as (
  insert into ready as r (tenant, number, priority, due_us, queue)
  select :tenant, :number, cast(:priority as bigint), cast(:due_us as bigint), cast(:queue as text)
  from moved
  on conflict (number, queue) do update set
    priority = least(r.priority, excluded.priority), due_us = least(r.due_us, excluded.due_us)
  where excluded.priority < r.priority or excluded.due_us < r.due_us
)
select m.version, m.clock_us from moved m

-- name: claim_alone(tenant, number, version, was_us, expires_us, now_us, fence, token, claim, queue, is_safe, claim_token, owner, ttl_us)
-- The first batch of a session under a live lease; none that is over. `is_safe`: only what
-- may come in the middle of a turn.
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
    and r.queue = :queue -- if queue
  order by v.priority, v.seq limit 1
), moved as (
  update ready r set due_us = f.expires_us from first f
  where r.number = f.number and r.tenant = :tenant collate "POSIX" and r.queue = f.queue
    and f.due_us <> f.expires_us and not f.is_spent
    and f.delivery = 'earliest_safe_boundary' -- if is_safe
)
update work w set attempts = w.attempts + 1, claim = :claim, claim_fence = :fence,
  claim_token = cast(:claim_token as text), claim_owner = cast(:owner as text),
  claimed_us = f.clock_us, claim_expires_us = f.clock_us + cast(:ttl_us as bigint)
from first f
where w.number = f.number and w.tenant = :tenant and w.id = f.id and not f.is_spent
  and (w.claim is null or w.claim_fence < :fence)
  and f.delivery = 'earliest_safe_boundary' -- if is_safe
returning cast(1 as bigint), 'ok', w.seq, w.queue, w.priority, w.id, w.source_key, w.delivery, w.slot,
  w.merge, w.available_us, w.max_attempts, w.backoff_us, w.payloads, w.enqueued_us, w.attempts,
  w.last_error, w.claim, w.claim_fence, w.claim_token, w.claim_owner, w.claimed_us, w.claim_expires_us

-- name: complete_alone(tenant, number, version, was_us, expires_us, now_us, is_held, turn, claim, batches, proof, revision, updated_us, link, fence, owner, token, claimed_us, ends_us, kind, hash, leaf, first_ord, usage, effects, seqs, bodies, ended_us, reason, queue, floor_us, recency)
-- A turn without messages that completes a claim, and what is left in the line then. A claim that was
-- handed back or interrupted, or a lease that ended, while the head was waited for takes everything back.
with moved as (
  update heads h set revision = :revision, updated_us = :updated_us, link = :link,
    fence = :fence, owner = :owner, token = :token, claimed_us = :claimed_us, expires_us = :ends_us
  where h.number = :number and h.tenant = :tenant and h.xmin = :version
    and h.updated_us = :was_us and h.expires_us = :expires_us
    and (h.owner is not null and h.expires_us > coalesce(cast(:now_us as bigint), ledger_clock()))
      = (cast(:is_held as bigint) = 1)
    and (select true from turns t
      where t.id = cast(:turn as text) and t.number = :number and t.tenant = :tenant limit 1) is null
    and (select true from work w where w.number = :number and w.tenant = :tenant
      and w.claim_fence = 9223372036854775807 limit 1) is null
    and (select count(*) from work w
      where w.number = :number and w.tenant = :tenant and w.claim = cast(:claim as text)
        and w.claim_token = cast(:proof as text) and w.superseded is null) = cast(:batches as bigint)
  returning cast(cast(pg_current_xact_id() as text) as bigint) as xid,
    cast(cast(cast(pg_current_xact_id() as xid) as text) as bigint) as version,
    coalesce(cast(:now_us as bigint), ledger_clock()) as clock_us,
    case when cast(:is_held as bigint) = 0
      or :expires_us > coalesce(cast(:now_us as bigint), ledger_clock()) then 0
    else ledger_refuse() end as refused
), turned as (
  insert into turns (tenant, pos, number, revision, created_us, leaf, first_ord, count, id, kind, hash,
    link, usage, effects)
  select :tenant, (m.xid + s.value) * 1048576, :number, :revision, :updated_us, cast(:leaf as bigint),
    cast(:first_ord as bigint), 0, :turn, cast(:kind as text), cast(:hash as bytea), :link,
    cast(:usage as bytea), cast(:effects as bytea)
  from moved m cross join store s where s.name = 'feed.base'
), done as (
  delete from work w using moved
  where w.number = :number and w.tenant = :tenant and w.claim = :claim and w.superseded is null
  returning w.seq, w.id
), ended as (
  insert into ended_work (tenant, number, seq, ended_us, id, state, reason, body)
  select :tenant, :number, d.seq, cast(:ended_us as bigint), d.id, 'done', cast(:reason as text), k.body
  from done d join unnest(cast(cast(:seqs as text) as bigint[]), cast(:bodies as bytea[])) k (seq, body)
    on k.seq = d.seq
  returning 1
), counted as (
  insert into work_sums as s (tenant, number, epoch, done, cancelled, dead, superseded)
  select :tenant, :number, 0, :batches, 0, 0, 0 from moved
  on conflict (number) do update set done = s.done + excluded.done
), places as materialized (
  select r.queue, r.priority, r.due_us,
    (select min(w.priority) from work w where w.number = :number and w.tenant = :tenant
      and w.queue = r.queue and w.later = 0 and w.claim is distinct from :claim) as now_priority,
    (select min(w.priority) from work w where w.number = :number and w.tenant = :tenant
      and w.queue = r.queue and w.later = 1 and w.claim is distinct from :claim) as later_priority
  from moved cross join ready r
  where r.number = :number and r.tenant = :tenant collate "POSIX"
    and r.queue = :queue -- if queue
), left_line as (
  delete from ready r using places p
  where r.number = :number and r.tenant = :tenant collate "POSIX" and r.queue = p.queue
    and p.now_priority is null and p.later_priority is null
), lined as (
  update ready r set priority = n.priority, due_us = n.due_us
  from (
    select p.queue, p.priority as old_priority, p.due_us as old_us,
      least(p.now_priority, p.later_priority) as priority,
      case when (select true from work w where w.number = :number and w.tenant = :tenant
        and w.queue = p.queue and w.later = 0 and w.claim is distinct from :claim
        and w.available_us <= cast(:floor_us as bigint) limit 1) then :floor_us
      else greatest(:floor_us, least(
        (select min(w.available_us) from work w where w.number = :number and w.tenant = :tenant
          and w.queue = p.queue and w.later = 0 and w.claim is distinct from :claim),
        (select min(w.available_us) from work w where w.number = :number and w.tenant = :tenant
          and w.queue = p.queue and w.later = 1 and w.claim is distinct from :claim))) end as due_us
    from places p where p.now_priority is not null or p.later_priority is not null
    offset 0
  ) n
  where r.number = :number and r.tenant = :tenant collate "POSIX" and r.queue = n.queue
    and (n.old_priority <> n.priority or n.old_us <> n.due_us)
), listed as ( -- if recency
  update sessions s set recency = :recency -- if recency
  from moved where s.number = :number and s.tenant = :tenant collate "POSIX" -- if recency
)
select m.version,
  m.clock_us + case when (select count(*) from ended) = :batches then 0 else ledger_refuse() end
from moved m
