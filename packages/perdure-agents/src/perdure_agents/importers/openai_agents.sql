-- sessions_page: sessions of the SQLite session of openai-agents, in the order of their names.
SELECT session_id, CAST(created_at AS TEXT)
FROM agent_sessions
WHERE session_id > :after
ORDER BY session_id
LIMIT 200

-- messages_page: the items of a session, in the order in which they were added.
SELECT id, CAST(message_data AS BLOB), CAST(created_at AS TEXT)
FROM agent_messages
WHERE session_id = :session AND id > :after
ORDER BY id
LIMIT 50

-- strays_page: sessions that have items but no row of their own.
SELECT DISTINCT session_id
FROM agent_messages
WHERE session_id > :after AND session_id NOT IN (SELECT session_id FROM agent_sessions)
ORDER BY session_id
LIMIT 200
