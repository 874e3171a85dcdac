-- Events as people read them: of a session, across the store, and the ones that were emitted.

-- events_of_stream: events of one stream, in order.
SELECT seq, kind, tbl, actor, at, codec, commitment, hash, salt, body, tx, pos, stream FROM events
WHERE stream = :stream AND seq > :after AND seq <= :upto
  AND about_event_here(events) --? about
  AND tbl = '' --? emitted
  AND NOT (kind >= 'log.' AND kind < 'log/') --? emitted
  AND kind >= :low AND kind < :high --? low high
  AND kind = :kind --? kind
ORDER BY seq LIMIT :limit

-- events_of_stream_back: the same from the end, with the filters of the listing across the store.
SELECT seq, kind, tbl, actor, at, codec, commitment, hash, salt, body, tx, pos, stream FROM events
WHERE stream = :stream AND seq > :after AND seq <= :upto
  AND about_event_here(events) --? about
  AND tbl = '' --? emitted
  AND NOT (kind >= 'log.' AND kind < 'log/') --? emitted
  AND kind >= :low AND kind < :high --? low high
  AND kind = :kind --? kind
  AND actor IN (SELECT :actor UNION ALL SELECT w.actor FROM actors w WHERE w.tenant = :tenant AND w.name = :actor) --? actor
  AND at >= :since --? since
  AND at < :until --? until
ORDER BY seq DESC LIMIT :limit

-- events_across: events of one kind, newest first, as a page shows them (`Shown`).
SELECT e.at, e.pos, e.stream, e.seq, e.kind, e.tbl, e.actor, e.body FROM
  (SELECT stream, seq FROM about_event(events) AS r UNION SELECT stream, seq FROM about_state(events) AS c) b CROSS JOIN --? about
  events e
WHERE e.tenant = :tenant AND e.kind = :kind
  AND e.stream = b.stream AND e.seq = b.seq --? about
  AND e.tbl = '' --? emitted
  AND e.actor = :actor --? actor
  AND e.at >= :since --? since
  AND e.at < :until --? until
  AND e.at <= :last_at AND (e.at, e.pos) < (:last_at, :last_pos) --? last_at last_pos
ORDER BY e.at DESC, e.pos DESC LIMIT :limit

-- kinds_across: which kinds there are, by hopping through the index from one to the next.
WITH RECURSIVE kinds (kind) AS (
  SELECT min(kind) FROM events WHERE tenant = :tenant AND kind >= :low
    AND tbl = '' --? emitted
    AND actor = :actor --? actor
  UNION ALL
  SELECT (
    SELECT min(e.kind) FROM events e WHERE e.tenant = :tenant AND e.kind > kinds.kind
      AND e.tbl = '' --? emitted
      AND e.actor = :actor --? actor
  ) FROM kinds WHERE kinds.kind IS NOT NULL AND kinds.kind < :high
)
SELECT kind FROM kinds WHERE kind IS NOT NULL AND kind < :high

-- snapshot_of_fold: the state that a named fold had come to.
SELECT seq, state FROM fold_snapshots WHERE stream = :stream AND reducer = :reducer AND seq <= :upto
