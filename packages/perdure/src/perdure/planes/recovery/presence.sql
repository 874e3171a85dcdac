-- The processes at work: heartbeats and attendance.

-- schema_now: the number of the schema that the store has by now.
SELECT name, value FROM meta WHERE name = 'schema'

-- holder_alive: whether a holder's heartbeat has not lapsed.
SELECT 1 FROM holders WHERE tenant = :tenant AND holder = :holder AND expires_at > :now

-- holders_under: the holders whose names begin so, and whether the heartbeat of each has lapsed.
SELECT holder, CASE WHEN expires_at > :now THEN 0 ELSE 1 END FROM holders
WHERE tenant = :tenant AND substr(holder, 1, length(:prefix)) = :prefix

-- attendance_others: other holders that are written down as attending a session, and whether the heartbeat of each has lapsed.
SELECT a.holder, CASE WHEN h.expires_at > :now THEN 0 ELSE 1 END
FROM attendance a LEFT JOIN holders h ON h.tenant = a.tenant AND h.holder = a.holder
WHERE a.stream = :stream AND a.holder <> :holder

-- holders_needed: whose death somebody may yet have to prove: who has a run, or an effect that is not known to be quiet, or a
-- heartbeat that is good. Of all tenants.
SELECT r.holder FROM runs r WHERE r.holder IS NOT NULL
UNION
SELECT f.holder FROM effects f
WHERE f.tenant IN (SELECT id FROM tenants) AND f.state IN ('planned', 'dispatched', 'in_doubt')
  AND f.holder IS NOT NULL AND f.quiet_at IS NULL
UNION
SELECT h.holder FROM holders h WHERE h.expires_at > :now
LIMIT :limit

-- holders_over: the holders whose heartbeat lapsed long ago and that nothing names: no run, task, lock or worker, no session that
-- has not ended, and no effect whose sender is not known to be quiet.
SELECT h.holder FROM holders h WHERE h.tenant = :tenant AND h.expires_at < :now - :age
  AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.holder = h.holder)
  AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.tenant = h.tenant AND t.status = 'doing' AND t.holder = h.holder)
  AND NOT EXISTS (SELECT 1 FROM locks k WHERE k.tenant = h.tenant AND k.expires_at > :now
    AND substr(k.holder, length(k.holder) - length(h.holder) + 1) = h.holder)
  AND NOT EXISTS (SELECT 1 FROM workers w WHERE w.tenant = h.tenant AND w.holder = h.holder)
  AND NOT EXISTS (SELECT 1 FROM attendance a JOIN sessions s ON s.stream = a.stream AND s.ended_at IS NULL WHERE a.holder = h.holder)
  AND NOT EXISTS (SELECT 1 FROM effects f WHERE f.tenant = h.tenant AND f.state IN ('planned', 'dispatched', 'in_doubt')
    AND f.holder = h.holder AND f.quiet_at IS NULL)
ORDER BY h.expires_at LIMIT :limit
