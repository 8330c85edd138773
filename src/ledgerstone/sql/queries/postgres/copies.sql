-- Fork and copy; how keys are found is told in nodes.sql.

-- name: fork_nodes(base, leaf, target)
-- The live path of a leaf, numbered anew.
with recursive path (key, parent) as (
  select key, parent from nodes where key = :leaf
  union all
  select cast(:base as bigint) + path.parent,
    (select n.parent from nodes n where n.key = :base + path.parent)
  from path where path.parent > 0 and :base + path.parent < path.key
),
live (place, key) as (
  select row_number() over (order by path.key), path.key
  from path join nodes n on n.key = path.key
  where n.deleted_us is null
)
insert into nodes (key, parent, seq, role, kind, label, run, meta, format, refs, created_us,
  id, salt, body)
select :target * 4294967296 + l.place, l.place - 1, l.place, n.role, n.kind, n.label, n.run,
  n.meta, n.format, n.refs, n.created_us, n.id, n.salt, n.body
from live l join nodes n on n.key = l.key

-- name: hide_copies(source, target)
-- What is hidden in the source is hidden in the copy, since before its first commit.
update nodes set deleted_us = s.deleted_us, deleted_rev = 0
from (
  select n.key + :target * 4294967296 - :source * 4294967296 as key, n.deleted_us from nodes n
  where n.key between :source * 4294967296 and :source * 4294967296 + 4294967295
    and n.deleted_us is not null
  offset 0
) s
where nodes.key = s.key

-- name: copy_runs(source, target)
-- The names of runs, and where each wrote in the numbering of the copy; no records.
insert into runs (key, id, first_ord, last_ord)
select :target * 4294967296 + n.run, r.id, n.first, n.last
from (
  select m.run, min(m.key & 4294967295) as first, max(m.key & 4294967295) as last from nodes m
  where m.key between :target * 4294967296 and :target * 4294967296 + 4294967295
    and m.run is not null
  group by m.run
) n cross join lateral (
  select x.id from runs x where x.key = :source * 4294967296 + n.run offset 0
) r
