-- sessions_page: sessions of a Google ADK database, in the order of their names.
SELECT app_name, user_id, id, CAST(state AS BLOB)
FROM sessions
WHERE (app_name, user_id, id) > (:app, :user, :session)
ORDER BY app_name, user_id, id
LIMIT 100

-- events_page: the events of a session, in the order in which they were written.
SELECT rowid, id, invocation_id, timestamp, CAST(event_data AS BLOB)
FROM events
WHERE app_name = :app AND user_id = :user AND session_id = :session AND rowid > :after
ORDER BY rowid
LIMIT 50

-- old_events_page: the same of the first schema, whose actions are pickled and are not even fetched.
SELECT rowid, id, invocation_id, timestamp, author, CAST(content AS BLOB)
FROM events
WHERE app_name = :app AND user_id = :user AND session_id = :session AND rowid > :after
ORDER BY rowid
LIMIT 50

-- app_states_page: state that all users of an app share.
SELECT app_name, CAST(state AS BLOB) FROM app_states WHERE app_name > :app ORDER BY app_name LIMIT 100

-- user_states_page: state that all sessions of a user share.
SELECT app_name, user_id, CAST(state AS BLOB)
FROM user_states
WHERE (app_name, user_id) > (:app, :user)
ORDER BY app_name, user_id
LIMIT 100
