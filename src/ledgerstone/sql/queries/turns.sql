-- The hot path: what one commit reads and writes, and the history of commits.

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

-- name: move_head(number, revision, ord, leaf, tip, tip_seq, messages, users, first_user, live, branched, named, amended, fence, owner, token, claimed_us, expires_us, updated_us, link, active_run, open_run, latest_run, ledger, checkpoint, runs)
-- The head after a commit.
update heads set revision = :revision, ord = :ord, leaf = :leaf, tip = :tip, tip_seq = :tip_seq,
  messages = :messages, users = :users, first_user = :first_user, live = :live,
  branched = :branched, named = :named, amended = :amended, fence = :fence, owner = :owner,
  token = :token, claimed_us = :claimed_us, expires_us = :expires_us, updated_us = :updated_us,
  link = :link, active_run = :active_run, open_run = :open_run, latest_run = :latest_run,
  ledger = :ledger, checkpoint = :checkpoint, runs = :runs
where number = :number

-- name: set_lease(number, fence, owner, token, claimed_us, expires_us)
-- Who holds the session now.
update heads set fence = :fence, owner = :owner, token = :token, claimed_us = :claimed_us,
  expires_us = :expires_us
where number = :number

-- name: list_turns(number, after, limit)
-- Commits in order.
select revision, id, kind, hash, link, created_us, leaf, first_ord, count, usage, effects
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
