-- Tables of langgraph-checkpoint-postgres. A bare name finds what the connection's path says.
-- Each argument is used once and in its order.

-- name: migration()
-- The newest change that was made to these tables.
select max(v) from checkpoint_migrations

-- name: threads(after, most)
-- The next threads by name.
select distinct thread_id collate "C" from checkpoints
where thread_id collate "C" > :after
order by 1 limit :most

-- name: checkpoints(thread, id, ns, most)
-- The next checkpoints of a thread as they were made, without what is in them.
select checkpoint_id, checkpoint_ns, parent_checkpoint_id from checkpoints
where thread_id = :thread
and (checkpoint_id collate "C", checkpoint_ns collate "C") > (:id, :ns)
order by checkpoint_id collate "C", checkpoint_ns collate "C" limit :most

-- name: checkpoint(thread, id, ns)
-- What is in one; the numbers in it come as text, so that none of them is rounded.
select checkpoint::text, metadata::text from checkpoints
where thread_id = :thread and checkpoint_id = :id and checkpoint_ns = :ns

-- name: blobs(thread, ns, versions)
-- The values of a checkpoint's channels that do not stand in it.
select b.channel, b.type, b.blob
from checkpoint_blobs b
where b.thread_id = :thread and b.checkpoint_ns = :ns
and (b.channel, b.version) in (select key, value from jsonb_each_text(:versions::jsonb))

-- name: writes(thread, id, ns)
-- What its tasks wrote.
select task_path, task_id, idx, channel, type, blob from checkpoint_writes
where thread_id = :thread and checkpoint_id = :id and checkpoint_ns = :ns
order by task_path, task_id, idx

-- name: sends(thread, id, ns, channel)
-- What a checkpoint of the old form finds at its parent: tasks that were to be started.
select type, blob from checkpoint_writes
where thread_id = :thread and checkpoint_id = :id and checkpoint_ns = :ns and channel = :channel
order by task_path, task_id, idx
