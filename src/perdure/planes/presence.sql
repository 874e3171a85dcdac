-- Who is at work: heartbeats and attendance.

-- holder_alive: whether a holder's heartbeat has not lapsed.
SELECT 1 FROM holders WHERE holder = :holder AND expires_at > :now

-- attendance_lapsed: who is written down as attending a session but has no living heartbeat.
SELECT a.holder FROM attendance a LEFT JOIN holders h ON h.holder = a.holder
WHERE a.stream = :stream AND a.holder <> :holder AND (h.expires_at IS NULL OR h.expires_at <= :now)
