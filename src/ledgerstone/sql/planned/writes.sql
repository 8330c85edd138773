-- Writes of planned commands that do not follow from the declaration of a table
-- (engines/postgres/planned/writes.py): `{rows}` is where the rows `u` of a section come from.

-- name: raise_lines()
-- The end of an insert: a place in the line never moves back.
on conflict (number, queue) do update set
  priority = least(t.priority, excluded.priority), due_us = least(t.due_us, excluded.due_us)
where excluded.priority < t.priority or excluded.due_us < t.due_us

-- name: complete_claims()
delete from work t using {rows} u
where t.number = u.number and t.tenant = u.whose and t.claim = u.claim

-- name: drop_drafts()
delete from notes t using {rows} u
where t.number = u.number and t.tenant = u.whose and t.node = u.node
  and t.key >= u.first and t.key < u.last

-- name: settle_lines()
perform ledger_settle(
  array_agg(u.whose order by u.r), array_agg(u.number order by u.r),
  array_agg(u.queue order by u.r), array_agg(u.floor_us order by u.r)) from {rows} u

-- name: settle_in_place()
-- The same as a part of a single statement (planned/single.py), which does not see yet that the batches of
-- the claim are gone. What others hand back or cancel meanwhile leads at worst to a place in the line that
-- a taker corrects.
places as materialized (
  select r.queue, r.priority, r.due_us,
    (select min(w.priority) from work w where w.number = $2 and w.tenant = $1
      and w.queue = r.queue and w.later = 0 and w.claim is distinct from {claim}) as now_priority,
    (select min(w.priority) from work w where w.number = $2 and w.tenant = $1
      and w.queue = r.queue and w.later = 1 and w.claim is distinct from {claim}) as later_priority
  from moved cross join ready r
  where r.number = $2 and r.tenant = $1 collate "POSIX" and ({queue} is null or r.queue = {queue})
), left_line as (
  delete from ready r using places p
  where r.number = $2 and r.tenant = $1 collate "POSIX" and r.queue = p.queue
    and p.now_priority is null and p.later_priority is null
), lined as (
  update ready r set priority = n.priority, due_us = n.due_us
  from (
    select p.queue, p.priority as old_priority, p.due_us as old_us,
      least(p.now_priority, p.later_priority) as priority,
      case when (select true from work w where w.number = $2 and w.tenant = $1
        and w.queue = p.queue and w.later = 0 and w.claim is distinct from {claim}
        and w.available_us <= {floor_us} limit 1) then {floor_us}
      else greatest({floor_us}, least(
        (select min(w.available_us) from work w where w.number = $2 and w.tenant = $1
          and w.queue = p.queue and w.later = 0 and w.claim is distinct from {claim}),
        (select min(w.available_us) from work w where w.number = $2 and w.tenant = $1
          and w.queue = p.queue and w.later = 1 and w.claim is distinct from {claim}))) end as due_us
    from places p where p.now_priority is not null or p.later_priority is not null
    offset 0
  ) n
  where r.number = $2 and r.tenant = $1 collate "POSIX" and r.queue = n.queue
    and (n.old_priority <> n.priority or n.old_us <> n.due_us)
)
