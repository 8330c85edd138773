-- Attachments: intents and their stamps.

-- name: insert_intent(tenant, session, id, uri, intent_us)
-- The first intent stays.
insert into attachments (tenant, session, id, uri, intent_us)
values (:tenant, :session, :id, :uri, :intent_us)
on conflict do nothing

-- name: get_attachment(tenant, session, id)
-- One row.
select session, id, uri, intent_us, committed_us from attachments
where tenant = :tenant and session = :session and id = :id

-- name: stamp_attachment(tenant, session, id, committed_us)
-- The first commit that uses an attachment stamps it.
update attachments set committed_us = :committed_us
where tenant = :tenant and session = :session and id = :id and committed_us is null

-- name: forget_attachment(tenant, session, id)
-- Remove the row.
delete from attachments where tenant = :tenant and session = :session and id = :id

-- name: forget_intent(tenant, session, id, before_us)
-- Remove the row of an old intent that no commit used.
delete from attachments where tenant = :tenant and session = :session and id = :id
  and committed_us is null and intent_us <= :before_us

-- name: list_uncommitted(tenant, cutoff_us)
-- Intents that no commit used, oldest first.
select session, id, uri, intent_us, committed_us from attachments
where tenant = :tenant and committed_us is null and intent_us <= :cutoff_us
order by intent_us, session, id

-- name: list_attachments(tenant, session)
-- All of a session, by age.
select session, id, uri, intent_us, committed_us from attachments
where tenant = :tenant and session = :session order by intent_us, id
