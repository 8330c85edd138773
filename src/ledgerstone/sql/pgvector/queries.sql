-- What is asked of pgvector; the tables are made by postgres.sql beside this, where it is wanted.

-- name: near_is_there()
-- Whether they are made, and may be used by this role.
select to_regclass('near') is not null and to_regclass('near_spaces') is not null
  and has_table_privilege('near', 'insert') and has_table_privilege('near_spaces', 'insert')

-- name: lock_near(tenant, model)
-- One process at a time brings a space up to date.
select set_config('ledgerstone.tenant', :tenant, true),
  pg_advisory_xact_lock(ledger_lock_key(:tenant, 'near ' || cast(:model as text)))

-- name: near_state(tenant, model)
-- The space as it is, and up to where it is known here.
select s.dimension, s.changes, s.drops, n.dimension, n.seen, n.drops
from spaces s left join near_spaces n on n.tenant = s.tenant and n.model = s.model
where s.tenant = :tenant and s.model = :model

-- name: clear_near(tenant, model)
-- The space has another dimension now.
delete from near where tenant = :tenant and model = :model

-- name: put_near(tenant, model, dimension, kinds, ids, spots)
-- Some that changed.
select ledger_put_near(:tenant, :model, :dimension, :kinds, :ids, :spots)

-- name: forget_near(tenant, model, kinds, ids)
-- Some that became zero: they are near nothing.
delete from near n using unnest(cast(:kinds as text[]), cast(:ids as text[])) f (kind, id)
where n.tenant = :tenant and n.model = :model and n.kind = f.kind and n.id = f.id

-- name: keep_near(tenant, model)
-- Something was dropped: only what is still there.
delete from near n where n.tenant = :tenant and n.model = :model and not exists (
  select from embeddings e where e.tenant = n.tenant and e.model = n.model and e.kind = n.kind
    and e.id = n.id)

-- name: set_near_space(tenant, model, dimension, seen, drops)
-- Up to here it is known.
insert into near_spaces (tenant, model, dimension, seen, drops)
values (:tenant, :model, :dimension, :seen, :drops)
on conflict (tenant, model) do update set dimension = excluded.dimension, seen = excluded.seen,
  drops = excluded.drops

-- name: index_near(dimension)
-- Make the index of a dimension if there is none.
select ledger_near_index(:dimension)

-- name: no_time_limit()
-- An index takes as long as it takes.
select set_config('statement_timeout', '0', true)

-- name: nearest(tenant, model, kind, dimension, spot, limit)
-- Candidates, to be scored by whoever asked.
select kind, id, model, change, vector, session, namespace, metadata, created_us
from ledger_nearest(:tenant, :model, :kind, :dimension, :spot, :limit)
