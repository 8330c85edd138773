-- Erasing what was tombstoned and what nothing refers to.

-- name: erasable(first, last, before_us)
-- Hidden nodes that still have a body.
select n.key & 4294967295, n.parent, n.id, n.salt, n.role, n.kind, n.label,
  (select r.id from runs r where r.key = n.key - (n.key & 4294967295) + n.run), n.meta,
  n.format, n.refs, n.created_us, n.body, n.commitment
from nodes n
where n.key between :first and :last and n.deleted_us is not null and n.body is not null
  and n.deleted_us <= :before_us -- if before_us
order by n.key

-- name: live_places(first, last, before_us)
-- Live nodes of a session.
select key & 4294967295 from nodes
where key between :first and :last and deleted_us is null
  and created_us <= :before_us -- if before_us
order by key

-- name: erase_node(key, commitment)
-- Leave a stub: place, id and commitment, nothing that could be guessed back.
update nodes set role = null, kind = '', label = '', run = null, meta = null, format = null,
  refs = null, created_us = 0, salt = null, body = null, commitment = :commitment
where key = :key

-- name: erase_amendments(key)
-- Versions of an erased message keep only their commitments.
update amendments set salt = null, patch = null where key = :key

-- name: stale_notes(number, before_us)
-- Old notes whose node is not there, or no longer.
select n.node, n.key, n.refs from notes n
where n.number = :number and n.created_us <= :before_us
  and not exists (
    select 1 from nodes x
    where x.id = n.node and x.key >> 32 = :number and x.deleted_us is null)
order by n.node, n.key

-- name: old_notes(number, node, before_us)
-- Old notes of one node.
select node, key, refs from notes
where number = :number and node = :node and created_us <= :before_us
order by key

-- name: drop_note(number, node, key)
-- One note.
delete from notes where number = :number and node = :node and key = :key

-- name: node_refs(first, last)
-- What live nodes point at.
select key & 4294967295, refs from nodes
where key between :first and :last and refs is not null and deleted_us is null

-- name: all_node_refs(first, last)
-- What nodes point at, hidden ones too.
select key & 4294967295, refs from nodes
where key between :first and :last and refs is not null

-- name: note_refs(number)
-- What notes point at.
select node, key, refs from notes where number = :number and refs <> ''

-- name: list_values(number)
-- Every value of a session.
select digest, length(data) from contents where number = :number order by digest

-- name: drop_value(number, digest)
-- One value.
delete from contents where number = :number and digest = :digest

-- name: set_live(number, live)
-- How many nodes are visible.
update heads set live = :live where number = :number

-- name: count_nodes(first, last)
-- How many rows a session has, stubs too.
select count(*) from nodes where key between :first and :last
