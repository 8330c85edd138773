-- Files of openai-agents: SQLiteSession, and AdvancedSQLiteSession with its branches.
-- The names of the first two tables can be chosen there; they are put in for these.

-- name: owners(name)
-- The tables whose rows a table is about.
select "table" from pragma_foreign_key_list(:name)

-- name: sessions()
-- Every session that has a row of its own or messages.
select s.id, min(s.created_at) from (
  select session_id as id, created_at from agent_sessions
  union all
  select session_id as id, created_at from agent_messages
) s
group by s.id order by min(s.created_at), s.id

-- name: plain_rows(session, after, most)
-- The messages of a session in order, some at a time.
select id, message_data, created_at from agent_messages
where session_id = :session and id > :after
order by id limit :most

-- name: branches(session)
-- The branches of a session: main first, then as they were made.
select branch_id from message_structure
where session_id = :session
group by branch_id order by branch_id <> 'main', min(id)

-- name: branch_rows(session, branch)
-- The messages of a branch in order.
select m.id, m.message_data, m.created_at
from message_structure s join agent_messages m on m.id = s.message_id
where s.session_id = :session and s.branch_id = :branch and m.session_id = s.session_id
order by s.sequence_number, s.id

-- name: usage(session)
-- What the turns of a session used.
select id, branch_id, user_turn_number, input_tokens, output_tokens, total_tokens,
  input_tokens_details, output_tokens_details
from turn_usage where session_id = :session order by id
