-- Reads that bring in one round trip what a handler would ask for one by one.

-- name: read_tail(tenant, id, limit)
-- The outline of a session, beside each of its last messages: the message and the id of its run. One
-- row of nulls when there is no message; of a session that branched only the outline. In no order, which
-- the caller makes for less.
select h.number, h.leaf, h.tip, h.tip_seq, h.branched, h.amended, h.runs,
  t.key & 4294967295, t.parent, t.seq, t.role, t.run, t.created_us, t.id, t.body, t.deleted_us,
  (select r.id from runs r where r.key = (h.number << 32) + t.run and r.realm = s.tenant)
from sessions s
  join heads h on h.number = s.number and h.tenant = s.tenant
  left join lateral (
    select n.key, n.parent, n.seq, n.role, n.run, n.created_us, n.id, n.body, n.deleted_us
    from nodes n
    where h.branched = 0 and n.key > (h.number << 32) and n.key <= (h.number << 32) + h.tip
      and n.tenant = s.tenant
      and n.body is not null and n.role is not null and n.deleted_us is null
    order by n.key desc limit cast(:limit as bigint)
  ) t on true
where s.tenant = :tenant and s.id = :id

-- name: read_whole(tenant, id, most)
-- All messages of a session that never branched, has no amendments and at most so many nodes, in no
-- order. Besides two kinds of rows without a body: the outline, which has no id, and the names of runs,
-- by their numbers. Of other sessions only the outline.
with o as materialized (
  select s.tenant, h.number, h.leaf, h.tip, h.tip_seq, h.branched, h.amended, h.runs,
    h.branched = 0 and h.amended = 0 and h.tip <= cast(:most as bigint) as is_plain
  from sessions s join heads h on h.number = s.number and h.tenant = s.tenant
  where s.tenant = :tenant and s.id = :id
)
select o.number, o.leaf, o.tip, o.tip_seq, o.branched, o.amended, cast(null as text),
  cast(null as bytea), o.runs
from o
union all
select r.key - (o.number << 32), null, null, null, null, null, r.id, null, null
from o cross join lateral (
  select x.key, x.id from runs x
  where o.is_plain and x.key > (o.number << 32) and x.key <= (o.number << 32) + o.runs
    and x.realm = o.tenant
  offset 0
) r
union all
select m.key & 4294967295, m.parent, m.seq, m.role, m.run, m.created_us, m.id, m.body, m.deleted_us
from o cross join lateral (
  select n.key, n.parent, n.seq, n.role, n.run, n.created_us, n.id, n.body, n.deleted_us
  from nodes n
  where o.is_plain and n.key > (o.number << 32) and n.key <= (o.number << 32) + o.tip
    and n.tenant = o.tenant
    and n.body is not null and n.role is not null and n.deleted_us is null
  order by n.key
) m

-- name: documents_of(tenant, ids, name)
-- One document of each of these sessions.
select s.id, d.body from sessions s
  join documents d on d.number = s.number and d.tenant = :tenant collate "POSIX"
where s.tenant = :tenant and s.id = any (cast(:ids as text[])) and d.name = :name

-- name: run_record(tenant, id)
-- The record of a run, of a session that is there or of one that is gone.
select r.body from runs r
where r.id = :id and r.realm = :tenant collate "POSIX" and r.tenant is not null
  and exists (
    select from sessions s where s.number = r.key >> 32 and s.tenant = :tenant collate "POSIX")
union all
select k.body from kept_runs k where k.tenant = :tenant and k.id = :id
limit 1
