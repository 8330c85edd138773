-- Notes, drafts and values.

-- name: keep_note(number, node, key, format, refs, created_us, body)
-- A note whose first body stays.
insert into notes (number, node, key, format, refs, created_us, body)
values (:number, :node, :key, :format, :refs, :created_us, :body)
on conflict do nothing

-- name: replace_note(number, node, key, format, refs, created_us, body)
-- A note whose last body wins.
insert into notes (number, node, key, format, refs, created_us, body)
values (:number, :node, :key, :format, :refs, :created_us, :body)
on conflict (number, node, key) do update set format = excluded.format, refs = excluded.refs,
  created_us = excluded.created_us, body = excluded.body

-- name: drop_notes(number, node, first, last)
-- Notes of a node by a range of keys.
delete from notes where number = :number and node = :node and key >= :first and key < :last

-- name: notes_of(number, node)
-- Notes of one node, by key.
select key, format, refs, created_us, body from notes
where number = :number and node = :node order by key

-- name: draft_notes(number)
-- The notes that drafts are made of.
select node, key, created_us, body from notes
where number = :number and key >= 'ledger.draft/' and key < 'ledger.draft0'
order by node, key

-- name: put_value(number, digest, data)
-- Bytes kept once.
insert into contents (number, digest, data) values (:number, :digest, :data)
on conflict do nothing

-- name: get_value(number, digest)
-- Bytes by name.
select data from contents where number = :number and digest = :digest
