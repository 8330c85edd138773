-- Sessions. What is asked most names the tenant of every row: it goes to one shard.

-- name: find_head(tenant, id)
-- The head of a session with what a commit must know of its session row.
select h.number, s.incarnation, s.deleted_us,
  h.revision, h.ord, h.leaf, h.tip, h.tip_seq, h.messages, h.users, h.first_user, h.live,
  h.branched, h.named, h.amended, h.fence, h.owner, h.token, h.claimed_us, h.expires_us,
  h.updated_us, h.link, h.active_run, h.open_run, h.latest_run, h.ledger, h.checkpoint,
  h.runs, h.enqueued
from sessions s join heads h on h.number = s.number and h.tenant = s.tenant
where s.tenant = :tenant and s.id = :id and s.purged = 0

-- name: find_outline(tenant, id)
-- What a read of paths must know of a session.
select h.number, h.leaf, h.tip, h.tip_seq, h.branched, h.amended, h.runs
from sessions s join heads h on h.number = s.number and h.tenant = s.tenant
where s.tenant = :tenant and s.id = :id and s.purged = 0

-- name: get_documents(tenant, name, ids)
-- One document of each of these sessions; an array instead of JSON.
select s.id, d.body from sessions s join documents d on d.number = s.number and d.tenant = s.tenant
where s.tenant = :tenant and s.id = any (cast(:ids as text[])) and s.purged = 0
  and d.name = :name

-- name: mark_deleted(number, deleted_us)
-- Soft delete, or with null the end of it. The head becomes another one, so that no plan is right
-- any more.
with head as (update heads set touched_us = touched_us where number = :number)
update sessions set deleted_us = :deleted_us where number = :number
