-- Embeddings.

-- name: list_session_vectors(tenant, kind, after, session, model, first, last, limit)
-- Those of a session by id, after one; without unary plus, which is for SQLite's planner.
select kind, id, model, change, vector, session, namespace, metadata, created_us from embeddings
where tenant = :tenant and session = :session and kind = :kind and id > :after
  and model = :model -- if model
  and namespace >= :first -- if first
  and namespace < :last -- if last
order by id
limit :limit -- if limit

-- name: get_vector_models(tenant, kind, ids)
-- In which spaces rows are, and since when; an array instead of JSON.
select id, model, created_us from embeddings
where tenant = :tenant and kind = :kind and id = any (cast(:ids as text[]))
