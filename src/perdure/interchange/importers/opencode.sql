-- sessions_page: sessions of opencode, in the order of their ids.
SELECT id, title, directory, parent_id, version
FROM session
WHERE id > :after
ORDER BY id
LIMIT 200

-- parts_page: the parts of a session's messages that were changed at or after an instant, in the order in which they were made.
SELECT p.message_id, p.id, CAST(p.data AS BLOB), CAST(m.data AS BLOB), p.time_created, p.time_updated
FROM part p JOIN message m ON m.id = p.message_id
WHERE p.session_id = :session AND p.time_updated >= :since
  AND (p.message_id > :message OR (p.message_id = :message AND p.id > :part))
ORDER BY p.message_id, p.id
LIMIT 50
