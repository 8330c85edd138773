-- Usage. A walk from a parameter must say by which order its texts are compared.

-- name: sum_usage(tenant, whole, session, below, user, first, last, each_session, no_session, each_user, no_user, each_day, no_day)
-- Whole days summed; a column that nobody groups by is left empty and does not part the sums.
with recursive path (id) as ( -- if below
  select cast(:below as text) collate "C" union -- if below
  select c.id from path cross join sessions c -- if below
    where c.tenant = :tenant and c.parent = path.id and c.purged = 0) -- if below
select
  s.id, -- if each_session
  null, -- if no_session
  s."user", -- if each_user
  null, -- if no_user
  u.day, -- if each_day
  0, -- if no_day
  u.model, u.provider, u.source, u.currency, sum(u.calls), sum(u.input), sum(u.output),
  sum(u.cached_input), sum(u.cache_write), sum(u.reasoning), sum(u.total), sum(u.cost_nano)
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
  select cast(:below as text) collate "C" union -- if below
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
