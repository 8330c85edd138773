-- What stays of a purged session, and how the rest goes.

-- name: get_stub(tenant, id)
-- What a purged session left behind.
select incarnation, fence, link, retired from stubs where tenant = :tenant and id = :id

-- name: stubs_of(tenant, id)
-- What a new session goes on from: its own stub, and the one of no session.
select id, incarnation, fence, retired from stubs
where tenant = :tenant and id in (:id, '') order by id

-- name: raise_stubs(tenant, jump)
-- Lift the fences of all.
update stubs set fence = fence + :jump where tenant = :tenant

-- name: put_stub(tenant, id, incarnation, fence, link, retired)
-- Leave a stub; once retired it stays retired.
insert into stubs (tenant, id, incarnation, fence, link, retired)
values (:tenant, :id, :incarnation, :fence, :link, :retired)
on conflict (tenant, id) do update set incarnation = excluded.incarnation,
  fence = excluded.fence, link = excluded.link, 
  retired = case when excluded.retired = 0 then stubs.retired else excluded.retired end

-- name: mark_purged(number)
-- Invisible from now on.
update sessions set purged = 1 where number = :number

-- name: purge_attachments(tenant, session)
-- Attachments belong to the id, not the number, so they go at once.
delete from attachments where tenant = :tenant and session = :session

-- name: purge_artifacts(tenant, scope)
-- Artifacts of a session too, and all that follows here but what has a number.
delete from artifacts where tenant = :tenant and scope = :scope

-- name: purge_evidence(tenant, session)
-- What says that there were lists.
delete from evidence where tenant = :tenant and session = :session

-- name: purge_budgets(tenant, session)
-- What the session was allowed to use.
delete from budgets where tenant = :tenant and scope = 'session' and subject = :session

-- name: purge_ready(number)
-- No worker is led to it any more.
delete from ready where number = :number

-- name: purge_dead(number)
-- Ended batches are listed for all sessions, so they go at once.
delete from ended_work where number = :number

-- name: purge_work_sums(number)
-- So are their counts.
delete from work_sums where number = :number

-- name: next_purged(tenant)
-- A session whose rows are still to be swept.
select number from sessions where purged = 1 and tenant = :tenant order by number limit 1

-- name: sweep_nodes(first, last, limit)
-- Some nodes.
delete from nodes where key in (
  select key from nodes where key between :first and :last limit :limit)

-- name: sweep_amendments(first, last)
-- All amendments.
delete from amendments where key between :first and :last

-- name: sweep_turns(number, limit)
-- Some turns; not the newest of the file, whose place in the feed would be given out again.
delete from turns where pos in (select pos from turns
  where number = :number and pos < (select max(pos) from turns) limit :limit)

-- name: sweep_blank_turns()
-- What was left of a purged session once is not needed when another commit is the newest.
delete from turns where number = 0 and pos < (select max(pos) from turns)

-- name: blank_turn(number)
-- The newest commit of the file: its place stays, and says nothing any more.
update turns set number = 0, revision = 0, id = '', kind = '', hash = x'', link = x'',
  created_us = 0, leaf = 0, first_ord = 0, count = 0, usage = null, effects = null,
  usage_digest = null
where number = :number

-- name: sweep_notes(number)
-- All notes.
delete from notes where number = :number

-- name: sweep_contents(number)
-- All values.
delete from contents where number = :number

-- name: sweep_branches(number)
-- All branches.
delete from branches where number = :number

-- name: sweep_documents(number)
-- All documents.
delete from documents where number = :number

-- name: sweep_runs(first, last)
-- All runs.
delete from runs where key between :first and :last

-- name: sweep_work(number)
-- The queue.
delete from work where number = :number

-- name: sweep_tickets(number)
-- All tickets.
delete from tickets where number = :number

-- name: sweep_executions(number)
-- All executions.
delete from executions where number = :number

-- name: sweep_head(number)
-- The head.
delete from heads where number = :number

-- name: sweep_session(number)
-- The session row itself, last: until then the sweep can be resumed.
delete from sessions where number = :number
