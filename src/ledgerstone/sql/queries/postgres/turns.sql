-- Turns. One is found by its id and a range of (id, number): asked for both by name, a database that
-- has not counted its rows yet goes through all turns of the session instead, and with the range alone
-- it goes through all of the tenant under row-level security.

-- name: find_turn(number, id)
-- The stamp of a turn: was it committed, and with which content.
select revision, kind, hash, created_us, leaf, first_ord, count, effects
from turns
where id = :id and (id, number) >= (:id, :number) and (id, number) <= (:id, :number)

-- name: insert_turn(number, revision, id, kind, hash, link, created_us, leaf, first_ord, count, usage, effects)
-- One commit, whose place in the feed comes after those of its session.
insert into turns (pos, number, revision, id, kind, hash, link, created_us, leaf, first_ord, count,
  usage, effects)
values (ledger_pos_of(:number), :number, :revision, :id, :kind, :hash, :link, :created_us, :leaf,
  :first_ord, :count, :usage, :effects)

-- name: find_commit(tenant, id, turn, run)
-- The head as `find_head` gives it; then whether the turn and the run are known, whether anybody
-- has a budget, and main's last id. Every row by its tenant, too.
select h.number, s.incarnation, s.deleted_us,
  h.revision, h.ord, h.leaf, h.tip, h.tip_seq, h.messages, h.users, h.first_user, h.live,
  h.branched, h.named, h.amended, h.fence, h.owner, h.token, h.claimed_us, h.expires_us,
  h.updated_us, h.link, h.active_run, h.open_run, h.latest_run, h.ledger, h.checkpoint,
  h.runs, h.enqueued,
  (select true from turns t
    where t.id = :turn
      and (t.id, t.number) >= (:turn, h.number) and (t.id, t.number) <= (:turn, h.number)
      and t.tenant = h.tenant collate "POSIX" limit 1) is not null,
  exists (select 1 from runs r where r.id = :run and r.realm = :tenant)
    or exists (select 1 from kept_runs k where k.tenant = :tenant and k.id = :run),
  exists (select 1 from budgets b where b.tenant = :tenant),
  (select n.id from nodes n where n.key = (h.number << 32) + h.tip and n.tenant = h.tenant)
from sessions s join heads h on h.number = s.number and h.tenant = s.tenant
where s.tenant = :tenant and s.id = :id and s.purged = 0

-- name: raise_fences(tenant, jump, session)
-- The same as the shared one; heads are locked by number, as every command locks them.
with held as materialized (
  select h.number from heads h join sessions s on s.number = h.number
  where h.tenant = :tenant and s.tenant = :tenant and s.purged = 0
    and (cast(:session as text) is null or s.id = :session)
  order by h.number for no key update of h
)
update heads set fence = fence + :jump, owner = null, token = null, claimed_us = 0, expires_us = 0
where tenant = :tenant and number in (select number from held)
