-- Embeddings: vectors by kind and id, and the space of each model, which indexes follow.

-- name: get_vector(tenant, kind, id)
-- One row.
select kind, id, model, change, vector, session, namespace, metadata, created_us from embeddings
where tenant = :tenant and kind = :kind and id = :id

-- name: get_vector_model(tenant, kind, id)
-- In which space a row is, and since when.
select model, created_us from embeddings where tenant = :tenant and kind = :kind and id = :id

-- name: get_vector_models(tenant, kind, ids)
-- The same for many ids: a list as JSON.
select id, model, created_us from embeddings
where tenant = :tenant and kind = :kind and id in (select value from json_each(:ids))

-- name: put_vector(tenant, kind, id, model, change, vector, session, namespace, metadata, created_us)
-- Insert or replace all of it.
insert into embeddings
  (tenant, kind, id, model, change, vector, session, namespace, metadata, created_us)
values
  (:tenant, :kind, :id, :model, :change, :vector, :session, :namespace, :metadata, :created_us)
on conflict (tenant, kind, id) do update set model = excluded.model, change = excluded.change,
  vector = excluded.vector, session = excluded.session, namespace = excluded.namespace,
  metadata = excluded.metadata, created_us = excluded.created_us

-- name: delete_vector(tenant, kind, id)
-- Remove one.
delete from embeddings where tenant = :tenant and kind = :kind and id = :id

-- name: count_session_vectors(tenant, session)
-- How many vectors of a session are in each space.
select model, count(*) from embeddings
where tenant = :tenant and session = :session group by model order by model

-- name: delete_session_vectors(tenant, session)
-- Remove those of a session.
delete from embeddings where tenant = :tenant and session = :session

-- name: list_session_vectors(tenant, kind, after, session, model, first, last, limit)
-- Those of a session by id, after one; the index by id would lead past everybody else's.
select kind, id, model, change, vector, session, namespace, metadata, created_us from embeddings
where tenant = :tenant and session = :session and +kind = :kind and +id > :after
  and +model = :model -- if model
  and namespace >= :first -- if first
  and namespace < :last -- if last
order by +id
limit :limit -- if limit

-- name: list_vectors(tenant, kind, after, model, first, last, limit)
-- By id, after one.
select kind, id, model, change, vector, session, namespace, metadata, created_us from embeddings
where tenant = :tenant and kind = :kind and id > :after
  and model = :model -- if model
  and namespace >= :first -- if first
  and namespace < :last -- if last
order by id
limit :limit -- if limit

-- name: changed_vectors(tenant, model, after, limit)
-- Rows of a space that changed after a change, in that order.
select kind, id, model, change, vector, session, namespace, metadata, created_us from embeddings
where tenant = :tenant and model = :model and change > :after
order by change limit :limit

-- name: vector_names(tenant, model)
-- Kind and id of every row of a space.
select kind, id from embeddings where tenant = :tenant and model = :model order by kind, id

-- name: get_space(tenant, model)
-- A space.
select model, dimension, count, changes, drops from spaces
where tenant = :tenant and model = :model

-- name: list_spaces(tenant)
-- The spaces of a tenant.
select model, dimension, count, changes, drops from spaces where tenant = :tenant order by model

-- name: put_space(tenant, model, dimension, count, changes, drops)
-- Insert or replace a space.
insert into spaces (tenant, model, dimension, count, changes, drops)
values (:tenant, :model, :dimension, :count, :changes, :drops)
on conflict (tenant, model) do update set dimension = excluded.dimension, count = excluded.count,
  changes = excluded.changes, drops = excluded.drops

-- name: counted_spaces(tenant)
-- What the rows say of their space.
select model, count(*), max(change), min(length(vector)), max(length(vector)) from embeddings
where tenant = :tenant group by model order by model
