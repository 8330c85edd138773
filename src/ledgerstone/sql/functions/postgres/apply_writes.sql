-- What planned commands write, once they are judged (apply.sql): one statement per section, each for
-- all commands of a call whose word is ok. `_i`, `_t` and `_b` are where a section begins.

create or replace function ledger_write(
  words text[], sizes bigint[], ints bigint[], texts varchar[], bytes bytea[]
) returns void language plpgsql volatile
as $$
declare
  _i bigint := 5 * sizes[1];
  _t bigint := 4 * sizes[1];
  _b bigint := 0;
  _pos bigint;
  _written bigint;
begin
  -- 2. at, number, revision .. fence, claimed_us, expires_us, updated_us, runs, enqueued
  update heads h set
    revision = ints[x.i + 3], ord = ints[x.i + 4], leaf = ints[x.i + 5], tip = ints[x.i + 6],
    tip_seq = ints[x.i + 7], messages = ints[x.i + 8], users = ints[x.i + 9],
    first_user = ints[x.i + 10], live = ints[x.i + 11], branched = ints[x.i + 12],
    named = ints[x.i + 13], amended = ints[x.i + 14], fence = ints[x.i + 15],
    claimed_us = ints[x.i + 16], expires_us = ints[x.i + 17], updated_us = ints[x.i + 18],
    runs = ints[x.i + 19], enqueued = ints[x.i + 20],
    owner = texts[x.t + 1], token = texts[x.t + 2], active_run = texts[x.t + 3],
    open_run = texts[x.t + 4], latest_run = texts[x.t + 5], checkpoint = texts[x.t + 6],
    link = bytes[x.b + 1], ledger = bytes[x.b + 2]
  from (
    select _i + r * 20 as i, _t + r * 6 as t, _b + r * 2 as b
    from generate_series(0, sizes[2] - 1) r offset 0
  ) x
  where h.number = ints[x.i + 2] and h.tenant = texts[ints[x.i + 1] * 4 - 3]
    and words[ints[x.i + 1]] = 'ok';
  _i := _i + sizes[2] * 20;
  _t := _t + sizes[2] * 6;
  _b := _b + sizes[2] * 2;
  -- 3. at, key, parent, seq, role, run, created_us; kind, label, format, refs, id; meta, salt, body
  if sizes[3] > 0 then
    insert into nodes (tenant, key, parent, seq, role, run, created_us, kind, label, format, refs,
      id, meta, salt, body)
    select texts[ints[x.i + 1] * 4 - 3], ints[x.i + 2], ints[x.i + 3], ints[x.i + 4], ints[x.i + 5],
      ints[x.i + 6], ints[x.i + 7], texts[x.t + 1], texts[x.t + 2], texts[x.t + 3], texts[x.t + 4],
      texts[x.t + 5], bytes[x.b + 1], bytes[x.b + 2], bytes[x.b + 3]
    from (
      select _i + r * 7 as i, _t + r * 5 as t, _b + r * 3 as b
      from generate_series(0, sizes[3] - 1) r offset 0
    ) x
    where words[ints[x.i + 1]] = 'ok';
    _i := _i + sizes[3] * 7;
    _t := _t + sizes[3] * 5;
    _b := _b + sizes[3] * 3;
  end if;
  -- 4. at, number, revision, created_us, leaf, first_ord, count; id, kind; hash, link, usage, effects
  if sizes[4] > 0 then
    _pos := ledger_pos(sizes[4]);
    insert into turns (tenant, pos, number, revision, created_us, leaf, first_ord, count, id, kind,
      hash, link, usage, effects)
    select texts[ints[x.i + 1] * 4 - 3], _pos + x.r, ints[x.i + 2], ints[x.i + 3], ints[x.i + 4],
      ints[x.i + 5], ints[x.i + 6], ints[x.i + 7], texts[x.t + 1], texts[x.t + 2], bytes[x.b + 1],
      bytes[x.b + 2], bytes[x.b + 3], bytes[x.b + 4]
    from (
      select r, _i + r * 7 as i, _t + r * 2 as t, _b + r * 4 as b
      from generate_series(0, sizes[4] - 1) r offset 0
    ) x
    where words[ints[x.i + 1]] = 'ok';
    _i := _i + sizes[4] * 7;
    _t := _t + sizes[4] * 2;
    _b := _b + sizes[4] * 4;
  end if;
  perform ledger_write_runs(words, sizes, ints, texts, bytes, _i, _t, _b)
  where sizes[5] + sizes[6] + sizes[7] > 0;
  _i := _i + sizes[5] * 5 + sizes[6] * 4 + sizes[7] * 4;
  _t := _t + sizes[5] * 4 + sizes[6] * 2;
  _b := _b + sizes[5] + sizes[6];
  -- 8. at, number, day, calls, input, output, cached_input, cache_write, reasoning, total, cost_nano;
  -- model, provider, source, currency. A sum that would grow to 2^62 is not written: that is an error.
  if sizes[8] > 0 then
    insert into usage_days as u (tenant, number, day, calls, input, output, cached_input, cache_write,
      reasoning, total, cost_nano, model, provider, source, currency)
    select texts[ints[x.i + 1] * 4 - 3], ints[x.i + 2], ints[x.i + 3], ints[x.i + 4], ints[x.i + 5],
      ints[x.i + 6], ints[x.i + 7], ints[x.i + 8], ints[x.i + 9], ints[x.i + 10], ints[x.i + 11],
      texts[x.t + 1], texts[x.t + 2], texts[x.t + 3], texts[x.t + 4]
    from (
      select _i + r * 11 as i, _t + r * 4 as t from generate_series(0, sizes[8] - 1) r offset 0
    ) x
    where words[ints[x.i + 1]] = 'ok'
    on conflict (number, day, model, provider, source, currency) do update set
      calls = u.calls + excluded.calls, input = u.input + excluded.input,
      output = u.output + excluded.output, cached_input = u.cached_input + excluded.cached_input,
      cache_write = u.cache_write + excluded.cache_write,
      reasoning = u.reasoning + excluded.reasoning, total = u.total + excluded.total,
      cost_nano = u.cost_nano + excluded.cost_nano
    where greatest(abs(u.input + excluded.input), abs(u.output + excluded.output),
      abs(u.cached_input + excluded.cached_input), abs(u.cache_write + excluded.cache_write),
      abs(u.reasoning + excluded.reasoning), abs(u.total + excluded.total),
      abs(u.cost_nano + excluded.cost_nano)) < 4611686018427387904;
    get diagnostics _written = row_count;
    if _written < (
      select count(*) from generate_series(0, sizes[8] - 1) r where words[ints[_i + r * 11 + 1]] = 'ok'
    ) then
      raise exception 'the sums of this day would be 2^62 or more' using errcode = '22003';
    end if;
    _i := _i + sizes[8] * 11;
    _t := _t + sizes[8] * 4;
  end if;
  perform ledger_write_rest(words, sizes, ints, texts, bytes, _i, _t, _b)
  where sizes[9] + sizes[10] + sizes[11] + sizes[12] + sizes[13] + sizes[14] + sizes[15] > 0;
end
$$;

-- The rows of runs: new or with a first record, changed, extended.
create or replace function ledger_write_runs(
  words text[], sizes bigint[], ints bigint[], texts varchar[], bytes bytea[],
  _i bigint, _t bigint, _b bigint
) returns void language plpgsql volatile
as $$
begin
  -- 5. at, key, first_ord, last_ord, created_us; id, tenant, status, parent_run; body
  if sizes[5] > 0 then
    insert into runs (realm, key, first_ord, last_ord, created_us, id, tenant, status, parent_run, body)
    select texts[ints[x.i + 1] * 4 - 3], ints[x.i + 2], ints[x.i + 3], ints[x.i + 4], ints[x.i + 5],
      texts[x.t + 1], texts[x.t + 2], texts[x.t + 3], texts[x.t + 4], bytes[x.b + 1]
    from (
      select _i + r * 5 as i, _t + r * 4 as t, _b + r as b
      from generate_series(0, sizes[5] - 1) r offset 0
    ) x
    where words[ints[x.i + 1]] = 'ok'
    on conflict (key) do update set first_ord = excluded.first_ord, last_ord = excluded.last_ord,
      tenant = excluded.tenant, status = excluded.status, parent_run = excluded.parent_run,
      created_us = excluded.created_us, body = excluded.body;
    _i := _i + sizes[5] * 5;
    _t := _t + sizes[5] * 4;
    _b := _b + sizes[5];
  end if;
  -- 6. at, key, first_ord, last_ord; status, parent_run; body
  if sizes[6] > 0 then
    update runs r set first_ord = ints[x.i + 3], last_ord = ints[x.i + 4], status = texts[x.t + 1],
      parent_run = texts[x.t + 2], body = bytes[x.b + 1]
    from (
      select _i + n * 4 as i, _t + n * 2 as t, _b + n as b
      from generate_series(0, sizes[6] - 1) n offset 0
    ) x
    where r.key = ints[x.i + 2] and r.realm = texts[ints[x.i + 1] * 4 - 3]
      and words[ints[x.i + 1]] = 'ok';
    _i := _i + sizes[6] * 4;
  end if;
  -- 7. at, key, first_ord, last_ord
  if sizes[7] > 0 then
    update runs r set first_ord = ints[x.i + 3], last_ord = ints[x.i + 4]
    from (select _i + n * 4 as i from generate_series(0, sizes[7] - 1) n offset 0) x
    where r.key = ints[x.i + 2] and r.realm = texts[ints[x.i + 1] * 4 - 3]
      and words[ints[x.i + 1]] = 'ok';
  end if;
end
$$;

-- What fewer commands bring: places in lists, values, documents, work and its line.
create or replace function ledger_write_rest(
  words text[], sizes bigint[], ints bigint[], texts varchar[], bytes bytea[],
  _i bigint, _t bigint, _b bigint
) returns void language plpgsql volatile
as $$
begin
  -- 9. at, number, recency
  if sizes[9] > 0 then
    update sessions s set recency = ints[x.i + 3]
    from (select _i + r * 3 as i from generate_series(0, sizes[9] - 1) r offset 0) x
    where s.number = ints[x.i + 2] and s.tenant = texts[ints[x.i + 1] * 4 - 3]
      and words[ints[x.i + 1]] = 'ok';
    _i := _i + sizes[9] * 3;
  end if;
  -- 10. at, number; digest; data
  if sizes[10] > 0 then
    insert into contents (tenant, number, digest, data)
    select texts[ints[_i + r * 2 + 1] * 4 - 3], ints[_i + r * 2 + 2], texts[_t + r + 1],
      bytes[_b + r + 1]
    from generate_series(0, sizes[10] - 1) r where words[ints[_i + r * 2 + 1]] = 'ok'
    on conflict (number, digest) do nothing;
    _i := _i + sizes[10] * 2;
    _t := _t + sizes[10];
    _b := _b + sizes[10];
  end if;
  -- 11. at, number; name; body
  if sizes[11] > 0 then
    insert into documents (tenant, number, name, body)
    select texts[ints[_i + r * 2 + 1] * 4 - 3], ints[_i + r * 2 + 2], texts[_t + r + 1],
      bytes[_b + r + 1]
    from generate_series(0, sizes[11] - 1) r where words[ints[_i + r * 2 + 1]] = 'ok'
    on conflict (number, name) do update set body = excluded.body;
    _i := _i + sizes[11] * 2;
    _t := _t + sizes[11];
    _b := _b + sizes[11];
  end if;
  -- 12. at, number, later, seq, priority, available_us, max_attempts, backoff_us, enqueued_us;
  -- queue, id, source_key, delivery, slot, merge; payloads
  if sizes[12] > 0 then
    insert into work (tenant, number, later, seq, priority, available_us, max_attempts, backoff_us,
      enqueued_us, queue, id, source_key, delivery, slot, merge, payloads)
    select texts[ints[x.i + 1] * 4 - 3], ints[x.i + 2], ints[x.i + 3], ints[x.i + 4], ints[x.i + 5],
      ints[x.i + 6], ints[x.i + 7], ints[x.i + 8], ints[x.i + 9], texts[x.t + 1], texts[x.t + 2],
      texts[x.t + 3], texts[x.t + 4], texts[x.t + 5], texts[x.t + 6], bytes[x.b + 1]
    from (
      select _i + r * 9 as i, _t + r * 6 as t, _b + r as b
      from generate_series(0, sizes[12] - 1) r offset 0
    ) x
    where words[ints[x.i + 1]] = 'ok';
    _i := _i + sizes[12] * 9;
    _t := _t + sizes[12] * 6;
    _b := _b + sizes[12];
  end if;
  -- 13. at, number, priority, due_us; queue
  if sizes[13] > 0 then
    insert into ready as r (tenant, number, priority, due_us, queue)
    select texts[ints[x.i + 1] * 4 - 3], ints[x.i + 2], ints[x.i + 3], ints[x.i + 4], texts[x.t + 1]
    from (
      select _i + n * 4 as i, _t + n as t from generate_series(0, sizes[13] - 1) n offset 0
    ) x
    where words[ints[x.i + 1]] = 'ok'
    on conflict (number, queue) do update set
      priority = least(r.priority, excluded.priority), due_us = least(r.due_us, excluded.due_us)
    where excluded.priority < r.priority or excluded.due_us < r.due_us;
    _i := _i + sizes[13] * 4;
    _t := _t + sizes[13];
  end if;
  -- 14. at, number, count; claim
  if sizes[14] > 0 then
    delete from work w
    using (
      select ints[_i + r * 3 + 2] as number, texts[_t + r + 1] as claim
      from generate_series(0, sizes[14] - 1) r where words[ints[_i + r * 3 + 1]] = 'ok' offset 0
    ) x
    where w.number = x.number and w.claim = x.claim;
    _i := _i + sizes[14] * 3;
    _t := _t + sizes[14];
  end if;
  -- 15. at, number, floor_us; queue or null for all of them
  if sizes[15] > 0 then
    perform ledger_settle(
      array_agg(ints[_i + r * 3 + 2] order by r), array_agg(texts[_t + r + 1] order by r),
      array_agg(ints[_i + r * 3 + 3] order by r))
    from generate_series(0, sizes[15] - 1) r where words[ints[_i + r * 3 + 1]] = 'ok';
  end if;
end
$$;
