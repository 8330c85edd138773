-- What verify looks at beside the history.

-- name: loose_ready()
-- Places in the line of no session.
select number, queue from ready
where number not in (select number from sessions where purged = 0)

-- name: queue_places(number)
-- Each queue that has work, its least priority and the greatest seq, and its place in the line.
select w.queue, w.least, w.last, r.priority from (
  select queue, min(priority) as least, max(seq) as last from work
  where number = :number group by queue
) w left join ready r on r.number = :number and r.queue = w.queue

-- name: standing_runs(number)
-- The runs that a session knows, and the records of those that have one.
select id, key & 4294967295, first_ord, last_ord, body from runs
where key between :number * 4294967296 and :number * 4294967296 + 4294967295

-- name: headless_sessions()
-- Sessions that nobody can find, because their head is gone.
select number from sessions where number not in (select number from heads)

-- name: recency_of(number)
-- Where the session stands in lists by time of change.
select recency from sessions where number = :number

-- name: schema_texts()
-- What the file says its tables are; an ANALYZE by somebody else may have added its own.
select type, name, tbl_name, sql from sqlite_schema
where name not like 'sqlite_stat%' order by type, name

-- name: touched_of(number)
-- When the session was last changed without a commit.
select touched_us from heads where number = :number
