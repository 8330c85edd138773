-- The graph: places, paths, nodes, messages, amendments.
-- A row of a message is read as: key, parent, seq, role, run, created_us, id, body, deleted_us;
-- a row of any node as: key, parent, seq, role, kind, label, run id, meta, format, refs,
-- created_us, id, body, deleted_us.
-- The id of a run and of a session is asked for in the select list: a join by a key that is computed
-- cannot use its index under the row-level security of PostgreSQL.
-- Walks only ever go down in ord: a circle, which only damage can make, does not trap them.

-- name: find_place(number, id)
-- Where a node stands.
select key & 4294967295, seq, deleted_us, role, parent
from nodes where id = :id and key >> 32 = :number

-- name: place_at(key)
-- A node's place by key.
select parent, seq, deleted_us, role, id from nodes where key = :key

-- name: node_content(number, id)
-- What an idempotent append compares, and where the node is.
select n.key & 4294967295, n.parent, n.seq, n.role, n.kind, n.label,
  (select r.id from runs r where r.key = n.key - (n.key & 4294967295) + n.run), n.meta, n.format,
  n.refs, n.created_us, n.body, n.deleted_us
from nodes n
where n.id = :id and n.key >> 32 = :number

-- name: id_at(key)
-- The id of a node by key.
select id from nodes where key = :key

-- name: places_between(first, last)
-- A straight stretch, newest first.
select key & 4294967295, parent, role, id, deleted_us from nodes
where key between :first and :last order by key desc

-- name: walk_places(base, leaf, stop)
-- The path of a leaf upwards, newest first, down to but without ord `stop`.
with recursive path (key, parent) as (
  select key, parent from nodes where key = :leaf
  union all
  select n.key, n.parent from path join nodes n on n.key = :base + path.parent
  where path.parent > :stop and :base + path.parent < path.key
)
select n.key & 4294967295, n.parent, n.role, n.id, n.deleted_us
from path join nodes n on n.key = path.key
order by path.key desc

-- name: placed_between(first, last)
-- What one commit placed, oldest first.
select key & 4294967295, parent, seq, created_us, id
from nodes where key between :first and :last order by key

-- name: count_between(first, last)
-- Live messages, live user messages and the first of these on a straight path.
select count(*), coalesce(sum(case when role = 2 then 1 end), 0),
  coalesce(min(case when role = 2 then key & 4294967295 end), 0)
from nodes
where key between :first and :last and role is not null and deleted_us is null

-- name: count_walk(base, leaf)
-- Live messages, live user messages and the first of these on a path that is walked.
with recursive path (key, parent) as (
  select key, parent from nodes where key = :leaf
  union all
  select n.key, n.parent from path join nodes n on n.key = :base + path.parent
  where path.parent > 0 and :base + path.parent < path.key
)
select count(*), coalesce(sum(case when n.role = 2 then 1 end), 0),
  coalesce(min(case when n.role = 2 then n.key & 4294967295 end), 0)
from path join nodes n on n.key = path.key
where n.role is not null and n.deleted_us is null

-- name: tombstone(key, deleted_us, deleted_rev)
-- Hide one node.
update nodes set deleted_us = :deleted_us, deleted_rev = :deleted_rev where key = :key

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
select key - :base, parent, seq from jump

-- name: read_straight(first, last, messages, nodes, spoken, live, kind, ascending, descending, limit)
-- Messages or nodes of a straight stretch.
select n.key, n.parent, n.seq, n.role, n.run, n.created_us, n.id, n.body, n.deleted_us -- if messages
select n.key, n.parent, n.seq, n.role, n.kind, n.label, -- if nodes
  (select r.id from runs r where r.key = n.key - (n.key & 4294967295) + n.run), -- if nodes
  n.meta, n.format, n.refs, n.created_us, n.id, n.body, n.deleted_us -- if nodes
from nodes n
where n.key between :first and :last and n.body is not null
  and n.role is not null -- if spoken
  and n.deleted_us is null -- if live
  and n.kind = :kind -- if kind
order by n.key -- if ascending
order by n.key desc -- if descending
limit :limit -- if limit

-- name: read_run(number, run_id, live)
-- Messages that a run wrote in a session, in commit order.
select n.key, n.parent, n.seq, n.role, n.run, n.created_us, n.id, n.body, n.deleted_us
from runs r join nodes n
  on n.key between :number * 4294967296 + r.first_ord and :number * 4294967296 + r.last_ord
where r.id = :run_id and r.key >> 32 = :number and n.run = r.key & 4294967295
  and n.role is not null and n.body is not null
  and n.deleted_us is null -- if live
order by n.key

-- name: find_messages(tenant, id, session)
-- Messages of this id in the tenant, hidden ones too.
select n.key, n.parent, n.seq, n.role, n.run, n.created_us, n.id, n.body, n.deleted_us, n.session
from (
  select m.*, (select s.id from sessions s
    where s.number = m.key >> 32 and s.tenant = :tenant and s.purged = 0) as session
  from nodes m where m.id = :id
) as n
where n.session is not null and n.role is not null and n.body is not null
  and n.session = :session -- if session

-- name: find_nodes(tenant, id, session)
-- Live nodes of this id in the tenant, oldest session first.
select n.key, n.parent, n.seq, n.role, n.kind, n.label,
  (select r.id from runs r where r.key = n.key - (n.key & 4294967295) + n.run),
  n.meta, n.format, n.refs, n.created_us, n.id, n.body, n.deleted_us, n.session
from (
  select m.*, (select s.id from sessions s
    where s.number = m.key >> 32 and s.tenant = :tenant and s.purged = 0) as session
  from nodes m where m.id = :id
) as n
where n.session is not null and n.deleted_us is null
  and n.session = :session -- if session
order by n.key

-- name: list_session_nodes(tenant, session, kind, any_kind, message, label, run_id, before_id, after_ord, after_id, by_ord, by_ord_desc, by_id, by_id_desc, limit)
-- Live nodes of one session.
select n.key, n.parent, n.seq, n.role, n.kind, n.label, r.id, n.meta, n.format, n.refs,
  n.created_us, n.id, n.body, n.deleted_us, s.id
from sessions s join nodes n on n.key between s.number << 32 and (s.number << 32) + 4294967295
  left join runs r on r.key = n.key - (n.key & 4294967295) + n.run
where s.tenant = :tenant and s.id = :session and s.purged = 0 and n.deleted_us is null
  and n.kind = :kind -- if kind
  and n.role is not null -- if message
  and n.label = :label -- if kind, label
  and coalesce(n.label, '') = :label -- if any_kind, label
  and r.id = :run_id -- if run_id
  and n.id < :before_id -- if before_id
  and n.key > (s.number << 32) + :after_ord -- if by_ord, after_ord
  and n.key < (s.number << 32) + :after_ord -- if by_ord_desc, after_ord
  and n.id > :after_id -- if by_id, after_id
  and n.id < :after_id -- if by_id_desc, after_id
order by n.key -- if by_ord
order by n.key desc -- if by_ord_desc
order by n.id -- if by_id
order by n.id desc -- if by_id_desc
limit :limit

-- name: list_tenant_nodes(tenant, kind, any_kind, message, label, run_id, before_id, after_session, after_ord, after_id, by_ord, by_ord_desc, by_id, by_id_desc, limit)
-- Live nodes of every session of the tenant: by session id and ord, or by node id.
select n.key, n.parent, n.seq, n.role, n.kind, n.label, r.id, n.meta, n.format, n.refs,
  n.created_us, n.id, n.body, n.deleted_us, s.id
from nodes n join sessions s on s.number = n.key >> 32
  left join runs r on r.key = n.key - (n.key & 4294967295) + n.run
where s.tenant = :tenant and s.purged = 0 and n.deleted_us is null
  and n.kind = :kind -- if kind
  and n.role is not null -- if message
  and n.label = :label -- if kind, label
  and coalesce(n.label, '') = :label -- if any_kind, label
  and r.id = :run_id -- if run_id
  and n.key >> 32 in (select key >> 32 from runs where id = :run_id) -- if run_id
  and n.id < :before_id -- if before_id
  and (s.id, n.key & 4294967295) > (:after_session, :after_ord) -- if by_ord, after_session
  and (s.id, n.key & 4294967295) < (:after_session, :after_ord) -- if by_ord_desc, after_session
  and (n.id, s.id) > (:after_id, :after_session) -- if by_id, after_session
  and (n.id, s.id) < (:after_id, :after_session) -- if by_id_desc, after_session
order by s.id, n.key -- if by_ord
order by s.id desc, n.key desc -- if by_ord_desc
order by n.id, s.id -- if by_id
order by n.id desc, s.id desc -- if by_id_desc
limit :limit

-- name: last_amendment(key)
-- The newest version of a node and its whole patch.
select version, patch from amendments where key = :key order by version desc limit 1

-- name: insert_amendment(key, version, revision, created_us, salt, patch, commitment)
-- A newer version.
insert into amendments (key, version, revision, created_us, salt, patch, commitment)
values (:key, :version, :revision, :created_us, :salt, :patch, :commitment)

-- name: amendments_between(first, last, revision)
-- Versions of nodes in a stretch, oldest first, up to a revision.
select key & 4294967295, version, created_us, patch from amendments
where key between :first and :last and patch is not null
  and revision <= :revision -- if revision
order by key, version

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

-- name: body_at(key)
-- The body of a node by key, and its id.
select body, id from nodes where key = :key
