-- timeline: the newest events of a run, with their bodies.
SELECT e.seq, e.at, e.kind, e.tbl, named(e), e.body FROM events e
WHERE e.stream = :stream AND e.seq < :before ORDER BY e.seq DESC LIMIT :limit

-- outline: the newest events of a run, without their actors.
SELECT e.seq, e.at, e.kind, e.tbl, e.body FROM events e
WHERE e.stream = :stream AND e.seq < :before ORDER BY e.seq DESC LIMIT :limit
