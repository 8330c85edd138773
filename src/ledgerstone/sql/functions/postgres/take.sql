-- The queue in one round trip: taking sessions that have work, claiming under a lease, keeping claims.
--
-- What the handlers in handlers/take_work.py and handlers/claims.py do, for many commands at once. Where they
-- would bury a batch or refuse, nothing is done here and the word is `slow`: the handler has to look.
-- Locks: heads by number, or without ever waiting; who holds a head owns its rows in work and ready.
-- What was read to find a session is not believed: it is read again once the head is held.
--
-- Where a row is found by the number of its session, its tenant is compared by another collation than
-- that of the indexes which begin with it. To a planner without statistics those look as good as the
-- key, and it would walk all sessions of the tenant, or its whole line, for each of them. So is the
-- queue, where many rows of `ready` are found by their numbers: a line that was short once looks as if
-- one walk through it were best.

-- Puts sessions back in the line, or out of it, as `drop_empty` and `settle_ready` do. No queue of a
-- session is named twice; null stands for all of them.
create or replace function ledger_settle(
  tenants text[], numbers bigint[], queues text[], floors bigint[]
) returns void language plpgsql volatile
set search_path from current
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off
as $$
begin
  delete from ready r
  using unnest(tenants, numbers, queues) s (tenant, number, queue)
  where r.number = s.number and r.tenant = s.tenant collate "POSIX"
    and (s.queue is null or r.queue = s.queue)
    and not exists (select from work w
      where w.number = r.number and w.tenant = r.tenant and w.queue = r.queue);
  -- Most often nothing is left of them in the line.
  perform from ready r
  where r.number = any (numbers) and r.tenant = any (tenants collate "POSIX") limit 1;
  if not found then
    return;
  end if;
  update ready r set priority = n.priority, due_us = n.due_us
  from (
    select o.tenant, o.number, o.queue,
      least(
        (select min(w.priority) from work w
          where w.number = o.number and w.tenant = o.tenant and w.queue = o.queue and w.later = 0),
        (select min(w.priority) from work w
          where w.number = o.number and w.tenant = o.tenant and w.queue = o.queue and w.later = 1)
      ) as priority,
      case when exists (select from work w
        where w.number = o.number and w.tenant = o.tenant and w.queue = o.queue
        and w.later = 0 and w.available_us <= s.floor_us and not exists (select from work p where p.number = o.number and p.tenant = o.tenant
          and p.claim_fence = 9223372036854775807 and (p.priority, p.seq) < (w.priority, w.seq))) then s.floor_us
      else greatest(s.floor_us, least(
        (select min(w.available_us) from work w
          where w.number = o.number and w.tenant = o.tenant and w.queue = o.queue and w.later = 0
            and not exists (select from work p where p.number = o.number and p.tenant = o.tenant
              and p.claim_fence = 9223372036854775807 and (p.priority, p.seq) < (w.priority, w.seq))),
        (select w.available_us from work w
          where w.number = o.number and w.tenant = o.tenant and w.queue = o.queue and w.later = 1
            and not exists (select from work p where p.number = o.number and p.tenant = o.tenant
              and p.claim_fence = 9223372036854775807 and (p.priority, p.seq) < (w.priority, w.seq))
          order by w.available_us limit 1),
        253402300799999999)) end as due_us
    from unnest(tenants, numbers, queues, floors) s (tenant, number, queue, floor_us)
    cross join lateral (
      select x.tenant, x.number, x.queue from ready x
      where x.number = s.number and x.tenant = s.tenant collate "POSIX"
        and (s.queue is null or x.queue = s.queue)
      offset 0
    ) o
    offset 0
  ) n
  where r.number = n.number and r.tenant = n.tenant collate "POSIX" and r.queue = n.queue
    and (r.priority <> n.priority or r.due_us <> n.due_us);
end
$$;

-- The next group of each session, as `choose` in rules/work.py forms it: one row per batch; `spent`
-- where one of them had its attempts or was superseded, or one of the session waits for a decision, so that nothing may be
-- claimed there: the handler does. `queues` null: of all
-- queues. `fences`: claims below them are nobody's any more. The planner takes this apart and puts it
-- into the statements that use it, so it names no search path of its own.
create or replace function ledger_groups(
  who text, clock_us bigint, numbers bigint[], queues text[], fences bigint[], most bigint[]
) returns table (
  place bigint, number bigint, id text, n bigint, delivery text, queue text, spent boolean
) language sql stable rows 50
as $$
  select g.place, g.number, g.id, g.n, g.delivery, g.queue,
    bool_or(g.is_spent) over (partition by g.place)
  from (
    select c.*, count(*) filter (where c.stops) over (partition by c.place order by c.n) as stopped
    from (
      select f.*, f.n > 1 and (first_value(f.slot) over w = 'exclusive' or not f.is_spent and (
        f.merge = 'never' or f.slot <> 'join' or f.merge <> first_value(f.merge) over w
        or f.delivery <> first_value(f.delivery) over w)) as stops
      from (
        select q.place, q.number, b.*,
          row_number() over (partition by q.place order by b.priority, b.seq) as n
        from unnest(numbers, queues, fences, most) with ordinality
          q (number, queue, fence, most, place)
        cross join lateral (
          select v.* from ready r cross join lateral (
            select w.id, w.queue, w.delivery, w.slot, w.merge, w.priority, w.seq,
              w.superseded is not null or w.max_attempts is not null and w.attempts >= w.max_attempts
                or exists (select from work p where p.number = q.number and p.tenant = who
                  and p.claim_fence = 9223372036854775807) as is_spent
            from work w
            where w.number = q.number and w.tenant = who and w.queue = r.queue and w.later = 0
              and (w.claim is null or w.claim_fence < q.fence) and w.available_us <= clock_us
            order by w.priority, w.seq limit q.most
          ) v
          where r.number = q.number and r.tenant = who collate "POSIX"
            and (q.queue is null or r.queue = q.queue)
          order by v.priority, v.seq limit q.most
        ) b
      ) f
      window w as (partition by f.place order by f.n)
    ) c
  ) g
  where g.stopped = 0
$$;

-- Sessions of a line for as many takers as there are: a fresh lease and a claim each. `texts` per
-- taker: owner, token of the lease, claim, token of the claim. Answers one row per batch with the place of
-- its taker and the session as it stands then; nothing for who gets nothing. `again`: the one taker may
-- have been given a session by a call whose answer got lost; then it is that one.
create or replace function ledger_take(
  who text, given_us bigint, line text, most bigint, again bigint, texts text[], ttls bigint[]
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
  claim_token text, claim_owner text, batch_claimed_us bigint, claim_expires_us bigint,
  superseded text
) language plpgsql volatile
set search_path from current
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  _wanted bigint := cardinality(ttls);
  _given bigint := 0;
  _clock bigint;
  _left bigint[] := '{}';
  _numbers bigint[];
  _ends bigint[];
  _free bigint[];
  _names text[];
  _lives bigint[];
  _empty bigint[];
  _held bigint[];
  _gone bigint[];
  _places bigint[];
  _owners bigint[];
  _ids text[];
  _spent boolean[];
  _nth bigint[];
  _at bigint;
begin
  perform set_config('ledgerstone.tenant', who, true);
  if again > 0 then
    return query
    select 1::bigint, 'ok', s.id, h.xmin::text::bigint, h.number, h.incarnation, h.deleted_us,
      h.revision, h.ord, h.leaf, h.tip, h.tip_seq, h.messages, h.users, h.first_user, h.live,
      h.branched, h.named, h.amended, h.fence, h.owner, h.token, h.claimed_us, h.expires_us,
      h.updated_us, h.link, h.active_run, h.open_run, h.latest_run, h.ledger, h.checkpoint, h.runs,
      h.enqueued,
      (select n.id from nodes n where n.key = (h.number << 32) + h.tip and n.tenant = who),
      w.seq, w.queue, w.priority, w.id, w.source_key, w.delivery, w.slot, w.merge, w.available_us,
      w.max_attempts, w.backoff_us, w.payloads, w.enqueued_us, w.attempts, w.last_error, w.claim,
      w.claim_fence, w.claim_token, w.claim_owner, w.claimed_us, w.claim_expires_us, w.superseded
    from ready r join heads h on h.number = r.number and h.tenant = who and h.token = texts[2]
      join sessions s on s.number = h.number and s.tenant = who collate "POSIX"
      join work w on w.number = h.number and w.tenant = who and w.claim = texts[3]
    where r.tenant = who and r.queue = line;
    if found then
      return;
    end if;
  end if;
  for _ in 1 .. 64 loop
    _clock := coalesce(given_us, ledger_clock());
    -- One seek per priority: what is not due is never walked. What others hold is passed over. A head
    -- that is locked comes as it stands then, so the end of its lease can be believed.
    with recursive lines (priority) as (
      select min(r.priority) from ready r where r.tenant = who and r.queue = line
      union all
      select (select min(r.priority) from ready r
        where r.tenant = who and r.queue = line and r.priority > l.priority)
      from lines l where l.priority is not null
    )
    select array_agg(k.number), array_agg(k.ends_us) into _numbers, _ends
    from (
      select h.number, h.ends_us from lines l
      cross join lateral (
        select r.number from ready r
        where r.tenant = who and r.queue = line and r.priority = l.priority and r.due_us <= _clock
        order by r.due_us, r.number limit 256
      ) r
      cross join lateral (
        select h.number, case when h.owner is not null then h.expires_us end as ends_us
        from heads h where h.number = r.number and h.tenant = who
        for no key update skip locked
      ) h
      where r.number <> all (_left)
      limit _wanted - _given
    ) k;
    exit when _numbers is null;
    _clock := coalesce(given_us, ledger_clock());
    update work w set later = 0
    where w.number = any (_numbers) and w.tenant = who and w.queue = line and w.later = 1
      and w.available_us <= _clock;
    select
      coalesce(array_agg(k.number order by k.place) filter (where k.kind = 'free'), '{}'),
      array_agg(k.id order by k.place) filter (where k.kind = 'free'),
      array_agg(k.name order by k.place) filter (where k.kind = 'free'),
      array_agg(k.incarnation order by k.place) filter (where k.kind = 'free'),
      array_agg(k.is_spent order by k.place) filter (where k.kind = 'free'),
      array_agg(k.number) filter (where k.kind = 'empty'),
      array_agg(k.number) filter (where k.kind = 'held'),
      array_agg(k.number) filter (where k.kind = 'gone')
    into _free, _ids, _names, _lives, _spent, _empty, _held, _gone
    from (
      select q.place, q.number, s.name, s.incarnation, w.id, w.is_spent, case
          when r.due_us is null or r.due_us > _clock then 'past'
          when s.name is null or s.deleted_us is not null then 'gone'
          when q.ends_us > r.due_us then 'held'
          when w.id is null then 'empty'
          else 'free' end as kind
      from unnest(_numbers, _ends) with ordinality q (number, ends_us, place)
      left join lateral (
        select r.due_us from ready r
        where r.number = q.number and r.tenant = who collate "POSIX" and r.queue = line limit 1
      ) r on true
      left join lateral (
        select s.id as name, k.incarnation, k.deleted_us
        from sessions s join heads k on k.number = s.number and k.tenant = who collate "POSIX"
        where s.number = q.number and s.tenant = who collate "POSIX" limit 1
      ) s on true
      left join lateral (
        select w.id, w.superseded is not null or w.max_attempts is not null and w.attempts >= w.max_attempts
          or exists (select from work p where p.number = q.number and p.tenant = who
            and p.claim_fence = 9223372036854775807) as is_spent
        from work w
        where w.number = q.number and w.tenant = who and w.queue = line and w.later = 0
          and w.available_us <= _clock
        order by w.priority, w.seq limit 1
      ) w on true
      offset 0
    ) k;
    if _gone is not null then
      delete from ready r
      where r.number = any (_gone) and r.tenant = who collate "POSIX" and r.queue = line;
    end if;
    if _held is not null then
      update ready r set due_us = h.expires_us from heads h
      where r.number = any (_held) and r.tenant = who collate "POSIX" and r.queue = line
        and h.number = r.number and h.tenant = who;
    end if;
    if _empty is not null then
      perform ledger_settle(array_fill(who, array[cardinality(_empty)]), _empty,
        array_fill(line, array[cardinality(_empty)]), array_fill(_clock, array[cardinality(_empty)]));
    end if;
    -- The batches to claim: of which taker and session, the how many-th of their group.
    if most = 1 then
      _places := array(select n from generate_subscripts(_free, 1) n);
      _owners := _free;
      _nth := array_fill(1::bigint, array[cardinality(_free)]);
    else
      select array_agg(g.place), array_agg(g.number), array_agg(g.id), array_agg(g.spent),
        array_agg(g.n)
      into _places, _owners, _ids, _spent, _nth
      from ledger_groups(who, _clock, _free, array_fill(line, array[cardinality(_free)]),
        array_fill(9223372036854775807, array[cardinality(_free)]),
        array_fill(most, array[cardinality(_free)])) g;
    end if;
    update heads h set fence = h.fence + 1, owner = texts[(_given + c.place) * 4 - 3],
      token = texts[(_given + c.place) * 4 - 2], claimed_us = _clock,
      expires_us = _clock + ttls[_given + c.place]
    from unnest(_places, _owners, _spent, _nth) c (place, number, spent, n)
    where c.n = 1 and not c.spent and h.number = c.number and h.tenant = who;
    return query
    with lined as (
      update ready r set due_us = _clock + ttls[_given + c.place]
      from unnest(_places, _owners, _spent, _nth) c (place, number, spent, n)
      where c.n = 1 and not c.spent and r.number = c.number and r.tenant = who collate "POSIX"
        and r.queue = line collate "POSIX"
    )
    update work w set attempts = w.attempts + 1, claim = texts[(_given + c.place) * 4 - 1],
      claim_fence = h.fence, claim_token = texts[(_given + c.place) * 4], claim_owner = h.owner,
      claimed_us = _clock, claim_expires_us = h.expires_us
    from unnest(_places, _owners, _ids, _spent) c (place, number, batch, spent)
      join heads h on h.number = c.number and h.tenant = who
    where not c.spent and w.number = c.number and w.tenant = who and w.id = c.batch
    returning _given + c.place, 'ok', _names[c.place], pg_current_xact_id()::xid::text::bigint,
      h.number, _lives[c.place], null::bigint, h.revision, h.ord, h.leaf, h.tip, h.tip_seq,
      h.messages, h.users, h.first_user, h.live, h.branched, h.named, h.amended, h.fence, h.owner,
      h.token, h.claimed_us, h.expires_us, h.updated_us, h.link, h.active_run, h.open_run,
      h.latest_run, h.ledger, h.checkpoint, h.runs, h.enqueued,
      case when h.tip > 0 then (
        select n.id from nodes n where n.key = (h.number << 32) + h.tip and n.tenant = who) end,
      w.seq, w.queue, w.priority, w.id, w.source_key, w.delivery, w.slot, w.merge, w.available_us,
      w.max_attempts, w.backoff_us, w.payloads, w.enqueued_us, w.attempts, w.last_error, w.claim,
      w.claim_fence, w.claim_token, w.claim_owner, w.claimed_us, w.claim_expires_us, w.superseded;
    if true = any (_spent) then
      for _at in
        select c.place from unnest(_places, _spent, _nth) c (place, spent, n) where c.spent and c.n = 1
      loop
        place := _given + _at;
        word := 'slow';
        return next;
        _left := _left || _free[_at];
      end loop;
    end if;
    _given := _given + cardinality(_free);
    exit when _given = _wanted;
  end loop;
end
$$;
