-- What sessions used, summed per day, and the uses themselves as their turns tell them.

-- name: add_usage_day(number, day, model, provider, source, currency, calls, input, output, cached_input, cache_write, reasoning, total, cost_nano)
-- Add to a line of a day that is there, unless a sum would grow to 2^62. Half the price of an upsert.
update usage_days set calls = calls + :calls, input = input + :input, output = output + :output,
  cached_input = cached_input + :cached_input, cache_write = cache_write + :cache_write,
  reasoning = reasoning + :reasoning, total = total + :total, cost_nano = cost_nano + :cost_nano
where number = :number and day = :day and model = :model and provider = :provider
  and source = :source and currency = :currency
  and abs(input + :input) < 4611686018427387904 and abs(output + :output) < 4611686018427387904
  and abs(cached_input + :cached_input) < 4611686018427387904
  and abs(cache_write + :cache_write) < 4611686018427387904
  and abs(reasoning + :reasoning) < 4611686018427387904
  and abs(total + :total) < 4611686018427387904
  and abs(cost_nano + :cost_nano) < 4611686018427387904

-- name: begin_usage_day(number, day, model, provider, source, currency, calls, input, output, cached_input, cache_write, reasoning, total, cost_nano, tenant)
-- The first use of a line; nothing when it is there.
insert into usage_days (number, day, model, provider, source, currency, tenant, calls, input,
  output, cached_input, cache_write, reasoning, total, cost_nano)
values (:number, :day, :model, :provider, :source, :currency, :tenant, :calls, :input,
  :output, :cached_input, :cache_write, :reasoning, :total, :cost_nano)
on conflict do nothing

-- name: usage_days_of(number)
-- Every line of a session.
select day, model, provider, source, currency, tenant, calls, input, output, cached_input,
  cache_write, reasoning, total, cost_nano
from usage_days where number = :number

-- name: usage_of_day(number, day)
-- The lines of one day.
select day, model, provider, source, currency, calls, input, output, cached_input, cache_write,
  reasoning, total, cost_nano
from usage_days where number = :number and day = :day

-- name: session_usage(number)
-- A session in one line per currency. Sums of sums may leave 64 bits, so each is added up in two
-- halves, which `rules.usage.from_halves` puts together.
select currency, sum(calls),
  sum(input >> 31), sum(input & 2147483647),
  sum(output >> 31), sum(output & 2147483647),
  sum(cached_input >> 31), sum(cached_input & 2147483647),
  sum(cache_write >> 31), sum(cache_write & 2147483647),
  sum(reasoning >> 31), sum(reasoning & 2147483647),
  sum(total >> 31), sum(total & 2147483647),
  sum(cost_nano >> 31), sum(cost_nano & 2147483647)
from usage_days where number = :number group by currency

-- name: sum_usage(tenant, whole, session, below, user, first, last, each_session, no_session, each_user, no_user, each_day, no_day)
-- Whole days summed, in halves as above; a column that nobody groups by is left empty and does not
-- part the sums.
-- The walk begins with a parameter; beside a column, if only of a row that never is, PostgreSQL compares
-- it as it does the ids that follow.
with recursive path (id) as ( -- if below
  select coalesce((select id from sessions where number = 0), :below) union -- if below
  select c.id from path cross join sessions c -- if below
    where c.tenant = :tenant and c.parent = path.id and c.purged = 0) -- if below
select
  s.id, -- if each_session
  null, -- if no_session
  s."user", -- if each_user
  null, -- if no_user
  u.day, -- if each_day
  0, -- if no_day
  u.model, u.provider, u.source, u.currency, sum(u.calls),
  sum(u.input >> 31), sum(u.input & 2147483647),
  sum(u.output >> 31), sum(u.output & 2147483647),
  sum(u.cached_input >> 31), sum(u.cached_input & 2147483647),
  sum(u.cache_write >> 31), sum(u.cache_write & 2147483647),
  sum(u.reasoning >> 31), sum(u.reasoning & 2147483647),
  sum(u.total >> 31), sum(u.total & 2147483647),
  sum(u.cost_nano >> 31), sum(u.cost_nano & 2147483647)
from usage_days u join sessions s on s.number = u.number
where s.tenant = :tenant and s.purged = 0
  and u.tenant = :tenant -- if whole
  and s.id = :session -- if session
  and s.id in (select id from path) -- if below
  and s."user" = :user -- if user
  and u.day >= :first and u.day < :last
group by 1, 2, 3, 4, 5, 6, 7

-- name: sessions_using(tenant, whole, session, below, user, first, last)
-- The sessions that used something on these days.
with recursive path (id) as ( -- if below
  select coalesce((select id from sessions where number = 0), :below) union -- if below
  select c.id from path cross join sessions c -- if below
    where c.tenant = :tenant and c.parent = path.id and c.purged = 0) -- if below
select distinct s.number, s.id, s."user"
from usage_days u join sessions s on s.number = u.number
where s.tenant = :tenant and s.purged = 0
  and u.tenant = :tenant -- if whole
  and s.id = :session -- if session
  and s.id in (select id from path) -- if below
  and s."user" = :user -- if user
  and u.day >= :first and u.day < :last

-- name: usage_between(number, after, last, limit)
-- The uses of some commits, in their order.
select revision, id, created_us, usage from turns
where number = :number and revision > :after and revision <= :last and usage is not null
order by revision limit :limit

-- name: revision_of(number)
-- How many commits a session has.
select revision from heads where number = :number

-- name: drop_turn_usage(number, revision, digest)
-- A use goes, and what the chain knows of it stays.
update turns set usage = null, usage_digest = :digest
where number = :number and revision = :revision

-- name: drop_usage_days(number)
-- The sums of a session.
delete from usage_days where number = :number

-- name: drop_call_sums(number)
-- And those of its tool calls.
delete from call_sums where number = :number

-- name: count_usage(number)
-- How many uses a session recorded.
select coalesce(sum(calls), 0) from usage_days where number = :number

-- name: add_call_sums(number, calls, succeeded, failed, duration_ms)
-- Count tool calls, unless their time would grow to 2^62.
insert into call_sums (number, calls, succeeded, failed, duration_ms)
values (:number, :calls, :succeeded, :failed, :duration_ms)
on conflict (number) do update set calls = call_sums.calls + excluded.calls,
  succeeded = call_sums.succeeded + excluded.succeeded, failed = call_sums.failed + excluded.failed,
  duration_ms = call_sums.duration_ms + excluded.duration_ms
where abs(call_sums.duration_ms + excluded.duration_ms) < 4611686018427387904

-- name: get_call_sums(number)
-- The tool calls of a session, counted.
select calls, succeeded, failed, duration_ms from call_sums where number = :number

-- name: loose_usage_days()
-- Sums of no session.
select distinct number from usage_days
where number not in (select number from sessions where purged = 0)

-- name: loose_call_sums()
-- Counted tool calls of no session.
select number from call_sums
where number not in (select number from sessions where purged = 0)
