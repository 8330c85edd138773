-- Waking other processes. Who listens holds a shared lock; who tells takes it alone for a moment when
-- nobody does, and then says nothing: a NOTIFY costs a transaction.

-- name: tell_others(channel, name)
-- Whether anybody listens. Nobody waits for this to reach the disk.
select case when pg_try_advisory_xact_lock(hashtextextended(:channel, 6)) then false
  else set_config('synchronous_commit', 'off', true) is not null
    and cast(pg_notify(:channel, :name) as text) is not null end

-- name: mark_listener(channel)
-- This connection listens until it ends.
select pg_advisory_lock_shared(hashtextextended(:channel, 6))
