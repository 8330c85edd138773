-- Tables of Google ADK's DatabaseSessionService and SqliteSessionService.
-- Each argument is used once and in its order: one of the drivers knows no numbers.

-- name: schema_version(name)
-- Which version the tables are of, where they say it.
select value from adk_internal_metadata where key = :name

-- name: sessions()
-- Every session, the one that was changed longest ago first.
select app_name, user_id, id from sessions order by update_time, app_name, user_id, id

-- name: session(app, user, id)
-- What is stored of one.
select state, create_time from sessions where app_name = :app and user_id = :user and id = :id

-- name: event(app, user, session, id)
-- Whether an event is of a session.
select 1 from events
where app_name = :app and user_id = :user and session_id = :session and id = :id

-- name: sqlite_events(app, user, session)
-- The events of a session as they were appended.
select * from events
where app_name = :app and user_id = :user and session_id = :session
order by timestamp, rowid

-- name: postgres_events(app, user, session)
-- The same, as ADK puts them in order.
select * from events
where app_name = :app and user_id = :user and session_id = :session
order by timestamp, id

-- name: app_states()
-- What the sessions of an app share.
select app_name, state from app_states order by app_name

-- name: user_states()
-- What the sessions of a user share.
select app_name, user_id, state from user_states order by app_name, user_id
