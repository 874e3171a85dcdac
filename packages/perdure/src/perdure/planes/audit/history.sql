-- Points in a session's past.

-- events_last_not_after: the last event of a stream, up to a sequence number, that is not after an instant.
SELECT max(seq) FROM events WHERE stream = :stream AND seq <= :upto AND at <= :at

-- events_of_mutable_rows: a fork restates from these; turns, checkpoints and artifacts are left where they are.
SELECT seq, kind, tbl, actor, at, codec, commitment, hash, salt, body, tx, pos, stream FROM events
WHERE stream = :stream AND seq > :after AND seq <= :upto AND tbl IN ('sessions', 'entries', 'tasks', 'decisions', 'effects', 'waits',
  'memories', 'checks')
ORDER BY seq LIMIT :limit

-- events_emptied: how many events of a stream, up to a sequence number, have lost their bodies.
SELECT count(*) FROM events WHERE stream = :stream AND seq <= :upto AND body IS NULL

-- actors_replayed: every actor that a header names; asked of a store that holds only what was replayed.
SELECT DISTINCT actor FROM events

-- holders_named: the holders of tasks and runs.
SELECT holder FROM tasks WHERE holder IS NOT NULL UNION SELECT holder FROM runs WHERE holder IS NOT NULL
