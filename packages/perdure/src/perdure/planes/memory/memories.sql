-- Memories. The text lies in the event that made (or restated) the memory, the note in the event that last changed it.

-- memory_get: one memory.
SELECT m.seq, e.body, o.body, u.uses, u.used_at, m.kind, m.status, m.key, m.tags, m.about, m.valid_from, m.valid_to, m.actor, m.at,
  m.confirmed_at, m.supersedes, m.superseded_by
FROM memories m
JOIN events e ON e.stream = m.stream AND e.seq = coalesce(m.doc_seq, m.seq)
LEFT JOIN events o ON o.stream = m.stream AND o.seq = m.note_seq
LEFT JOIN memory_uses u ON u.stream = m.stream AND u.memory = m.seq
WHERE m.stream = :stream AND m.seq = :seq

-- memory_by_key: the number of the memory that a key stands for.
SELECT seq FROM memories WHERE stream = :stream AND key = :key

-- memories_of_stream: the memories of one session or scope, newest first.
SELECT m.seq, e.body, o.body, u.uses, u.used_at, m.kind, m.status, m.key, m.tags, m.about, m.valid_from, m.valid_to, m.actor, m.at,
  m.confirmed_at, m.supersedes, m.superseded_by
FROM
  tags g CROSS JOIN --? tag
  memories m
JOIN events e ON e.stream = m.stream AND e.seq = coalesce(m.doc_seq, m.seq)
LEFT JOIN events o ON o.stream = m.stream AND o.seq = m.note_seq
LEFT JOIN memory_uses u ON u.stream = m.stream AND u.memory = m.seq
WHERE m.stream = :stream
  AND g.stream = :stream AND g.thing = 'memory' AND g.tag = :tag AND m.seq = g.id --? tag
  AND g.id < :after --? tag after
  AND m.kind = :kind --? kind
  AND m.status = :status --? status
  AND about_here(m) --? about
  AND u.uses IS NULL --? unread
  AND m.seq < :after --? after
ORDER BY
  g.id DESC --? tag
  m.seq DESC --? !tag
LIMIT :limit

-- memories_of_store: the memories of a tenant in all sessions and scopes, newest first.
SELECT m.seq, e.body, o.body, u.uses, u.used_at, m.kind, m.status, m.key, m.tags, m.about, m.valid_from, m.valid_to, m.actor, m.at,
  m.confirmed_at, m.supersedes, m.superseded_by,
  s.id, s.uid, s.tenant, s.kind, s.name, s.parent, s.fork_seq
FROM (
  SELECT m.* FROM
    about(memories) b CROSS JOIN --? about
    tags g CROSS JOIN --? tag
    memories m
  WHERE m.tenant = :tenant
    AND g.tenant = :tenant AND g.thing = 'memory' AND g.tag = :tag --? tag
    AND m.stream = g.stream AND m.seq = g.id --? tag
    AND g.at >= :since --? tag since
    AND g.at < :until --? tag until
    AND (g.at, g.stream, g.id) < (:after_at, :after_stream, :after_seq) --? tag after_at
    AND m.kind = :kind --? kind
    AND m.status = :status --? status
    AND m.actor = :actor --? actor
    AND m.at >= :since --? since
    AND m.at < :until --? until
    AND m.stream = b.stream AND m.seq = b.seq --? about
    AND g.stream = b.stream AND g.id = b.seq --? tag about
    AND NOT EXISTS (SELECT 1 FROM memory_uses u WHERE u.stream = m.stream AND u.memory = m.seq) --? unread
    AND (m.at, m.stream, m.seq) < (:after_at, :after_stream, :after_seq) --? after_at
  ORDER BY
    g.at DESC, g.stream DESC, g.id DESC --? tag
    m.at DESC, m.stream DESC, m.seq DESC --? !tag
  LIMIT :limit) m
JOIN streams s ON s.id = m.stream
LEFT JOIN events e ON e.stream = m.stream AND e.seq = coalesce(m.doc_seq, m.seq)
LEFT JOIN events o ON o.stream = m.stream AND o.seq = m.note_seq
LEFT JOIN memory_uses u ON u.stream = m.stream AND u.memory = m.seq
ORDER BY m.at DESC, m.stream DESC, m.seq DESC

-- session_labels: the labels of a session, which name the scopes that it reads.
SELECT labels FROM sessions WHERE stream = :stream

-- effects_done: external effects of a run that it did not undo, in order.
SELECT seq, tool FROM effects WHERE stream = :stream AND state = 'committed' AND undoes IS NULL ORDER BY seq LIMIT :limit
