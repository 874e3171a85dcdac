-- The statements of retention: what there is to judge, and what it takes.

-- streams_judged: sessions, scopes, and runs that are over, each with the labels that count for it, its session, when it ended and last changed, in pages.
SELECT t.id, t.uid, t.tenant, t.kind, t.name, t.parent, t.fork_seq, s.labels, s.name,
  CASE WHEN EXISTS (SELECT 1 FROM runs r WHERE r.tenant = s.tenant AND r.session = s.name AND r.ended_at IS NULL) THEN NULL
    ELSE coalesce(s.ended_at, CASE WHEN s.expires_at <= :now THEN s.expires_at END) END,
  (SELECT e.at FROM events e WHERE e.stream = t.id AND e.kind NOT IN ('log.pruned', 'checkpoint.pruned') ORDER BY e.seq DESC LIMIT 1)
FROM streams t JOIN sessions s ON s.stream = t.id
WHERE s.tenant = :tenant AND t.id > :after AND t.id <= :upto
UNION ALL
SELECT t.id, t.uid, t.tenant, t.kind, t.name, t.parent, t.fork_seq, coalesce(s.labels, '[]'), r.session, r.ended_at, r.ended_at
FROM streams t JOIN runs r ON r.stream = t.id
LEFT JOIN streams st ON st.tenant = r.tenant AND st.kind = 'session' AND st.name = r.session
LEFT JOIN sessions s ON s.stream = st.id
WHERE r.tenant = :tenant AND r.ended_at IS NOT NULL AND t.id > :after AND t.id <= :upto
UNION ALL
SELECT t.id, t.uid, t.tenant, t.kind, t.name, t.parent, t.fork_seq, '[]', NULL, NULL, 0
FROM streams t WHERE t.kind = 'scope' AND t.tenant = :tenant AND t.id > :after AND t.id <= :upto
ORDER BY 1 LIMIT :limit

-- streams_last: the last stream there is: what begins later is not judged.
SELECT coalesce(max(id), 0) FROM streams

-- turns_own: all turns of a stream, in order.
SELECT t.seq, t.role, t.call, e.at, t.retracted_seq FROM turns t JOIN events e ON e.stream = t.stream AND e.seq = t.seq
WHERE t.stream = :stream ORDER BY t.seq

-- retracted_any: whether a turn of a stream was retracted.
SELECT 1 FROM turns t WHERE t.stream = :stream AND t.retracted_seq IS NOT NULL LIMIT 1

-- checkpoints_own: all checkpoints of a stream, in order.
SELECT seq FROM checkpoints WHERE stream = :stream ORDER BY seq

-- rowless_own: emitted events and steps that still say something: no row comes of them.
SELECT seq FROM events WHERE stream = :stream AND body IS NOT NULL AND (tbl = 'steps' OR (tbl = '' AND kind NOT LIKE 'log.%')) ORDER BY seq

-- values_own: the changes of a stream's values that still say something, in order, in pages.
SELECT seq, at, body FROM events WHERE stream = :stream AND tbl = 'entries' AND body IS NOT NULL AND seq > :after ORDER BY seq LIMIT :limit

-- emitted_own: emitted events of a stream that still say something, with our own notes among them, in order.
SELECT seq, at, kind FROM events WHERE stream = :stream AND tbl = '' AND body IS NOT NULL AND seq > :after ORDER BY seq

-- calls_own: the calls that turns of a stream made.
SELECT call, seq FROM calls WHERE stream = :stream ORDER BY seq

-- covers_own: the summaries of a stream.
SELECT seq, first_seq, last_seq FROM covers WHERE stream = :stream ORDER BY seq

-- bodies_size: these events (a JSON list of numbers) that still say something, and in how many bytes.
SELECT seq, length(body) FROM events
WHERE stream = :stream AND body IS NOT NULL AND seq IN (SELECT value FROM json_each(:seqs))

-- bodies_size @postgres: lists come in by another function, as an array: joined, it would make it read the whole stream.
SELECT seq, length(body) FROM events WHERE stream = :stream AND body IS NOT NULL
  AND seq = ANY (ARRAY(SELECT CAST(value AS BIGINT) FROM json_array_elements_text(CAST(:seqs AS json))))

-- stream_size: the bytes of all events of a stream.
SELECT CAST(coalesce(sum(length(body)), 0) AS BIGINT) FROM events WHERE stream = :stream

-- stream_blobs: the blobs that events of a stream name.
SELECT DISTINCT address FROM blob_refs WHERE stream = :stream

-- stream_roots: the roots of a stream's checkpoints.
SELECT DISTINCT root FROM checkpoints WHERE stream = :stream

-- roots_named: every checkpoint of a tenant and its root.
SELECT c.stream, c.seq, c.root FROM checkpoints c JOIN streams s ON s.id = c.stream WHERE s.tenant = :tenant

-- blobs_named: the blobs that these events (a JSON list of numbers) of a stream name.
SELECT DISTINCT address FROM blob_refs WHERE stream = :stream AND seq IN (SELECT value FROM json_each(:seqs))

-- blobs_named @postgres: lists come in by another function.
SELECT DISTINCT address FROM blob_refs
WHERE stream = :stream AND seq IN (SELECT CAST(value AS BIGINT) FROM json_array_elements_text(CAST(:seqs AS json)))

-- blobs_naming: which events name these blobs (a JSON list in hex), and which of them are pinned (stream 0).
SELECT r.stream, r.seq, r.address FROM blob_refs r CROSS JOIN streams s
WHERE s.id = r.stream AND s.tenant = :tenant AND r.address IN (SELECT unhex(value) FROM json_each(:addresses))
UNION ALL
SELECT 0, 0, p.address FROM blob_pins p WHERE p.tenant = :tenant AND p.expires_at > :now
  AND p.address IN (SELECT unhex(value) FROM json_each(:addresses))

-- blobs_naming @postgres: lists come in by another function, as arrays: joined, they would make it read the whole table.
SELECT r.stream, r.seq, r.address FROM blob_refs r JOIN streams s ON s.id = r.stream
WHERE s.tenant = :tenant AND r.address = ANY (ARRAY(SELECT decode(value, 'hex') FROM json_array_elements_text(CAST(:addresses AS json))))
UNION ALL
SELECT 0, 0, p.address FROM blob_pins p WHERE p.tenant = :tenant AND p.expires_at > :now
  AND p.address = ANY (ARRAY(SELECT decode(value, 'hex') FROM json_array_elements_text(CAST(:addresses AS json))))

-- blobs_size: the size of these blobs (a JSON list in hex): how many there are, and their bytes.
SELECT count(*), CAST(coalesce(sum(size), 0) AS BIGINT) FROM blobs
WHERE tenant = :tenant AND address IN (SELECT unhex(value) FROM json_each(:addresses))

-- blobs_size @postgres: lists come in by another function.
SELECT count(*), CAST(coalesce(sum(size), 0) AS BIGINT) FROM blobs
WHERE tenant = :tenant AND address IN (SELECT decode(value, 'hex') FROM json_array_elements_text(CAST(:addresses AS json)))
