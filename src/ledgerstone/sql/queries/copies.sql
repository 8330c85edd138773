-- Fork and copy: rows of one session become rows of another, in one statement each.
-- `:number * 4294967296` is `:number << 32` where every database knows that the number is long.

-- name: fork_nodes(base, leaf, target)
-- The live path of a leaf, numbered anew.
with recursive path (key, parent) as (
  select key, parent from nodes where key = :leaf
  union all
  select n.key, n.parent from path join nodes n on n.key = :base + path.parent
  where path.parent > 0 and :base + path.parent < path.key
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

-- name: fork_amendments(source, target)
-- The newest version of each copied message.
insert into amendments (key, version, revision, created_us, salt, patch, commitment)
select t.key, 1, 1, a.created_us, a.salt, a.patch, a.commitment
from amendments a
  join nodes s on s.key = a.key
  join nodes t on t.id = s.id and t.key >> 32 = :target
where a.key between :source * 4294967296 and :source * 4294967296 + 4294967295
  and a.patch is not null
  and a.version = (select max(version) from amendments b where b.key = a.key)

-- name: copy_nodes(source, target)
-- Every node; what was hidden is hidden again by `hide_copies`.
insert into nodes (key, parent, seq, role, kind, label, run, meta, format, refs, created_us,
  id, salt, body, commitment)
select key + :target * 4294967296 - :source * 4294967296, parent, seq, role, kind, label, run,
  meta, format, refs, created_us, id, salt, body, commitment
from nodes where key between :source * 4294967296 and :source * 4294967296 + 4294967295

-- name: hide_copies(source, target)
-- What is hidden in the source is hidden in the copy, since before its first commit.
update nodes set deleted_us = s.deleted_us, deleted_rev = 0
from nodes s
where s.key between :source * 4294967296 and :source * 4294967296 + 4294967295
  and s.deleted_us is not null
  and nodes.key = s.key + :target * 4294967296 - :source * 4294967296

-- name: copy_amendments(source, target)
-- Every version.
insert into amendments (key, version, revision, created_us, salt, patch, commitment)
select key + :target * 4294967296 - :source * 4294967296, version, 1, created_us, salt, patch,
  commitment
from amendments where key between :source * 4294967296 and :source * 4294967296 + 4294967295

-- name: copy_branches(source, target)
-- Named leaves.
insert into branches (number, name, leaf)
select :target, name, leaf from branches where number = :source

-- name: copy_notes(source, target)
-- Notes, but no drafts: they belong to the writer of the source.
insert into notes (number, node, key, format, refs, created_us, body)
select :target, node, key, format, refs, created_us, body from notes
where number = :source and not (key >= 'ledger.draft/' and key < 'ledger.draft0')

-- name: copy_contents(source, target)
-- Values.
insert into contents (number, digest, data)
select :target, digest, data from contents where number = :source

-- name: copy_documents(source, target)
-- Documents.
insert into documents (number, name, body)
select :target, name, body from documents where number = :source and name <> 'forgotten'

-- name: fork_documents(source, target)
-- The documents that a fork goes on with.
insert into documents (number, name, body)
select :target, name, body from documents
where number = :source and name in ('state', 'config')

-- name: copy_runs(source, target)
-- The names of runs, and where each wrote in the numbering of the copy; no records.
insert into runs (key, id, first_ord, last_ord)
select :target * 4294967296 + n.run, r.id, min(n.key & 4294967295), max(n.key & 4294967295)
from nodes n join runs r on r.key = :source * 4294967296 + n.run
where n.key between :target * 4294967296 and :target * 4294967296 + 4294967295
  and n.run is not null
group by n.run, r.id

-- name: copy_attachments(tenant, source, target)
-- Bytes that the source's messages need are needed by the copy; an intent of the target's stays.
insert into attachments (tenant, session, id, uri, intent_us, committed_us)
select tenant, :target, id, uri, intent_us, committed_us from attachments
where tenant = :tenant and session = :source and committed_us is not null
on conflict (tenant, session, id) do update set
  committed_us = coalesce(attachments.committed_us, excluded.committed_us)

-- name: chain_rows(first, last)
-- What the chain knows of nodes, in commit order.
select n.key & 4294967295, n.parent, n.id, n.salt, n.role, n.kind, n.label,
  (select r.id from runs r where r.key = n.key - (n.key & 4294967295) + n.run), n.meta,
  n.format, n.refs, n.created_us, n.body, n.commitment, n.seq, n.deleted_us, n.deleted_rev
from nodes n
where n.key between :first and :last order by n.key

-- name: chain_amendments(first, last)
-- What the chain knows of amendments.
select key & 4294967295, version, commitment, salt, patch, revision from amendments
where key between :first and :last order by key, version
