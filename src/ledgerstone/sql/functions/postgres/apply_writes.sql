-- What planned commands write, once they are judged (apply.sql): one statement per section, each for
-- all commands of a call whose word is ok. `at` says how many rows a section has and where it begins.

create or replace function ledger_write(
  mode bigint, words text[], at bigint[], ints bigint[], texts text[], bytes bytea[]
) returns void language plpgsql volatile
as $$
declare
  _written bigint;
begin
  -- 2. at, number, revision .. fence, claimed_us, expires_us, updated_us, runs, enqueued;
  -- owner, token, active_run, open_run, latest_run, checkpoint; link, ledger
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
    select at[6] + r * 20 as i, at[7] + r * 6 as t, at[8] + r * 2 as b
    from generate_series(0, at[5] - 1) r offset 0
  ) x
  where h.number = ints[x.i + 2] and h.tenant = texts[ints[x.i + 1] * 4 - 3]
    and words[ints[x.i + 1]] = 'ok';
  -- 3. at, key, parent, seq, role, run, created_us; kind, label, format, refs, id; meta, salt, body
  if at[9] > 0 then
    insert into nodes (tenant, key, parent, seq, role, run, created_us, kind, label, format, refs,
      id, meta, salt, body)
    select texts[ints[x.i + 1] * 4 - 3], ints[x.i + 2], ints[x.i + 3], ints[x.i + 4], ints[x.i + 5],
      ints[x.i + 6], ints[x.i + 7], texts[x.t + 1], texts[x.t + 2], texts[x.t + 3], texts[x.t + 4],
      texts[x.t + 5], bytes[x.b + 1], bytes[x.b + 2], bytes[x.b + 3]
    from (
      select at[10] + r * 7 as i, at[11] + r * 5 as t, at[12] + r * 3 as b
      from generate_series(0, at[9] - 1) r offset 0
    ) x
    where words[ints[x.i + 1]] = 'ok';
  end if;
  -- 4. at, number, revision, created_us, leaf, first_ord, count; id, kind; hash, link, usage, effects.
  -- Places in the feed as ledger_pos() gives them: this call is the whole transaction.
  if at[13] > 0 then
    insert into turns (tenant, pos, number, revision, created_us, leaf, first_ord, count, id, kind,
      hash, link, usage, effects)
    select texts[ints[x.i + 1] * 4 - 3], x.r + (
        select (pg_current_xact_id()::text::bigint + s.value) * 1048576
        from store s where s.name = 'feed.base'),
      ints[x.i + 2], ints[x.i + 3], ints[x.i + 4], ints[x.i + 5], ints[x.i + 6], ints[x.i + 7],
      texts[x.t + 1], texts[x.t + 2], bytes[x.b + 1], bytes[x.b + 2], bytes[x.b + 3], bytes[x.b + 4]
    from (
      select r, at[14] + r * 7 as i, at[15] + r * 2 as t, at[16] + r * 4 as b
      from generate_series(0, at[13] - 1) r offset 0
    ) x
    where words[ints[x.i + 1]] = 'ok';
  end if;
  -- 5. at, key, first_ord, last_ord, created_us; id, tenant, status, parent_run; body
  if at[17] > 0 then
    insert into runs (realm, key, first_ord, last_ord, created_us, id, tenant, status, parent_run, body)
    select texts[ints[x.i + 1] * 4 - 3], ints[x.i + 2], ints[x.i + 3], ints[x.i + 4], ints[x.i + 5],
      texts[x.t + 1], texts[x.t + 2], texts[x.t + 3], texts[x.t + 4], bytes[x.b + 1]
    from (
      select at[18] + r * 5 as i, at[19] + r * 4 as t, at[20] + r as b
      from generate_series(0, at[17] - 1) r offset 0
    ) x
    where words[ints[x.i + 1]] = 'ok'
    on conflict (key) do update set first_ord = excluded.first_ord, last_ord = excluded.last_ord,
      tenant = excluded.tenant, status = excluded.status, parent_run = excluded.parent_run,
      created_us = excluded.created_us, body = excluded.body;
  end if;
  -- 7. at, number, day, calls, input, output, cached_input, cache_write, reasoning, total, cost_nano;
  -- model, provider, source, currency. A sum that would grow to 2^62 is not written: that is an error.
  if at[25] > 0 then
    insert into usage_days as u (tenant, number, day, calls, input, output, cached_input, cache_write,
      reasoning, total, cost_nano, model, provider, source, currency)
    select texts[ints[x.i + 1] * 4 - 3], ints[x.i + 2], ints[x.i + 3], ints[x.i + 4], ints[x.i + 5],
      ints[x.i + 6], ints[x.i + 7], ints[x.i + 8], ints[x.i + 9], ints[x.i + 10], ints[x.i + 11],
      texts[x.t + 1], texts[x.t + 2], texts[x.t + 3], texts[x.t + 4]
    from (
      select at[26] + r * 11 as i, at[27] + r * 4 as t from generate_series(0, at[25] - 1) r offset 0
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
    if _written < at[25] and _written < (
      select count(*) from generate_series(0, at[25] - 1) r where words[ints[at[26] + r * 11 + 1]] = 'ok'
    ) then
      raise exception 'the sums of this day would be 2^62 or more' using errcode = '22003';
    end if;
  end if;
  if mode & 16 <> 0 then
    perform ledger_write_rest(words, at, ints, texts, bytes);
  end if;
end
$$;

-- What fewer commands bring: runs that change, places in lists, values, documents, work and its line.
create or replace function ledger_write_rest(
  words text[], at bigint[], ints bigint[], texts text[], bytes bytea[]
) returns void language plpgsql volatile
as $$
begin
  -- 6. at, key, first_ord, last_ord; status, parent_run; body
  if at[21] > 0 then
    update runs r set first_ord = ints[x.i + 3], last_ord = ints[x.i + 4], status = texts[x.t + 1],
      parent_run = texts[x.t + 2], body = bytes[x.b + 1]
    from (
      select at[22] + n * 4 as i, at[23] + n * 2 as t, at[24] + n as b
      from generate_series(0, at[21] - 1) n offset 0
    ) x
    where r.key = ints[x.i + 2] and r.realm = texts[ints[x.i + 1] * 4 - 3]
      and words[ints[x.i + 1]] = 'ok';
  end if;
  -- 8. at, number, recency
  if at[29] > 0 then
    update sessions s set recency = ints[x.i + 3]
    from (select at[30] + r * 3 as i from generate_series(0, at[29] - 1) r offset 0) x
    where s.number = ints[x.i + 2] and s.tenant = texts[ints[x.i + 1] * 4 - 3] collate "POSIX"
      and words[ints[x.i + 1]] = 'ok';
  end if;
  -- 9. at, number; digest; data
  if at[33] > 0 then
    insert into contents (tenant, number, digest, data)
    select texts[ints[at[34] + r * 2 + 1] * 4 - 3], ints[at[34] + r * 2 + 2], texts[at[35] + r + 1],
      bytes[at[36] + r + 1]
    from generate_series(0, at[33] - 1) r where words[ints[at[34] + r * 2 + 1]] = 'ok'
    on conflict (number, digest) do nothing;
  end if;
  -- 10. at, number; name; body
  if at[37] > 0 then
    insert into documents (tenant, number, name, body)
    select texts[ints[at[38] + r * 2 + 1] * 4 - 3], ints[at[38] + r * 2 + 2], texts[at[39] + r + 1],
      bytes[at[40] + r + 1]
    from generate_series(0, at[37] - 1) r where words[ints[at[38] + r * 2 + 1]] = 'ok'
    on conflict (number, name) do update set body = excluded.body;
  end if;
  -- 15. at, number, created_us; node, key, format, refs; body
  if at[57] > 0 then
    insert into notes (tenant, number, created_us, node, key, format, refs, body)
    select texts[ints[x.i + 1] * 4 - 3], ints[x.i + 2], ints[x.i + 3], texts[x.t + 1], texts[x.t + 2],
      texts[x.t + 3], texts[x.t + 4], bytes[x.b + 1]
    from (
      select at[58] + r * 3 as i, at[59] + r * 4 as t, at[60] + r as b
      from generate_series(0, at[57] - 1) r offset 0
    ) x
    where words[ints[x.i + 1]] = 'ok'
    on conflict (number, node, key) do update set format = excluded.format, refs = excluded.refs,
      created_us = excluded.created_us, body = excluded.body;
  end if;
  -- 17. as 15, but the first one stays; written before 16 drops any
  if at[65] > 0 then
    insert into notes (tenant, number, created_us, node, key, format, refs, body)
    select texts[ints[x.i + 1] * 4 - 3], ints[x.i + 2], ints[x.i + 3], texts[x.t + 1], texts[x.t + 2],
      texts[x.t + 3], texts[x.t + 4], bytes[x.b + 1]
    from (
      select r, at[66] + r * 3 as i, at[67] + r * 4 as t, at[68] + r as b
      from generate_series(0, at[65] - 1) r offset 0
    ) x
    where words[ints[x.i + 1]] = 'ok'
    order by x.r
    on conflict (number, node, key) do nothing;
  end if;
  -- 16. at, number; node, first, last
  if at[61] > 0 then
    delete from notes n
    using (
      select ints[at[62] + r * 2 + 2] as number, texts[ints[at[62] + r * 2 + 1] * 4 - 3] as tenant,
        texts[at[63] + r * 3 + 1] as node, texts[at[63] + r * 3 + 2] as first,
        texts[at[63] + r * 3 + 3] as last
      from generate_series(0, at[61] - 1) r where words[ints[at[62] + r * 2 + 1]] = 'ok' offset 0
    ) x
    where n.number = x.number and n.tenant = x.tenant and n.node = x.node
      and n.key >= x.first and n.key < x.last;
  end if;
  if at[41] + at[45] + at[49] + at[53] > 0 then
    perform ledger_write_work(words, at, ints, texts, bytes);
  end if;
end
$$;

-- What is queued and completed, and where that puts the session in the line.
create or replace function ledger_write_work(
  words text[], at bigint[], ints bigint[], texts text[], bytes bytea[]
) returns void language plpgsql volatile
as $$
begin
  -- 11. at, seq, priority, available_us, max_attempts, backoff_us, enqueued_us, number, later;
  -- queue, id, source_key, delivery, slot, merge; payloads
  if at[41] > 0 then
    insert into work (tenant, seq, priority, available_us, max_attempts, backoff_us, enqueued_us,
      number, later, queue, id, source_key, delivery, slot, merge, payloads)
    select texts[ints[x.i + 1] * 4 - 3], ints[x.i + 2], ints[x.i + 3], ints[x.i + 4], ints[x.i + 5],
      ints[x.i + 6], ints[x.i + 7], ints[x.i + 8], ints[x.i + 9], texts[x.t + 1], texts[x.t + 2],
      texts[x.t + 3], texts[x.t + 4], texts[x.t + 5], texts[x.t + 6], bytes[x.b + 1]
    from (
      select at[42] + r * 9 as i, at[43] + r * 6 as t, at[44] + r as b
      from generate_series(0, at[41] - 1) r offset 0
    ) x
    where words[ints[x.i + 1]] = 'ok';
  end if;
  -- 12. at, number, priority, due_us; queue
  if at[45] > 0 then
    insert into ready as r (tenant, number, priority, due_us, queue)
    select texts[ints[x.i + 1] * 4 - 3], ints[x.i + 2], ints[x.i + 3], ints[x.i + 4], texts[x.t + 1]
    from (
      select at[46] + n * 4 as i, at[47] + n as t from generate_series(0, at[45] - 1) n offset 0
    ) x
    where words[ints[x.i + 1]] = 'ok'
    on conflict (number, queue) do update set
      priority = least(r.priority, excluded.priority), due_us = least(r.due_us, excluded.due_us)
    where excluded.priority < r.priority or excluded.due_us < r.due_us;
  end if;
  -- 13. at, number; claim, token, batches
  if at[49] > 0 then
    delete from work w
    using (
      select ints[at[50] + r * 2 + 2] as number, texts[at[51] + r * 3 + 1] as claim,
        texts[ints[at[50] + r * 2 + 1] * 4 - 3] as tenant
      from generate_series(0, at[49] - 1) r where words[ints[at[50] + r * 2 + 1]] = 'ok' offset 0
    ) x
    where w.number = x.number and w.tenant = x.tenant and w.claim = x.claim;
  end if;
  -- 18. at, number, seq, ended_us; id, state, reason; body
  if at[69] > 0 then
    insert into ended_work (tenant, number, seq, ended_us, id, state, reason, body)
    select texts[ints[x.i + 1] * 4 - 3], ints[x.i + 2], ints[x.i + 3], ints[x.i + 4],
      texts[x.t + 1], texts[x.t + 2], texts[x.t + 3], bytes[x.b + 1]
    from (
      select at[70] + r * 4 as i, at[71] + r * 3 as t, at[72] + r as b
      from generate_series(0, at[69] - 1) r offset 0
    ) x
    where words[ints[x.i + 1]] = 'ok';
  end if;
  -- 19. at, number, epoch, done, cancelled, dead, superseded
  if at[73] > 0 then
    insert into work_sums as s (tenant, number, epoch, done, cancelled, dead, superseded)
    select texts[ints[x.i + 1] * 4 - 3], ints[x.i + 2], ints[x.i + 3], ints[x.i + 4], ints[x.i + 5],
      ints[x.i + 6], ints[x.i + 7]
    from (select at[74] + r * 7 as i from generate_series(0, at[73] - 1) r offset 0) x
    where words[ints[x.i + 1]] = 'ok'
    on conflict (number) do update set epoch = s.epoch + excluded.epoch, done = s.done + excluded.done,
      cancelled = s.cancelled + excluded.cancelled, dead = s.dead + excluded.dead,
      superseded = s.superseded + excluded.superseded;
  end if;
  -- 14. at, number, floor_us; queue or null for all of them
  if at[53] > 0 then
    perform ledger_settle(
      array_agg(texts[ints[at[54] + r * 3 + 1] * 4 - 3] order by r),
      array_agg(ints[at[54] + r * 3 + 2] order by r), array_agg(texts[at[55] + r + 1] order by r),
      array_agg(ints[at[54] + r * 3 + 3] order by r))
    from generate_series(0, at[53] - 1) r where words[ints[at[54] + r * 3 + 1]] = 'ok';
  end if;
end
$$;
