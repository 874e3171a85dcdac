-- Checks of values, decisions and tasks. The checks themselves lie in the event that wrote them down last.

-- checks_of_stream: the checks of one session or scope, the newest first. CROSS JOIN: an analysed SQLite file would begin with all events.
SELECT c.thing, c.name, c.version, c.doc_seq, e.body
FROM checks c CROSS JOIN events e
WHERE c.stream = :stream AND e.stream = c.stream AND e.seq = c.doc_seq ORDER BY c.doc_seq DESC LIMIT :limit

-- checks_get: the checks of one thing.
SELECT c.thing, c.name, c.version, c.doc_seq, e.body
FROM checks c JOIN events e ON e.stream = c.stream AND e.seq = c.doc_seq
WHERE c.stream = :stream AND c.thing = :thing AND c.name = :name

-- checks_of_store: the checks of a tenant, stream by stream.
SELECT c.thing, c.name, c.version, c.doc_seq, e.body, s.id, s.uid, s.tenant, s.kind, s.name, s.parent, s.fork_seq
FROM checks c JOIN events e ON e.stream = c.stream AND e.seq = c.doc_seq JOIN streams s ON s.id = c.stream
WHERE c.tenant = :tenant AND (c.stream, c.doc_seq) > (:in_stream, :seq)
ORDER BY c.stream, c.doc_seq LIMIT :limit
