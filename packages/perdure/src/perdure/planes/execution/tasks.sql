-- Tasks: tasks, the tasks that they need, and their claimers.
-- A claim is void when its time is over or its holder's heartbeat has lapsed: that is what the CASE says. A holder who is
-- proved to be dead is told apart by who asks (`dead`: |holder|holder|).

-- task_get: one task.
SELECT t.seq, t.title, t.status, t.priority, t.parent, t.needs, t.labels, t.actor, t.at, t.holder, t.claimed_by,
  t.claim_expires_at, t.token, t.key, t.changed_at, t.closed_at, e.body, n.body,
  CASE WHEN t.status = 'doing' AND (t.claim_expires_at <= :now OR NOT EXISTS (
    SELECT 1 FROM holders h WHERE h.tenant = t.tenant AND h.holder = t.holder AND h.expires_at > :now)) THEN 1 ELSE 0 END
FROM tasks t
JOIN events e ON e.stream = t.stream AND e.seq = coalesce(t.doc_seq, t.seq)
LEFT JOIN events n ON n.stream = t.stream AND n.seq = t.note_seq
WHERE t.stream = :stream AND t.seq = :seq

-- task_by_key: the number of the task under a key, and whether it is a copy.
SELECT t.seq, copied_stream(t) FROM tasks t WHERE t.stream = :stream AND t.key = :key

-- task_made: the document of a new task.
SELECT body FROM events WHERE stream = :stream AND seq = :seq AND tbl = 'tasks'

-- tasks_ready: tasks of one status whose needs are all done, most urgent first; of claims, only void ones.
SELECT t.seq, t.title, t.status, t.priority, t.parent, t.needs, t.labels, t.actor, t.at, t.holder, t.claimed_by,
  t.claim_expires_at, t.token, t.key, t.changed_at, t.closed_at, e.body, n.body, CASE WHEN t.status = 'doing' THEN 1 ELSE 0 END
FROM
  tags g CROSS JOIN --? label
  tasks t
JOIN events e ON e.stream = t.stream AND e.seq = coalesce(t.doc_seq, t.seq)
LEFT JOIN events n ON n.stream = t.stream AND n.seq = t.note_seq
WHERE t.stream = :stream AND t.status = :status AND t.status IN ('todo', 'doing', 'blocked')
  AND g.stream = :stream AND g.tag = :label AND g.priority IS NOT NULL AND g.thing = 'task' AND t.seq = g.id --? label
  AND (t.claim_expires_at <= :now OR replace(:dead, '|' || t.holder || '|', '') <> :dead OR NOT EXISTS ( --? abandoned
    SELECT 1 FROM holders h WHERE h.tenant = t.tenant AND h.holder = t.holder AND h.expires_at > :now)) --? abandoned
  AND NOT EXISTS (SELECT 1 FROM task_needs w JOIN tasks d ON d.stream = w.stream AND d.seq = w.needs
    WHERE w.stream = t.stream AND w.task = t.seq AND d.status <> 'done')
ORDER BY
  g.priority DESC, g.id --? label
  t.priority DESC, t.seq --? !label
LIMIT :limit

-- task_claimers: the claimers of tasks of a session.
SELECT DISTINCT holder FROM tasks
WHERE stream = :stream AND status = 'doing' AND status IN ('todo', 'doing', 'blocked')

-- tasks_of_session: the tasks of one session, newest first.
SELECT t.seq, t.title, t.status, t.priority, t.parent, t.needs, t.labels, t.actor, t.at, t.holder, t.claimed_by,
  t.claim_expires_at, t.token, t.key, t.changed_at, t.closed_at, e.body, n.body,
  CASE WHEN t.status = 'doing' AND (t.claim_expires_at <= :now OR NOT EXISTS (
    SELECT 1 FROM holders h WHERE h.tenant = t.tenant AND h.holder = t.holder AND h.expires_at > :now)) THEN 1 ELSE 0 END
FROM
  tags g CROSS JOIN --? label
  tasks t
JOIN events e ON e.stream = t.stream AND e.seq = coalesce(t.doc_seq, t.seq)
LEFT JOIN events n ON n.stream = t.stream AND n.seq = t.note_seq
WHERE t.stream = :stream
  AND g.stream = :stream AND g.thing = 'task' AND g.tag = :label AND t.seq = g.id --? label
  AND g.id < :after --? label after
  AND about_here(t) --? about
  AND t.status = :status --? status
  AND t.parent = :parent --? parent
  AND t.status IN ('todo', 'doing', 'blocked') AND EXISTS ( --? stuck
    SELECT 1 FROM task_needs w JOIN tasks d ON d.stream = w.stream AND d.seq = w.needs --? stuck
    WHERE w.stream = t.stream AND w.task = t.seq AND d.status IN ('failed', 'cancelled')) --? stuck
  AND t.seq < :after --? after
ORDER BY
  g.id DESC --? label
  t.seq DESC --? !label
LIMIT :limit

-- tasks_of_store: the tasks of a tenant in all sessions, newest first.
SELECT t.seq, t.title, t.status, t.priority, t.parent, t.needs, t.labels, t.actor, t.at, t.holder, t.claimed_by,
  t.claim_expires_at, t.token, t.key, t.changed_at, t.closed_at, e.body, n.body,
  CASE WHEN t.status = 'doing' AND (t.claim_expires_at <= :now OR NOT EXISTS (
    SELECT 1 FROM holders h WHERE h.tenant = t.tenant AND h.holder = t.holder AND h.expires_at > :now)) THEN 1 ELSE 0 END,
  s.id, s.uid, s.tenant, s.kind, s.name, s.parent, s.fork_seq
FROM (
  SELECT t.* FROM
    about(tasks) b CROSS JOIN --? about
    tags g CROSS JOIN --? label
    tasks t
  WHERE t.tenant = :tenant
    AND g.tenant = :tenant AND g.thing = 'task' AND g.tag = :label --? label
    AND t.stream = g.stream AND t.seq = g.id --? label
    AND g.at >= :since --? label since
    AND g.at < :until --? label until
    AND (g.at, g.stream, g.id) < (:after_at, :after_stream, :after_seq) --? label after_at
    AND t.stream = b.stream AND t.seq = b.seq --? about
    AND g.stream = b.stream AND g.id = b.seq --? label about
    AND t.status = :status --? status
    AND t.actor = :actor --? actor
    AND t.at >= :since --? since
    AND t.at < :until --? until
    AND t.status IN ('todo', 'doing', 'blocked') AND EXISTS ( --? stuck
      SELECT 1 FROM task_needs w WHERE w.stream = t.stream AND w.task = t.seq AND ( --? stuck
        SELECT d.status FROM tasks d WHERE d.stream = w.stream AND d.seq = w.needs) IN ('failed', 'cancelled') LIMIT 1 OFFSET 0) --? stuck
    AND (t.at, t.stream, t.seq) < (:after_at, :after_stream, :after_seq) --? after_at
  ORDER BY
    g.at DESC, g.stream DESC, g.id DESC --? label
    t.at DESC, t.stream DESC, t.seq DESC --? !label
  LIMIT :limit) t
JOIN streams s ON s.id = t.stream
LEFT JOIN events e ON e.stream = t.stream AND e.seq = coalesce(t.doc_seq, t.seq)
LEFT JOIN events n ON n.stream = t.stream AND n.seq = t.note_seq
ORDER BY t.at DESC, t.stream DESC, t.seq DESC

-- needs_unmet: the tasks that a task still waits for.
SELECT d.seq, d.status FROM task_needs w JOIN tasks d ON d.stream = w.stream AND d.seq = w.needs
WHERE w.stream = :stream AND w.task = :seq AND d.status <> 'done' ORDER BY d.seq

-- needs_behind: the needs of all that a task waits for, near or far.
WITH RECURSIVE behind (task) AS (
  SELECT CAST(:seq AS BIGINT)
  UNION SELECT w.needs FROM behind b JOIN task_needs w ON w.stream = :stream AND w.task = b.task)
SELECT w.task, w.needs FROM behind b JOIN task_needs w ON w.stream = :stream AND w.task = b.task

-- parents_above: the parents of a task, near and far.
WITH RECURSIVE above (seq, parent) AS (
  SELECT t.seq, t.parent FROM tasks t WHERE t.stream = :stream AND t.seq = :seq
  UNION SELECT t.seq, t.parent FROM above a JOIN tasks t ON t.stream = :stream AND t.seq = a.parent)
SELECT a.seq, a.parent FROM above a WHERE a.parent IS NOT NULL
