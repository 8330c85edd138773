-- Sessions and their documents.
--
-- Format of these files: each statement follows a line `-- name: query(arguments)` and a sentence
-- that says what it does. Arguments are bound by name (:argument) and passed in that order.
-- A line that ends in `-- if x, y` belongs to the statement only when x and y are given.

-- name: find_head(tenant, id)
-- The head of a session with what a commit must know of its session row.
select h.number, s.incarnation, s.deleted_us,
  h.revision, h.ord, h.leaf, h.tip, h.tip_seq, h.messages, h.users, h.first_user, h.live,
  h.branched, h.named, h.amended, h.fence, h.owner, h.token, h.claimed_us, h.expires_us,
  h.updated_us, h.link, h.active_run, h.open_run, h.latest_run, h.ledger, h.checkpoint,
  h.runs, h.enqueued
from sessions s join heads h on h.number = s.number
where s.tenant = :tenant and s.id = :id and s.purged = 0

-- name: find_outline(tenant, id)
-- What a read of paths must know of a session.
select h.number, h.leaf, h.tip, h.tip_seq, h.branched, h.amended, h.runs
from sessions s join heads h on h.number = s.number
where s.tenant = :tenant and s.id = :id and s.purged = 0

-- name: insert_session(tenant, id, incarnation, user, app, title, model, cwd, status, metadata, parent, cause, created_us, recency)
-- A new session row; its number comes back.
insert into sessions (tenant, id, incarnation, "user", app, title, model, cwd, status, metadata,
  parent, cause, created_us, recency)
values (:tenant, :id, :incarnation, :user, :app, :title, :model, :cwd, :status, :metadata,
  :parent, :cause, :created_us, :recency)
returning number

-- name: insert_head(number, fence, updated_us, link)
-- The head of a new session.
insert into heads (number, fence, updated_us, touched_us, link)
values (:number, :fence, :updated_us, :updated_us, :link)

-- name: overwrite_session(number, user, app, title, model, cwd, status, metadata, parent, cause, recency)
-- Everything a caller may set, at once.
update sessions set "user" = :user, app = :app, title = :title, model = :model, cwd = :cwd,
  status = :status, metadata = :metadata, parent = :parent, cause = :cause, recency = :recency
where number = :number

-- name: move_recency(number, recency)
-- Where the session stands in lists by time of change.
update sessions set recency = :recency where number = :number

-- name: touch_head(number, updated_us)
-- The session changed without a commit.
update heads set updated_us = :updated_us, touched_us = :updated_us where number = :number

-- name: mark_deleted(number, deleted_us)
-- Soft delete, or with null the end of it.
update sessions set deleted_us = :deleted_us where number = :number

-- name: get_session(tenant, id)
-- One session with the times and run pointers of its head.
select s.id, s.tenant, s."user", s.app, s.title, s.model, s.cwd, s.status, s.metadata, s.parent,
  s.cause, s.incarnation, s.created_us, h.updated_us, s.deleted_us,
  h.active_run, h.open_run, h.latest_run
from sessions s join heads h on h.number = s.number
where s.tenant = :tenant and s.id = :id and s.purged = 0

-- name: list_sessions(tenant, user, anonymous, app, status, parent, live, created_after, created_before, metadata, fragment, recency, value, id, newest, stalest, youngest, oldest, first, last, limit, offset)
-- A stretch of a list in one of six orders; value and id are the key of the last row before it.
-- By change: rows of one recency bucket are put in exact order by the database.
select s.id, s.tenant, s."user", s.app, s.title, s.model, s.cwd, s.status, s.metadata, s.parent,
  s.cause, s.incarnation, s.created_us, h.updated_us, s.deleted_us,
  h.active_run, h.open_run, h.latest_run
from sessions s join heads h on h.number = s.number
where s.tenant = :tenant and s.purged = 0
  and s."user" = :user -- if user
  and s."user" is null -- if anonymous
  and s.app = :app -- if app
  and s.status = :status -- if status
  and s.parent = :parent -- if parent
  and s.deleted_us is null -- if live
  and s.created_us >= :created_after -- if created_after
  and s.created_us < :created_before -- if created_before
  and coalesce(s.metadata, cast('null' as blob)) = :metadata -- if metadata
  and instr(s.metadata, :fragment) > 0 -- if fragment
  and s.recency <= :recency and (h.updated_us, :id) < (:value, s.id) -- if newest, value
  and s.recency >= :recency and (h.updated_us, s.id) > (:value, :id) -- if stalest, value
  and s.created_us <= :value and (s.created_us, :id) < (:value, s.id) -- if youngest, value
  and (s.created_us, s.id) > (:value, :id) -- if oldest, value
  and s.id > :id -- if first, value
  and s.id < :id -- if last, value
order by s.recency desc, h.updated_us desc, s.id -- if newest
order by s.recency, h.updated_us, s.id -- if stalest
order by s.created_us desc, s.id -- if youngest
order by s.created_us, s.id -- if oldest
order by s.id -- if first
order by s.id desc -- if last
limit :limit offset :offset

-- name: count_sessions(tenant, user, app, status, parent, live, created_after, created_before, metadata)
-- How many sessions fit the filter.
select count(*)
from sessions s
where s.tenant = :tenant and s.purged = 0
  and s."user" = :user -- if user
  and s.app = :app -- if app
  and s.status = :status -- if status
  and s.parent = :parent -- if parent
  and s.deleted_us is null -- if live
  and s.created_us >= :created_after -- if created_after
  and s.created_us < :created_before -- if created_before
  and coalesce(s.metadata, cast('null' as blob)) = :metadata -- if metadata

-- name: list_tenants()
-- Every tenant that has a session, or something that needs none.
select tenant from sessions where purged = 0
union select tenant from attachments
union select tenant from blobs
union select tenant from uploads
union select tenant from artifacts
union select tenant from evidence
union select tenant from budgets
union select tenant from memories
union select tenant from embeddings
union select tenant from kept_runs
union select tenant from stubs
order by tenant

-- name: get_document(number, name)
-- One document of a session.
select body from documents where number = :number and name = :name

-- name: get_documents(tenant, name, ids)
-- One document of each of these sessions: a list as JSON.
select s.id, d.body from sessions s join documents d on d.number = s.number
where s.tenant = :tenant and s.id in (select value from json_each(:ids)) and s.purged = 0
  and d.name = :name

-- name: put_document(number, name, body)
-- Keep a document, replacing an older one.
insert into documents (number, name, body) values (:number, :name, :body)
on conflict (number, name) do update set body = excluded.body

-- name: drop_document(number, name)
-- Remove a document.
delete from documents where number = :number and name = :name

-- name: count_rows()
-- How much is stored, over all tenants.
select (select count(*) from sessions where purged = 0), (select count(*) from nodes),
  (select count(*) from turns where number > 0)
