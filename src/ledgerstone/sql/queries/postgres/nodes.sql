-- Walks. No join keeps the order of a walk, so it has to be asked for.

-- name: path_at(base, leaf, revision)
-- A path as it was, newest first; a body that was erased since is null.
with recursive path (key, parent) as (
  select key, parent from nodes where key = :leaf
  union all
  select n.key, n.parent from path join nodes n on n.key = :base + path.parent
  where path.parent > 0 and :base + path.parent < path.key
)
select n.key, n.parent, n.seq, n.role, n.run, n.created_us, n.id, n.body, null
from path join nodes n on n.key = path.key
where n.deleted_rev is null or n.deleted_rev > :revision
order by n.key desc

-- name: walk_jumps(base, leaf)
-- Where the straight stretches of a path begin, newest first; the oldest one, from ord 1, is not named.
with recursive jump (key, parent, seq) as (
  select n.key, n.parent, n.seq from nodes n where n.key = (
    select max(j.key) from nodes j
    where j.key > :base and j.key <= :leaf and j.parent <> (j.key & 4294967295) - 1)
  union all
  select n.key, n.parent, n.seq from jump join nodes n on n.key = (
    select max(j.key) from nodes j
    where j.key > :base and j.key <= :base + jump.parent
      and j.parent <> (j.key & 4294967295) - 1)
  where jump.parent > 0 and :base + jump.parent < jump.key
)
select key - :base, parent, seq from jump order by key desc
