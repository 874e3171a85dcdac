-- The holder of a run, and whether it came further there.

-- lease_standing: whether a holder still has a run, and lives.
SELECT 1 FROM runs r JOIN holders h ON h.tenant = r.tenant AND h.holder = r.holder
WHERE r.stream = :stream AND r.status = 'running' AND r.holder = :holder AND r.token = :token AND h.expires_at > :now

-- progress_after prepared: whether a run came further after an event; what was only begun, or is in doubt, is not further.
SELECT 1 FROM events e
WHERE e.stream = :stream AND e.seq > :after
  AND e.kind NOT IN ('effect.planned', 'effect.dispatched', 'effect.redispatched', 'effect.doubted', 'effect.absent')
ORDER BY e.seq LIMIT 1

-- drive_before prepared: the last event before another by which somebody took a run or it came to rest.
SELECT kind, at, body FROM events
WHERE stream = :stream AND seq < :seq AND tbl = 'runs'
  AND kind IN ('run.claimed', 'run.recovered', 'run.waiting', 'run.released', 'run.parked', 'run.completed', 'run.failed', 'run.cancelled')
ORDER BY seq DESC LIMIT 1

-- drive_lasted: how long the drive that recorded an event had lasted by then.
SELECT e.at - (
  SELECT c.at FROM events c WHERE c.stream = e.stream AND c.seq < e.seq AND c.tbl = 'runs' AND c.kind IN ('run.claimed', 'run.recovered')
  ORDER BY c.seq DESC LIMIT 1)
FROM events e WHERE e.stream = :stream AND e.seq = :seq

-- found_out_after: whether a run learned something after an event that it may have learned otherwise before.
SELECT 1 FROM events e
WHERE e.stream = :stream AND e.seq > :after AND e.kind IN ('step.done', 'run.wait.answered', 'run.wait.expired')
ORDER BY e.seq LIMIT 1
