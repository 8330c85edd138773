-- The hot path: what one commit reads and writes, and the history of commits.

-- name: find_commit(tenant, id, turn, run)
-- The head as `find_head` gives it; then whether the turn and the run are known, whether anybody
-- has a budget, and main's last id.
select h.number, s.incarnation, s.deleted_us,
  h.revision, h.ord, h.leaf, h.tip, h.tip_seq, h.messages, h.users, h.first_user, h.live,
  h.branched, h.named, h.amended, h.fence, h.owner, h.token, h.claimed_us, h.expires_us,
  h.updated_us, h.link, h.active_run, h.open_run, h.latest_run, h.ledger, h.checkpoint,
  h.runs, h.enqueued,
  exists (select 1 from turns t where t.id = :turn and t.number = h.number),
  exists (select 1 from runs r where r.id = :run)
    or exists (select 1 from kept_runs k where k.tenant = :tenant and k.id = :run),
  exists (select 1 from budgets b where b.tenant = :tenant),
  (select n.id from nodes n where n.key = (h.number << 32) + h.tip)
from sessions s join heads h on h.number = s.number
where s.tenant = :tenant and s.id = :id and s.purged = 0

-- name: find_turn(number, id)
-- The stamp of a turn: was it committed, and with which content.
select revision, kind, hash, created_us, leaf, first_ord, count, effects
from turns where id = :id and number = :number

-- name: insert_node(key, parent, seq, role, kind, label, run, meta, format, refs, created_us, id, salt, body)
-- A new node, unless its id is taken in this session.
insert into nodes (key, parent, seq, role, kind, label, run, meta, format, refs, created_us,
  id, salt, body)
values (:key, :parent, :seq, :role, :kind, :label, :run, :meta, :format, :refs, :created_us,
  :id, :salt, :body)
on conflict do nothing

-- name: insert_turn(number, revision, id, kind, hash, link, created_us, leaf, first_ord, count, usage, effects)
-- The row of a commit.
insert into turns (number, revision, id, kind, hash, link, created_us, leaf, first_ord, count,
  usage, effects)
values (:number, :revision, :id, :kind, :hash, :link, :created_us, :leaf, :first_ord, :count,
  :usage, :effects)

-- name: move_head(number, revision, ord, leaf, tip, tip_seq, messages, users, first_user, live, branched, named, amended, updated_us, link, active_run, open_run, latest_run, ledger, checkpoint, runs)
-- The head after a commit.
update heads set revision = :revision, ord = :ord, leaf = :leaf, tip = :tip, tip_seq = :tip_seq,
  messages = :messages, users = :users, first_user = :first_user, live = :live,
  branched = :branched, named = :named, amended = :amended, updated_us = :updated_us, link = :link,
  active_run = :active_run, open_run = :open_run, latest_run = :latest_run,
  ledger = :ledger, checkpoint = :checkpoint, runs = :runs
where number = :number

-- name: set_lease(number, fence, owner, token, claimed_us, expires_us)
-- Who holds the session now.
update heads set fence = :fence, owner = :owner, token = :token, claimed_us = :claimed_us,
  expires_us = :expires_us
where number = :number

-- name: raise_fences(tenant, jump, session)
-- After a restore: nobody holds a session, and every fence is higher; session null: all of the tenant.
update heads set fence = fence + :jump, owner = null, token = null, claimed_us = 0, expires_us = 0
where number in (
  select number from sessions
  where tenant = :tenant and purged = 0 and (cast(:session as text) is null or id = :session))

-- name: list_turns(number, after, limit)
-- Commits in order.
select revision, id, kind, hash, link, created_us, leaf, first_ord, count, usage, effects,
  usage_digest
from turns where number = :number and revision > :after
order by revision limit :limit

-- name: turn_at(number, revision)
-- One commit by its revision.
select leaf, created_us from turns where number = :number and revision = :revision

-- name: effects_until(number, revision)
-- What commits did besides adding nodes, in order, up to one of them.
select effects from turns
where number = :number and revision <= :revision and effects is not null
order by revision

-- name: leaf_then(key)
-- Whether a node was hidden by then, and what is above it.
select parent, deleted_rev, id from nodes where key = :key
