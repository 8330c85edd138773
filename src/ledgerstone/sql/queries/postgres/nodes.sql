-- Walks and ranges, said so that every step finds its key through the index: under row-level
-- security only a key that is not computed in a join may. A subquery in the select list is one
-- lookup, `lateral` with an offset or a limit is one range. No join keeps the order of a walk, so
-- it is asked for.

-- name: walk_places(base, leaf, stop)
-- The path of a leaf upwards, newest first, down to but without ord `stop`.
with recursive path (key, parent) as (
  select key, parent from nodes where key = :leaf
  union all
  select cast(:base as bigint) + path.parent,
    (select n.parent from nodes n where n.key = :base + path.parent)
  from path where path.parent > cast(:stop as bigint) and :base + path.parent < path.key
)
select n.key & 4294967295, n.parent, n.role, n.id, n.deleted_us
from path join nodes n on n.key = path.key
order by path.key desc

-- name: count_walk(base, leaf)
-- Live messages, live user messages and the first of these on a path that is walked.
with recursive path (key, parent) as (
  select key, parent from nodes where key = :leaf
  union all
  select cast(:base as bigint) + path.parent,
    (select n.parent from nodes n where n.key = :base + path.parent)
  from path where path.parent > 0 and :base + path.parent < path.key
)
select count(*), coalesce(sum(case when n.role = 2 then 1 end), 0),
  coalesce(min(case when n.role = 2 then n.key & 4294967295 end), 0)
from path join nodes n on n.key = path.key
where n.role is not null and n.deleted_us is null

-- name: path_at(base, leaf, revision)
-- A path as it was, newest first; a body that was erased since is null.
with recursive path (key, parent) as (
  select key, parent from nodes where key = :leaf
  union all
  select cast(:base as bigint) + path.parent,
    (select n.parent from nodes n where n.key = :base + path.parent)
  from path where path.parent > 0 and :base + path.parent < path.key
)
select n.key, n.parent, n.seq, n.role, n.run, n.created_us, n.id, n.body, null
from path join nodes n on n.key = path.key
where n.deleted_rev is null or n.deleted_rev > :revision
order by n.key desc

-- name: walk_jumps(base, leaf)
-- Where the straight stretches of a path begin, newest first; the oldest one, from ord 1, is not
-- named.
with recursive jump (key, parent, seq) as (
  (select j.key, j.parent, j.seq from nodes j
  where j.key > :base and j.key <= :leaf and j.parent <> (j.key & 4294967295) - 1
  order by j.key desc limit 1)
  union all
  select n.key, n.parent, n.seq from jump cross join lateral (
    select j.key, j.parent, j.seq from nodes j
    where j.key > :base and j.key <= :base + jump.parent
      and j.parent <> (j.key & 4294967295) - 1
    order by j.key desc limit 1
  ) n
  where jump.parent > 0 and :base + jump.parent < jump.key
)
select key - :base, parent, seq from jump order by key desc

-- name: read_run(number, run_id, live)
-- Messages that a run wrote in a session, in commit order.
select n.key, n.parent, n.seq, n.role, n.run, n.created_us, n.id, n.body, n.deleted_us
from runs r cross join lateral (
  select m.* from nodes m
  where m.key between :number * 4294967296 + r.first_ord and :number * 4294967296 + r.last_ord
    and m.run = r.key & 4294967295 and m.role is not null and m.body is not null
    and m.deleted_us is null -- if live
  order by m.key offset 0
) n
where r.id = :run_id and r.key >> 32 = :number
order by n.key

-- name: list_session_nodes(tenant, session, kind, any_kind, message, label, run_id, before_id, after_ord, after_id, by_ord, by_ord_desc, by_id, by_id_desc, limit)
-- Live nodes of one session; `|| ''` since the index over ids would lead past everybody else's.
select n.key, n.parent, n.seq, n.role, n.kind, n.label, n.run_id, n.meta, n.format, n.refs,
  n.created_us, n.id, n.body, n.deleted_us, s.id
from sessions s cross join lateral (
  select m.*, r.id as run_id
  from nodes m left join lateral (
    select x.id from runs x where x.key = m.key - (m.key & 4294967295) + m.run offset 0
  ) r on true
  where m.key between s.number << 32 and (s.number << 32) + 4294967295 and m.deleted_us is null
    and m.kind = :kind -- if kind
    and m.role is not null -- if message
    and m.label = :label -- if kind, label
    and coalesce(m.label, '') = :label -- if any_kind, label
    and r.id = :run_id -- if run_id
    and m.id < :before_id -- if before_id
    and m.key > (s.number << 32) + :after_ord -- if by_ord, after_ord
    and m.key < (s.number << 32) + :after_ord -- if by_ord_desc, after_ord
    and m.id > :after_id -- if by_id, after_id
    and m.id < :after_id -- if by_id_desc, after_id
  order by m.key -- if by_ord
  order by m.key desc -- if by_ord_desc
  order by m.id || '' -- if by_id
  order by m.id || '' desc -- if by_id_desc
  limit :limit
) n
where s.tenant = :tenant and s.id = :session and s.purged = 0
order by n.key -- if by_ord
order by n.key desc -- if by_ord_desc
order by n.id -- if by_id
order by n.id desc -- if by_id_desc
