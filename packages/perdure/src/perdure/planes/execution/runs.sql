-- Runs of agents: how they stand.

-- run_get: one run with its arguments and its outcome.
SELECT r.name, r.agent, r.status, r.key, a.body, o.body, r.session, r.parent, r.creator, r.created_at, r.ended_at, r.wake_at,
  r.timeout_at, r.holder, r.token, r.deaths, r.suspect, r.cancelling, r.cuts, r.cut_seq, r.program, r.pinned, r.epoch, r.reason,
  CASE WHEN r.status = 'running' AND NOT EXISTS (
    SELECT 1 FROM holders h WHERE h.tenant = r.tenant AND h.holder = r.holder AND h.expires_at > :now) THEN 1 ELSE 0 END, o.at, copied(r),
  r.pins, r.pins_change, r.on_change
FROM runs r
LEFT JOIN events a ON a.stream = r.stream AND a.seq = r.doc_seq
LEFT JOIN events o ON o.stream = r.stream AND o.seq = r.outcome_seq
WHERE r.stream = :stream

-- run_by_key: the stream of the run that was started under a key.
SELECT s.id, s.uid, s.tenant, s.kind, s.name, s.parent, s.fork_seq, copied(r), r.digest, a.body
FROM runs r JOIN streams s ON s.id = r.stream
LEFT JOIN events a ON a.stream = r.stream AND a.seq = r.doc_seq
WHERE r.tenant = :tenant AND r.agent = :agent AND r.key = :key

-- run_by_name: the stream of a run.
SELECT id, uid, tenant, kind, name, parent, fork_seq FROM streams WHERE tenant = :tenant AND kind = 'run' AND name = :name

-- run_names_between: the names of runs in a range; names are hexadecimal, which every collation orders alike.
SELECT name FROM streams WHERE tenant = :tenant AND kind = 'run' AND name >= :low AND name < :high ORDER BY name LIMIT :limit

-- runs_of_store: the runs of a tenant, newest first.
SELECT r.name, r.agent, r.status, r.key, a.body, o.body, r.session, r.parent, r.creator, r.created_at, r.ended_at, r.wake_at,
  r.timeout_at, r.holder, r.token, r.deaths, r.suspect, r.cancelling, r.cuts, r.cut_seq, r.program, r.pinned, r.epoch, r.reason,
  CASE WHEN r.status = 'running' AND NOT EXISTS (
    SELECT 1 FROM holders h WHERE h.tenant = r.tenant AND h.holder = r.holder AND h.expires_at > :now) THEN 1 ELSE 0 END, o.at, copied(r),
  r.pins, r.pins_change, r.on_change,
  s.id, s.uid, s.tenant, s.kind, s.name, s.parent, s.fork_seq
FROM (
  SELECT r.* FROM
    about_any(runs) b CROSS JOIN --? about
    tags g CROSS JOIN --? version
    runs r
  WHERE r.tenant = :tenant
    AND r.stream = b.stream --? about
    AND g.tenant = :tenant AND g.thing = 'run' AND g.tag = :version AND r.stream = g.stream --? version
    AND g.at >= :since --? version since
    AND g.at < :until --? version until
    AND (g.at, g.stream) < (:after_at, :after_stream) --? version after_at
    AND r.status = :status --? status
    AND r.agent = :agent --? agent
    AND r.session = :session --? session
    AND r.parent = :parent --? parent
    AND r.created_at >= :since --? since
    AND r.created_at < :until --? until
    AND (r.created_at, r.stream) < (:after_at, :after_stream) --? after_at
  ORDER BY
    g.at DESC, g.stream DESC --? version
    r.created_at DESC, r.stream DESC --? !version
  LIMIT :limit) r
JOIN streams s ON s.id = r.stream
LEFT JOIN events a ON a.stream = r.stream AND a.seq = r.doc_seq
LEFT JOIN events o ON o.stream = r.stream AND o.seq = r.outcome_seq
ORDER BY r.created_at DESC, r.stream DESC

-- runs_gone_wrong: the runs of a tenant that failed or are parked, the last trouble first; one that came parked is as old as itself.
-- Those that failed are many, and come in the order in which they ended; those that are parked wait for a person.
SELECT r.name, r.agent, r.status, r.key, a.body, o.body, r.session, r.parent, r.creator, r.created_at, r.ended_at, r.wake_at,
  r.timeout_at, r.holder, r.token, r.deaths, r.suspect, r.cancelling, r.cuts, r.cut_seq, r.program, r.pinned, r.epoch, r.reason,
  CASE WHEN r.status = 'running' AND NOT EXISTS (
    SELECT 1 FROM holders h WHERE h.tenant = r.tenant AND h.holder = r.holder AND h.expires_at > :now) THEN 1 ELSE 0 END, o.at, copied(r),
  r.pins, r.pins_change, r.on_change, r.wrong_at,
  s.id, s.uid, s.tenant, s.kind, s.name, s.parent, s.fork_seq
FROM (
  SELECT f.* FROM (
    SELECT r.*, r.ended_at AS wrong_at FROM
      about_any(runs) b CROSS JOIN --? about
      runs r
    WHERE r.tenant = :tenant AND r.status = 'failed'
      AND r.stream = b.stream --? about
      AND EXISTS (SELECT 1 FROM tags g WHERE g.stream = r.stream AND g.thing = 'run' AND g.tag = :version) --? version
      AND r.status = :status --? status
      AND r.agent = :agent --? agent
      AND r.session = :session --? session
      AND r.parent = :parent --? parent
      AND r.ended_at >= :since --? since
      AND r.ended_at < :until --? until
      AND (r.ended_at, r.stream) < (:after_at, :after_stream) --? after_at
    ORDER BY r.ended_at DESC, r.stream DESC LIMIT :limit) f
  UNION ALL
  SELECT r.*, coalesce(p.at, r.created_at) FROM
    about_any(runs) b CROSS JOIN --? about
    runs r LEFT JOIN events p ON p.stream = r.stream AND p.seq = r.outcome_seq
  WHERE r.tenant = :tenant AND r.status = 'parked'
    AND r.stream = b.stream --? about
    AND EXISTS (SELECT 1 FROM tags g WHERE g.stream = r.stream AND g.thing = 'run' AND g.tag = :version) --? version
    AND r.status = :status --? status
    AND r.agent = :agent --? agent
    AND r.session = :session --? session
    AND r.parent = :parent --? parent
    AND coalesce(p.at, r.created_at) >= :since --? since
    AND coalesce(p.at, r.created_at) < :until --? until
    AND (coalesce(p.at, r.created_at), r.stream) < (:after_at, :after_stream) --? after_at
  ) r
JOIN streams s ON s.id = r.stream
LEFT JOIN events a ON a.stream = r.stream AND a.seq = r.doc_seq
LEFT JOIN events o ON o.stream = r.stream AND o.seq = r.outcome_seq
ORDER BY r.wrong_at DESC, r.stream DESC LIMIT :limit
