-- What pgvector needs beside the embeddings. Made once, by whoever owns the tables; all of it may be
-- dropped again (`drop table near, near_spaces`), and comes back when it is asked for: the vectors
-- themselves are in `embeddings`, and whoever searches brings what changed over here first.

create extension if not exists vector with schema public;

-- Wherever the extension is, these functions look there, and ordinary statements need not.
select set_config('search_path', quote_ident(current_schema()) || ', '
  || quote_ident((select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace
    where e.extname = 'vector')) || ', pg_temp', true);

-- Unit vectors, so that the inner product is the cosine.
create table if not exists near (
  tenant text collate "C" not null,
  model text collate "C" not null,
  kind text collate "C" not null,
  id text collate "C" not null,
  dimension bigint not null,
  spot vector not null,
  primary key (tenant, model, kind, id)
);

-- Up to which change of its space each model is here.
create table if not exists near_spaces (
  tenant text collate "C" not null,
  model text collate "C" not null,
  dimension bigint not null,
  seen bigint not null,
  drops bigint not null,
  primary key (tenant, model)
);

-- An index for vectors of one dimension; it can only be had up to 4000, above 2000 with half the bits.
create or replace function ledger_near_index(dimension bigint) returns boolean language plpgsql
set search_path from current
set maintenance_work_mem = '256MB'
as $$
declare
  _kind text := case when dimension <= 2000 then 'vector' else 'halfvec' end;
begin
  if dimension > 4000 then
    return false;
  end if;
  perform pg_advisory_xact_lock(ledger_lock_key('', 'near ' || dimension));
  if to_regclass(format('near_%s', dimension)) is null then
    execute format('create index near_%1$s on near using hnsw '
      '((spot::%2$s(%1$s)) %2$s_ip_ops) where dimension = %1$s', dimension, _kind);
  end if;
  return true;
end
$$;

-- Some that changed.
create or replace function ledger_put_near(
  whose text, which text, size bigint, kinds text[], ids text[], spots text[]
) returns void language plpgsql volatile
set search_path from current
as $$
begin
  insert into near (tenant, model, kind, id, dimension, spot)
  select whose, which, f.kind, f.id, size, f.spot::vector
  from unnest(kinds, ids, spots) f (kind, id, spot)
  on conflict (tenant, model, kind, id) do update set spot = excluded.spot,
    dimension = excluded.dimension;
end
$$;

-- The nearest, roughly, best first. Filters come after the index, so it goes on until there are enough.
create or replace function ledger_nearest(
  whose text, which text, what text, dimension bigint, spot text, most bigint
) returns setof embeddings language plpgsql volatile
set search_path from current
set hnsw.ef_search = 120
set hnsw.iterative_scan = 'relaxed_order'
as $$
declare
  _kind text := case when dimension <= 2000 then 'vector' else 'halfvec' end;
begin
  -- For row-level security; it lasts as long as this statement.
  perform set_config('ledgerstone.tenant', whose, true);
  return query execute format(
    'select e.* from (select n.kind, n.id from near n '
    'where n.tenant = $1 and n.model = $2 and n.kind = $3 and n.dimension = %1$s '
    'order by (n.spot::%2$s(%1$s)) <#> $4::%2$s(%1$s) limit $5) f '
    'join embeddings e on e.tenant = $1 and e.kind = f.kind and e.id = f.id and e.model = $2',
    dimension, _kind) using whose, which, what, spot, most;
end
$$;
