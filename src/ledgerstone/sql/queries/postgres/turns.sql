-- Turns.

-- name: insert_turn(number, revision, id, kind, hash, link, created_us, leaf, first_ord, count, usage, effects)
-- One commit, whose place in the feed comes after those of its session.
insert into turns (pos, number, revision, id, kind, hash, link, created_us, leaf, first_ord, count,
  usage, effects)
values (ledger_pos_of(:number), :number, :revision, :id, :kind, :hash, :link, :created_us, :leaf,
  :first_ord, :count, :usage, :effects)
