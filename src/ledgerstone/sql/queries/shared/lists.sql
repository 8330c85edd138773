-- Lists of sessions and sums of usage in one statement each (engines/session_lists.py).

-- name: listed_sessions(tenant, user, app, status, parent, live, created_after, created_before, metadata, recency, value, id, newest, stalest, youngest, oldest, first, last, limit, offset)
-- A stretch of a list in one of six orders; value and id are the key of the last row before it.
-- By change: rows of one recency bucket are put in exact order by the database.
select {session},
  h.incarnation, h.updated_us, h.deleted_us, h.active_run, h.open_run, h.latest_run
from sessions s join heads h on h.number = s.number
  and h.tenant = :tenant -- on postgres
where s.tenant = :tenant
  and s."user" = :user -- if user
  and s.app = :app -- if app
  and s.status = :status -- if status
  and s.parent = :parent -- if parent
  and h.deleted_us is null -- if live
  and s.created_us >= :created_after -- if created_after
  and s.created_us < :created_before -- if created_before
  and coalesce(s.metadata, cast('null' as bytea)) = :metadata -- if metadata -- on postgres
  and coalesce(s.metadata, cast('null' as blob)) = :metadata -- if metadata -- on sqlite
  and s.recency <= :recency and (h.updated_us, :id) < (:value, s.id) -- if newest, value
  and s.recency >= :recency and (h.updated_us, s.id) > (:value, :id) -- if stalest, value
  and s.created_us <= :value and (s.created_us, :id) < (:value, s.id) -- if youngest, value
  and (s.created_us, s.id) > (:value, :id) -- if oldest, value
  and s.id > :id -- if first, value
  and s.id < :id -- if last, value
order by s.recency desc, h.updated_us desc, s.id -- if newest
order by s.recency, h.updated_us, s.id -- if stalest
order by s.created_us desc, s.id -- if youngest
order by s.created_us, s.id -- if oldest
order by s.id -- if first
order by s.id desc -- if last
limit :limit offset :offset

-- name: counted_sessions(tenant, user, app, status, parent, live, created_after, created_before, metadata)
-- How many sessions fit the filter.
select count(*)
from sessions s join heads h on h.number = s.number
  and h.tenant = :tenant -- on postgres
where s.tenant = :tenant
  and s."user" = :user -- if user
  and s.app = :app -- if app
  and s.status = :status -- if status
  and s.parent = :parent -- if parent
  and h.deleted_us is null -- if live
  and s.created_us >= :created_after -- if created_after
  and s.created_us < :created_before -- if created_before
  and coalesce(s.metadata, cast('null' as bytea)) = :metadata -- if metadata -- on postgres
  and coalesce(s.metadata, cast('null' as blob)) = :metadata -- if metadata -- on sqlite

-- name: summed_usage(tenant, user, first, last, each_session, no_session, each_user, no_user, each_day, no_day)
-- Whole days summed, in upper and lower bits, since sums of any size are exact in Python only; a column
-- that nobody groups by is left empty and does not part the sums (engines/usage_sums.py).
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
from usage_days u
  indexed by usage_days_tenant -- on sqlite
  join sessions s on s.number = u.number
  and s.tenant = u.tenant collate "POSIX" -- on postgres
where u.tenant = :tenant and u.day >= :first and u.day < :last
  and s."user" = :user -- if user
group by 1, 2, 3, 4, 5, 6, 7
