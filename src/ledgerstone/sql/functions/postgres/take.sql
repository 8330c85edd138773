-- The queue in one round trip: taking sessions that have work, claiming under a lease, keeping claims.
--
-- What the handlers in sql/take_work.py and sql/claims.py do, for many commands at once. Where they
-- would bury a batch or refuse, nothing is done here and the word is `slow`: the handler has to look.
-- Locks: heads by number, or without ever waiting; whoever holds a head owns its rows in work and ready.
-- What was read to find a session is not believed: it is read again once the head is held.

-- Puts sessions back in the line, or out of it, as `drop_empty` and `settle_ready` do; where a queue is
-- named twice, or once by null for all of them, the last one counts.
create or replace function ledger_settle(numbers bigint[], queues varchar[], floors bigint[])
returns void language plpgsql volatile
set search_path from current
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off
as $$
begin
  delete from ready r
  where r.number = any (numbers)
    and exists (select from unnest(numbers, queues) s (number, queue)
      where s.number = r.number and (s.queue is null or s.queue = r.queue))
    and not exists (select from work w where w.number = r.number and w.queue = r.queue);
  update ready r set priority = n.priority, due_us = n.due_us
  from (
    select o.number, o.queue,
      least(
        (select min(w.priority) from work w
          where w.number = o.number and w.queue = o.queue and w.later = 0),
        (select min(w.priority) from work w
          where w.number = o.number and w.queue = o.queue and w.later = 1)) as priority,
      case when exists (select from work w where w.number = o.number and w.queue = o.queue
        and w.later = 0 and w.available_us <= f.floor_us) then f.floor_us
      else greatest(f.floor_us, least(
        (select min(w.available_us) from work w
          where w.number = o.number and w.queue = o.queue and w.later = 0),
        (select min(w.available_us) from work w
          where w.number = o.number and w.queue = o.queue and w.later = 1))) end as due_us
    from (select x.number, x.queue from ready x where x.number = any (numbers)) o
    cross join lateral (
      select s.floor_us
      from unnest(numbers, queues, floors) with ordinality s (number, queue, floor_us, place)
      where s.number = o.number and (s.queue is null or s.queue = o.queue)
      order by s.place desc limit 1
    ) f
  ) n
  where r.number = n.number and r.queue = n.queue
    and (r.priority <> n.priority or r.due_us <> n.due_us);
end
$$;

-- The next group of each session, as `choose` in rules/work.py forms it: one row per batch, `spent`
-- where a batch of the session had its attempts, so that nothing may be claimed there. `queues` null:
-- of all queues. `fences`: claims below them are nobody's any more.
create or replace function ledger_groups(
  clock_us bigint, numbers bigint[], queues varchar[], fences bigint[], most bigint[],
  out place bigint, out number bigint, out id text, out delivery text, out is_first boolean,
  out spent boolean
) returns setof record language plpgsql stable rows 50
set search_path from current
as $$
#variable_conflict use_column
begin
  return query
  select g.place, g.number, g.id, g.delivery, g.n = 1, bool_or(g.is_spent) over (partition by g.place)
  from (
    select c.*, count(*) filter (where c.stops) over (partition by c.place order by c.n) as stopped
    from (
      select f.*, f.n > 1 and (first_value(f.slot) over w = 'exclusive' or not f.is_spent and (
        f.merge = 'never' or f.slot <> 'join' or f.merge <> first_value(f.merge) over w
        or f.delivery <> first_value(f.delivery) over w)) as stops
      from (
        select q.place, q.number, b.id, b.delivery, b.slot, b.merge, b.is_spent,
          row_number() over (partition by q.place order by b.priority, b.seq) as n
        from unnest(numbers, queues, fences, most) with ordinality
          q (number, queue, fence, most, place)
        cross join lateral (
          select v.* from ready r cross join lateral (
            select w.id, w.delivery, w.slot, w.merge, w.priority, w.seq,
              w.max_attempts is not null and w.attempts >= w.max_attempts as is_spent
            from work w
            where w.number = q.number and w.queue = r.queue and w.later = 0
              and (w.claim is null or w.claim_fence < q.fence)
              and w.available_us <= ledger_groups.clock_us
            order by w.priority, w.seq limit q.most
          ) v
          where r.number = q.number and (q.queue is null or r.queue = q.queue)
          order by v.priority, v.seq limit q.most
        ) b
      ) f
      window w as (partition by f.place order by f.n)
    ) c
  ) g
  where g.stopped = 0;
end
$$;

-- Holds up to `want` sessions that are due in a line, in its order, and passes over those that others
-- hold. One seek per priority: what is not due is never walked.
create or replace function ledger_hold_due(
  who text, line text, bound_us bigint, seen bigint[], want bigint
) returns bigint[] language plpgsql volatile
set search_path from current
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off
as $$
begin
  return array(
    with recursive lines (priority) as (
      select min(r.priority) from ready r where r.tenant = who and r.queue = line
      union all
      select (select min(r.priority) from ready r
        where r.tenant = who and r.queue = line and r.priority > l.priority)
      from lines l where l.priority is not null
    )
    select h.number from lines l
    cross join lateral (
      select r.number from ready r
      where r.tenant = who and r.queue = line and r.priority = l.priority and r.due_us <= bound_us
      order by r.due_us, r.number limit 256
    ) r
    cross join lateral (
      select h.number from heads h where h.number = r.number and h.tenant = who
      for no key update skip locked
    ) h
    where r.number <> all (seen)
    limit want);
end
$$;

-- Sessions of a line for as many takers as there are: a fresh lease and a claim each. `texts` per taker:
-- owner, token of the lease, claim, token of the claim. Answers one row per batch with the place of
-- its taker and the session as it stands then; nothing for who gets nothing.
create or replace function ledger_take(
  who text, given_us bigint, line text, most bigint, texts varchar[], ttls bigint[]
) returns table (
  place bigint, word text, session text, version bigint,
  number bigint, incarnation bigint, deleted_us bigint, revision bigint, ord bigint, leaf bigint,
  tip bigint, tip_seq bigint, messages bigint, users bigint, first_user bigint, live bigint,
  branched bigint, named bigint, amended bigint, fence bigint, owner text, token text,
  claimed_us bigint, expires_us bigint, updated_us bigint, link bytea, active_run text,
  open_run text, latest_run text, ledger bytea, checkpoint text, runs bigint, enqueued bigint,
  tip_id text,
  seq bigint, queue text, priority bigint, id text, source_key text, delivery text, slot text,
  merge text, available_us bigint, max_attempts bigint, backoff_us bigint, payloads bytea,
  enqueued_us bigint, attempts bigint, last_error text, claim text, claim_fence bigint,
  claim_token text, claim_owner text, batch_claimed_us bigint, claim_expires_us bigint
) language plpgsql volatile
set search_path from current
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  _wanted bigint := cardinality(ttls);
  _given bigint := 0;
  _clock bigint;
  _seen bigint[] := '{}';
  _numbers bigint[];
  _free bigint[];
  _empty bigint[];
  _held bigint[];
  _gone bigint[];
  _ripe boolean;
begin
  perform set_config('ledgerstone.tenant', who, true);
  for _ in 1 .. 64 loop
    _clock := coalesce(given_us, ledger_clock());
    _numbers := ledger_hold_due(who, line, _clock, _seen, _wanted - _given);
    exit when cardinality(_numbers) = 0;
    _seen := _seen || _numbers;
    _clock := coalesce(given_us, ledger_clock());
    select
      coalesce(array_agg(k.number order by k.place) filter (where k.kind = 'free'), '{}'),
      array_agg(k.number) filter (where k.kind = 'empty'),
      array_agg(k.number) filter (where k.kind = 'held'),
      array_agg(k.number) filter (where k.kind = 'gone'), bool_or(k.ripe)
    into _free, _empty, _held, _gone, _ripe
    from (
      select q.place, q.number, case
          when r.due_us is null or r.due_us > _clock then 'past'
          when h.number is null then 'gone'
          when h.owner is not null and h.expires_us > r.due_us then 'held'
          when b.ripe or exists (select from work w where w.number = q.number and w.queue = line
            and w.later = 0 and w.available_us <= _clock) then 'free'
          else 'empty' end as kind, b.ripe
      from unnest(_numbers) with ordinality q (number, place)
      left join lateral (
        select r.due_us from ready r where r.number = q.number and r.queue = line limit 1
      ) r on true
      left join lateral (
        select h.number, h.owner, h.expires_us from heads h join sessions s on s.number = h.number
        where h.number = q.number and s.purged = 0 and s.deleted_us is null limit 1
      ) h on true
      cross join lateral (
        select exists (select from work w where w.number = q.number and w.queue = line
          and w.later = 1 and w.available_us <= _clock) as ripe
      ) b
    ) k;
    if _gone is not null then
      delete from ready r where r.number = any (_gone) and r.queue = line;
    end if;
    if _held is not null then
      update ready r set due_us = h.expires_us from heads h
      where r.number = any (_held) and r.queue = line and h.number = r.number;
    end if;
    if _empty is not null then
      perform ledger_settle(_empty, array_fill(line::varchar, array[cardinality(_empty)]),
        array_fill(_clock, array[cardinality(_empty)]));
    end if;
    if _ripe then
      update work w set later = 0
      where w.number = any (_free) and w.queue = line and w.later = 1 and w.available_us <= _clock;
    end if;
    return query
    select t.*
    from ledger_grant(who, _clock, line, most, _free, texts[_given * 4 + 1 :], ttls[_given + 1 :]) t;
    _given := _given + cardinality(_free);
    exit when _given = _wanted;
  end loop;
end
$$;
