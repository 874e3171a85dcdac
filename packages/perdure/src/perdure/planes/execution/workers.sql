-- The runs that workers take, and the listing of workers.

-- runs_takeable prepared: runs of some agents (a JSON list) that can be taken now, oldest wake first; of each agent no more than a page is read.
SELECT r.agent, r.holder, r.suspect, r.parent, CASE WHEN r.pinned = 1 THEN r.program END,
  s.id, s.uid, s.tenant, s.kind, s.name, s.parent, s.fork_seq
FROM json_each(:agents) a CROSS JOIN runs r CROSS JOIN streams s
WHERE r.stream IN (
    SELECT x.stream FROM runs x
    WHERE x.tenant = :tenant AND x.status = :status AND x.status IN ('ready', 'running', 'waiting') AND x.agent = a.value
      AND x.wake_at <= :now --? due
      AND (x.pinned = 0 OR replace(:programs, '|' || x.program || '|', '') <> :programs)
    ORDER BY x.wake_at, x.stream LIMIT :limit)
  AND s.id = r.stream
ORDER BY r.wake_at, r.stream LIMIT :limit

-- runs_takeable @postgres: lists come in by another function, and a join must say that it looks at what stands before it.
SELECT r.agent, r.holder, r.suspect, r.parent, CASE WHEN r.pinned = 1 THEN r.program END,
  s.id, s.uid, s.tenant, s.kind, s.name, s.parent, s.fork_seq
FROM json_array_elements_text(CAST(:agents AS json)) a CROSS JOIN LATERAL (
    SELECT x.* FROM runs x
    WHERE x.tenant = :tenant AND x.status = :status AND x.status IN ('ready', 'running', 'waiting') AND x.agent = a.value
      AND x.wake_at <= :now --? due
      AND (x.pinned = 0 OR replace(:programs, '|' || x.program || '|', '') <> :programs)
    ORDER BY x.wake_at, x.stream LIMIT :limit) r
JOIN streams s ON s.id = r.stream
ORDER BY r.wake_at, r.stream LIMIT :limit

-- runs_held_by: the runs that a holder has.
SELECT r.agent, r.holder, r.suspect, r.parent, CASE WHEN r.pinned = 1 THEN r.program END,
  s.id, s.uid, s.tenant, s.kind, s.name, s.parent, s.fork_seq
FROM runs r JOIN streams s ON s.id = r.stream
WHERE r.holder = :holder AND r.tenant = :tenant
ORDER BY r.stream LIMIT :limit

-- holders_of_runs: holders of runs, whether the heartbeat of each is good, and how many it has.
SELECT r.holder,
  CASE WHEN EXISTS (SELECT 1 FROM holders h WHERE h.tenant = :tenant AND h.holder = r.holder AND h.expires_at > :now) THEN 1 ELSE 0 END,
  count(*)
FROM runs r WHERE r.tenant = :tenant AND r.status = 'running' AND r.status IN ('ready', 'running', 'waiting')
GROUP BY r.holder, r.tenant

-- wake_left: microseconds until the next waiting run is to be looked at; of the living workers that do not wait for
-- suspects, how many come before one by name, how many there are, and whether it is among those that are written down.
SELECT
  (SELECT wake_at - :now FROM runs
    WHERE tenant = :tenant AND status = 'waiting' AND status IN ('ready', 'running', 'waiting') AND wake_at > :now
    ORDER BY wake_at LIMIT 1),
  (SELECT count(*) FROM workers w JOIN holders h ON h.tenant = w.tenant AND h.holder = w.holder
    WHERE w.tenant = :tenant AND h.expires_at > :now AND w.holder < :me AND replace(w.about, '"suspects":' || 'true', '') = w.about),
  (SELECT count(*) FROM workers w JOIN holders h ON h.tenant = w.tenant AND h.holder = w.holder
    WHERE w.tenant = :tenant AND h.expires_at > :now AND replace(w.about, '"suspects":' || 'true', '') = w.about),
  (SELECT count(*) FROM workers w WHERE w.tenant = :tenant AND w.holder = :me)

-- workers_lapsed: workers whose heartbeat is gone.
SELECT w.holder FROM workers w
WHERE w.tenant = :tenant AND NOT EXISTS (SELECT 1 FROM holders h WHERE h.tenant = w.tenant AND h.holder = w.holder AND h.expires_at > :now)

-- workers_all: everybody who introduced itself as a worker.
SELECT w.holder, w.about, h.actor, h.host, h.started_at,
  CASE WHEN h.expires_at > :now THEN 1 ELSE 0 END
FROM workers w LEFT JOIN holders h ON h.tenant = w.tenant AND h.holder = w.holder
WHERE w.tenant = :tenant ORDER BY h.started_at, w.holder

-- holder_get: the description of a holder, and whether its heartbeat is good.
SELECT h.actor, h.host, h.started_at, CASE WHEN h.expires_at > :now THEN 1 ELSE 0 END FROM holders h
WHERE h.tenant = :tenant AND h.holder = :holder

-- runs_running: every run that somebody has, with its claim and the last thing that it recorded.
SELECT r.holder, r.name, r.agent, r.parent, r.session, c.at, e.kind, e.tbl, e.at, e.body, r.deaths, r.suspect, r.cancelling
FROM runs r JOIN streams s ON s.id = r.stream
JOIN events c ON c.stream = r.stream AND c.seq = r.claimed_seq
JOIN events e ON e.stream = r.stream AND e.seq = s.seq
WHERE r.tenant = :tenant AND r.status = 'running' AND r.status IN ('ready', 'running', 'waiting')
ORDER BY c.at, r.stream LIMIT :limit

-- runs_pinned: runs that can be taken now, and only by who has one program; since when.
SELECT name, agent, program, wake_at FROM runs
WHERE tenant = :tenant AND status = :status AND status IN ('ready', 'running', 'waiting') AND pinned = 1
  AND wake_at <= :now --? due
ORDER BY wake_at, stream LIMIT :limit

-- runs_counted: how the open runs of each agent stand.
WITH found AS MATERIALIZED (
  SELECT agent, status, wake_at FROM runs WHERE tenant = :tenant AND status IN ('ready', 'running', 'waiting'))
SELECT agent, status, count(*), min(wake_at) FROM found GROUP BY agent, status

-- runs_parked: how many runs of each agent are parked.
WITH found AS MATERIALIZED (SELECT agent FROM runs WHERE tenant = :tenant AND status = 'parked')
SELECT agent, count(*) FROM found GROUP BY agent
