-- The queries of `upkeep/load.py` about a living store. Each looks at a bounded part of it, by an index.
-- CROSS JOIN: SQLite then keeps the order, so that indexes that begin with the tenant serve.

-- log_growth: the position of the last event, that and the instant of one that lies so many before it, now, and all bytes.
SELECT last.pos, early.pos, early.at, :now, pages.page_count * sizes.page_size
FROM (SELECT pos FROM events ORDER BY pos DESC LIMIT 1) AS last,
  (SELECT pos, at FROM events WHERE pos >= (SELECT max(pos) FROM events) - :span ORDER BY pos LIMIT 1) AS early,
  pragma_page_count() AS pages, pragma_page_size() AS sizes

-- log_growth @postgres: a server has the size of each table.
SELECT last.pos, early.pos, early.at, :now, pg_total_relation_size('events')
FROM (SELECT pos FROM events ORDER BY pos DESC LIMIT 1) AS last,
  (SELECT pos, at FROM events WHERE pos >= (SELECT max(pos) FROM events) - :span ORDER BY pos LIMIT 1) AS early

-- leases_lapsed: runs, tasks and sessions of holders whose heartbeat has lapsed: those that listings call abandoned or crashed.
SELECT 'runs', count(*), min(name) FROM (
  SELECT r.name FROM runs r WHERE r.holder IS NOT NULL
    AND r.tenant = :tenant --? tenant
    AND NOT EXISTS (SELECT 1 FROM holders h WHERE h.tenant = r.tenant AND h.holder = r.holder AND h.expires_at > :now) LIMIT :limit) AS held
UNION ALL
SELECT 'tasks', count(*), min(title) FROM (
  SELECT t.title FROM tenants n CROSS JOIN tasks t WHERE t.tenant = n.id AND t.status = 'doing'
    AND n.id = :tenant --? tenant
    AND NOT EXISTS (SELECT 1 FROM holders h WHERE h.tenant = t.tenant AND h.holder = t.holder AND h.expires_at > :now)
    AND (t.claim_expires_at IS NULL OR t.claim_expires_at < :now) LIMIT :limit) AS claimed
UNION ALL
SELECT 'sessions', count(*), min(name) FROM (
  SELECT DISTINCT v.name FROM attendance a JOIN sessions v ON v.stream = a.stream AND v.ended_at IS NULL
  WHERE NOT EXISTS (SELECT 1 FROM holders h WHERE h.tenant = a.tenant AND h.holder = a.holder AND h.expires_at > :now)
    AND a.tenant = :tenant --? tenant
  LIMIT :limit) AS attended

-- runs_stuck: runs that somebody holds and that recorded nothing for long, the oldest of these first.
SELECT r.name, (:now - e.at) / 1000000 FROM runs r JOIN streams s ON s.id = r.stream
JOIN events e ON e.stream = r.stream AND e.seq = s.seq
WHERE r.holder IS NOT NULL AND e.at < :now - :quiet
  AND r.tenant = :tenant --? tenant
  AND EXISTS (SELECT 1 FROM holders h WHERE h.tenant = r.tenant AND h.holder = r.holder AND h.expires_at > :now)
ORDER BY e.at LIMIT :limit

-- runs_untaken: agents whose runs are ready or due for long, and nobody takes them.
SELECT agent, count(*), (:now - min(wake_at)) / 1000000 FROM (
  SELECT r.agent, r.wake_at FROM tenants n CROSS JOIN runs r
  WHERE r.tenant = n.id AND r.status IN ('ready', 'waiting') AND r.status IN ('ready', 'running', 'waiting')
    AND n.id = :tenant --? tenant
    AND r.wake_at < :now - :quiet LIMIT :limit) AS due
GROUP BY agent ORDER BY agent

-- runs_stranded: runs that could be taken, and are pinned to a program that no worker with a good heartbeat has.
SELECT r.name, r.program FROM tenants n CROSS JOIN runs r
WHERE r.tenant = n.id AND r.status IN ('ready', 'waiting') AND r.status IN ('ready', 'running', 'waiting')
  AND (r.status = 'ready' OR r.wake_at <= :now) AND r.pinned = 1
  AND n.id = :tenant --? tenant
  AND NOT EXISTS (SELECT 1 FROM workers w JOIN holders h ON h.tenant = w.tenant AND h.holder = w.holder AND h.expires_at > :now
    WHERE w.tenant = r.tenant AND replace(w.about, '"' || r.program || '"', '') <> w.about)
ORDER BY r.wake_at, r.stream LIMIT :limit

-- runs_parked_for: runs that are parked for a reason.
SELECT r.name, r.agent FROM tenants n CROSS JOIN runs r
WHERE r.tenant = n.id AND r.status = 'parked' AND r.reason = :reason
  AND n.id = :tenant --? tenant
ORDER BY r.created_at, r.stream LIMIT :limit

-- waiting_for_people: runs that are parked, and effects that are in doubt for long.
SELECT 'runs', count(*) FROM (
  SELECT 1 FROM tenants n CROSS JOIN runs r WHERE r.tenant = n.id AND r.status = 'parked'
    AND n.id = :tenant --? tenant
  LIMIT :limit) AS parked
UNION ALL
SELECT 'effects', count(*) FROM (
  SELECT 1 FROM tenants n CROSS JOIN effects f
  WHERE f.tenant = n.id AND f.state = 'in_doubt' AND f.at < :now - :quiet
    AND n.id = :tenant --? tenant
  LIMIT :limit) AS doubtful

-- values_of_ended: values of sessions that ended long ago; so many sessions are looked at.
SELECT count(*) FROM (
  SELECT v.stream FROM tenants n CROSS JOIN sessions v
  WHERE v.tenant = n.id AND v.status IN ('completed', 'failed') AND v.ended_at < :now - :age
    AND n.id = :tenant --? tenant
  LIMIT :limit) AS old
JOIN entries e ON e.stream = old.stream AND e.gone = 0

-- tenants_besides: the number of tenants besides one and that of the tokens.
SELECT count(*) FROM tenants WHERE id <> :tenant AND name <> :control

-- values_lately: the bodies of the values among the last events.
SELECT s.name, late.body FROM (SELECT stream, seq, tbl, body FROM events ORDER BY pos DESC LIMIT :limit) AS late
JOIN streams s ON s.id = late.stream
WHERE late.tbl = 'entries' AND late.body IS NOT NULL

-- indexes_named: the indexes that there are.
SELECT name FROM sqlite_schema WHERE type = 'index'

-- indexes_named @postgres: the catalogue is another one.
SELECT indexname FROM pg_indexes WHERE schemaname = current_schema()

-- sessions_waiting: how many of this database wait for a lock, and the transaction that is open for longest.
SELECT 0, 0, 0

-- sessions_waiting @postgres: only a server has sessions that one can ask about.
SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'),
  coalesce((SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND xact_start IS NOT NULL ORDER BY xact_start LIMIT 1), 0),
  coalesce((SELECT extract(epoch FROM clock_timestamp() - min(xact_start))::bigint FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()), 0)
