-- Reads that bring in one round trip what a handler would ask for one by one.

-- name: read_tail(tenant, id, limit)
-- The outline of a session, beside each of its last messages, newest first: the message, the id of
-- its run and, of the oldest one, the id of its parent. One row of nulls when there is no message; of
-- a session that branched only the outline.
select h.number, h.leaf, h.tip, h.tip_seq, h.branched, h.amended, h.runs,
  t.key, t.parent, t.seq, t.role, t.run, t.created_us, t.id, t.body, t.deleted_us,
  (select r.id from runs r where r.key = (h.number << 32) + t.run and r.realm = s.tenant),
  case when t.key = min(t.key) over () then
    (select p.id from nodes p
      where p.key = (h.number << 32) + t.parent and p.tenant = s.tenant) end
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
where s.tenant = :tenant and s.id = :id and s.purged = 0
order by t.key desc
