-- Tables of langgraph-checkpoint-sqlite.

-- name: threads(after, most)
-- The next threads by name.
select distinct thread_id from checkpoints where thread_id > :after order by thread_id limit :most

-- name: checkpoints(thread, id, ns, most)
-- The next checkpoints of a thread as they were made, without what is in them.
select checkpoint_id, checkpoint_ns, parent_checkpoint_id from checkpoints
where thread_id = :thread and (checkpoint_id, checkpoint_ns) > (:id, :ns)
order by checkpoint_id, checkpoint_ns limit :most

-- name: checkpoint(thread, id, ns)
-- What is in one.
select type, checkpoint, metadata from checkpoints
where thread_id = :thread and checkpoint_id = :id and checkpoint_ns = :ns

-- name: writes(thread, id, ns)
-- What its tasks wrote.
select task_path, task_id, idx, channel, type, value from writes
where thread_id = :thread and checkpoint_id = :id and checkpoint_ns = :ns
order by task_path, task_id, idx

-- name: old_writes(thread, id, ns)
-- The same, of a file from before tasks had a path.
select '', task_id, idx, channel, type, value from writes
where thread_id = :thread and checkpoint_id = :id and checkpoint_ns = :ns
order by task_id, idx
