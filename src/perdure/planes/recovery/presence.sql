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
