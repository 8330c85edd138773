-- Claiming under a lease, and keeping claims: what handlers/claims.py does, for many commands at once. How
-- tenants are compared, what is `slow` and which locks are held: see take.sql.

-- The next group of batches for each claimant, under its live lease; one claimant per session. Per
-- claimant: `sessions`, `queues` (null: any), `fences`, `ttls`, and five `texts`: token of the lease,
-- claim, owner, token of the claim, boundary. Answers one row per batch; nothing for who gets nothing.
create or replace function ledger_claim(
  who text, given_us bigint, most bigint, sessions text[], queues text[], fences bigint[],
  ttls bigint[], texts text[]
) returns table (
  place bigint, word text,
  seq bigint, queue text, priority bigint, id text, source_key text, delivery text, slot text,
  merge text, available_us bigint, max_attempts bigint, backoff_us bigint, payloads bytea,
  enqueued_us bigint, attempts bigint, last_error text, claim text, claim_fence bigint,
  claim_token text, claim_owner text, claimed_us bigint, claim_expires_us bigint
) language plpgsql volatile
set search_path from current
set plan_cache_mode = force_generic_plan set lock_timeout = '2s'
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  _clock bigint;
  _numbers bigint[];
  _ends bigint[];
  _fits boolean[];
  _places bigint[];
  _owners bigint[];
  _ids text[];
  _queues text[];
  _spent bigint[];
  _moved boolean;
begin
  perform set_config('ledgerstone.tenant', who, true);
  _numbers := array(
    select h.number from heads h
    where h.tenant = who and h.number = any (array(
      select s.number from sessions s
      where s.tenant = who and s.id = any (ledger_claim.sessions)))
    order by h.number for no key update);
  _clock := coalesce(given_us, ledger_clock());
  update work w set later = 0
  where w.number = any (_numbers) and w.tenant = who and w.later = 1 and w.available_us <= _clock;
  -- Who may claim, and when its lease ends; null for whom the handler has to look. With each its
  -- first batch, which is all that most ask for.
  select array_agg(k.number order by k.n), array_agg(k.ends_us order by k.n),
    array_agg(k.n) filter (where k.id is not null), array_agg(k.number) filter (where k.id is not null),
    array_agg(k.id) filter (where k.id is not null),
    array_agg(k.queue) filter (where k.id is not null),
    coalesce(array_agg(k.n) filter (where k.spent), '{}'), bool_or(k.due_us <> k.ends_us)
  into _numbers, _ends, _places, _owners, _ids, _queues, _spent, _moved
  from (
    select q.n, h.number, h.expires_us as ends_us, b.*
    from unnest(ledger_claim.sessions, fences) with ordinality q (id, fence, n)
    left join lateral (
      select h.number, h.expires_us
      from sessions s join heads h on h.number = s.number
      where s.tenant = who and s.id = q.id and h.deleted_us is null
        and h.tenant = who and h.fence = q.fence and h.owner is not null
        and h.token = texts[q.n * 5 - 4] and h.expires_us > _clock
        and not exists (select from work w
          where w.number = h.number and w.tenant = who and w.claim = texts[q.n * 5 - 3])
        and not exists (select from work w
          where w.number = h.number and w.tenant = who and w.claim_fence = 9223372036854775807)
      limit 1
    ) h on true
    left join lateral (
      select v.* from ready r cross join lateral (
        select w.id, w.queue, w.priority, w.seq, r.due_us,
          w.superseded is not null
            or w.max_attempts is not null and w.attempts >= w.max_attempts as spent, w.delivery
        from work w
        where w.number = h.number and w.tenant = who and w.queue = r.queue and w.later = 0
          and (w.claim is null or w.claim_fence < q.fence) and w.available_us <= _clock
        order by w.priority, w.seq limit 1
      ) v
      where r.number = h.number and r.tenant = who collate "POSIX"
        and (queues[q.n] is null or r.queue = queues[q.n])
      order by v.priority, v.seq limit 1
    ) b on b.spent or texts[q.n * 5] = 'idle' or b.delivery = 'earliest_safe_boundary'
    offset 0
  ) k;
  if most > 1 and _places is not null then
    select array_agg(g.place), array_agg(g.number), array_agg(g.id), array_agg(g.queue),
      coalesce(array_agg(g.place) filter (where g.spent), '{}')
    into _places, _owners, _ids, _queues, _spent
    from ledger_groups(who, _clock, _numbers, queues, fences,
      array_fill(most, array[cardinality(_numbers)])) g
    where g.place = any (_places);
    _moved := true;
  end if;
  if _moved then
    update ready r set due_us = _ends[c.place]
    from unnest(_places, _owners, _queues) c (place, number, queue)
    where c.place <> all (_spent) and r.number = c.number and r.tenant = who collate "POSIX"
      and r.queue = c.queue
      and r.due_us <> _ends[c.place];
  end if;
  return query
  update work w set attempts = w.attempts + 1, claim = texts[c.place * 5 - 3],
    claim_fence = fences[c.place], claim_token = texts[c.place * 5 - 1],
    claim_owner = texts[c.place * 5 - 2], claimed_us = _clock,
    claim_expires_us = _clock + ttls[c.place]
  from unnest(_places, _owners, _ids) c (place, number, batch)
  where c.place <> all (_spent) and w.number = c.number and w.tenant = who and w.id = c.batch
  returning c.place, 'ok', w.seq, w.queue, w.priority, w.id, w.source_key, w.delivery, w.slot,
    w.merge, w.available_us, w.max_attempts, w.backoff_us, w.payloads, w.enqueued_us, w.attempts,
    w.last_error, w.claim, w.claim_fence, w.claim_token, w.claim_owner, w.claimed_us,
    w.claim_expires_us;
  for n in 1 .. cardinality(fences) loop
    if _numbers[n] is null or n = any (_spent) then
      place := n;
      word := 'slow';
      return next;
    end if;
  end loop;
end
$$;

-- A later end for claims that still own their batches. `texts` per claim: session, claim, token.
create or replace function ledger_renew_claims(
  who text, given_us bigint, ttls bigint[], texts text[]
) returns table (
  place bigint, word text,
  seq bigint, queue text, priority bigint, id text, source_key text, delivery text, slot text,
  merge text, available_us bigint, max_attempts bigint, backoff_us bigint, payloads bytea,
  enqueued_us bigint, attempts bigint, last_error text, claim text, claim_fence bigint,
  claim_token text, claim_owner text, claimed_us bigint, claim_expires_us bigint
) language plpgsql volatile
set search_path from current
set plan_cache_mode = force_generic_plan set lock_timeout = '2s'
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  _clock bigint;
  _numbers bigint[];
begin
  perform set_config('ledgerstone.tenant', who, true);
  _numbers := array(
    select (select s.number from sessions s
      where s.tenant = who and s.id = texts[n * 3 - 2])
    from generate_series(1, cardinality(ttls)) n order by n);
  perform from heads h where h.number = any (_numbers) and h.tenant = who
  order by h.number for no key update;
  _clock := coalesce(given_us, ledger_clock());
  return query
  with owned as materialized (
    select q.n, q.number from unnest(_numbers) with ordinality q (number, n)
    cross join lateral (
      select h.fence from heads h
        join sessions s on s.number = h.number and s.tenant = who collate "POSIX"
      where h.number = q.number and h.tenant = who and h.deleted_us is null limit 1
    ) h
    cross join lateral (
      select bool_and(w.claim_token = texts[q.n * 3] and w.claim_fence = h.fence
        and w.superseded is null) as owns
      from work w where w.number = q.number and w.tenant = who and w.claim = texts[q.n * 3 - 1]
    ) w
    where w.owns
  ), renewed as (
    update work w set claim_expires_us = greatest(w.claim_expires_us, _clock + ttls[o.n])
    from owned o where w.number = o.number and w.tenant = who and w.claim = texts[o.n * 3 - 1]
    returning o.n, w
  )
  select r.n, 'ok', (r.w).seq, (r.w).queue, (r.w).priority, (r.w).id, (r.w).source_key,
    (r.w).delivery, (r.w).slot, (r.w).merge, (r.w).available_us, (r.w).max_attempts,
    (r.w).backoff_us, (r.w).payloads, (r.w).enqueued_us, (r.w).attempts, (r.w).last_error,
    (r.w).claim, (r.w).claim_fence, (r.w).claim_token, (r.w).claim_owner, (r.w).claimed_us,
    (r.w).claim_expires_us
  from renewed r;
end
$$;
