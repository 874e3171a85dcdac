-- Decisions, their outcomes, and who refers to what. The text lies in the event that made (or restated) the decision.

-- decision_get: one decision.
SELECT d.seq, d.status, d.actor, d.at, d.tags, d.supersedes, d.superseded_by, d.changed_at, d.closed_at, e.body, o.body
FROM decisions d
JOIN events e ON e.stream = d.stream AND e.seq = coalesce(d.doc_seq, d.seq)
LEFT JOIN events o ON o.stream = d.stream AND o.seq = d.outcome_seq
WHERE d.stream = :stream AND d.seq = :seq

-- decisions_of_session: the decisions of one session, newest first.
SELECT d.seq, d.status, d.actor, d.at, d.tags, d.supersedes, d.superseded_by, d.changed_at, d.closed_at, e.body, o.body
FROM
  tags g CROSS JOIN --? tag
  decisions d
JOIN events e ON e.stream = d.stream AND e.seq = coalesce(d.doc_seq, d.seq)
LEFT JOIN events o ON o.stream = d.stream AND o.seq = d.outcome_seq
WHERE d.stream = :stream
  AND g.stream = :stream AND g.thing = 'decision' AND g.tag = :tag AND d.seq = g.id --? tag
  AND g.id < :after --? tag after
  AND about_here(d) --? about
  AND d.status = :status --? status
  AND d.status <> :status_not --? status_not
  AND d.seq < :after --? after
ORDER BY
  g.id DESC --? tag
  d.seq DESC --? !tag
LIMIT :limit

-- decisions_of_store: the decisions of a tenant in all sessions, newest first.
SELECT d.seq, d.status, d.actor, d.at, d.tags, d.supersedes, d.superseded_by, d.changed_at, d.closed_at, e.body, o.body,
  s.id, s.uid, s.tenant, s.kind, s.name, s.parent, s.fork_seq
FROM (
  SELECT d.* FROM
    about(decisions) b CROSS JOIN --? about
    tags g CROSS JOIN --? tag
    decisions d
  WHERE d.tenant = :tenant
    AND g.tenant = :tenant AND g.thing = 'decision' AND g.tag = :tag --? tag
    AND d.stream = g.stream AND d.seq = g.id --? tag
    AND g.at >= :since --? tag since
    AND g.at < :until --? tag until
    AND (g.at, g.stream, g.id) < (:after_at, :after_stream, :after_seq) --? tag after_at
    AND d.stream = b.stream AND d.seq = b.seq --? about
    AND g.stream = b.stream AND g.id = b.seq --? tag about
    AND d.status = :status --? status
    AND d.actor = :actor --? actor
    AND d.at >= :since --? since
    AND d.at < :until --? until
    AND (d.at, d.stream, d.seq) < (:after_at, :after_stream, :after_seq) --? after_at
  ORDER BY
    g.at DESC, g.stream DESC, g.id DESC --? tag
    d.at DESC, d.stream DESC, d.seq DESC --? !tag
  LIMIT :limit) d
JOIN streams s ON s.id = d.stream
LEFT JOIN events e ON e.stream = d.stream AND e.seq = coalesce(d.doc_seq, d.seq)
LEFT JOIN events o ON o.stream = d.stream AND o.seq = d.outcome_seq
ORDER BY d.at DESC, d.stream DESC, d.seq DESC

-- references_page: the events of this tenant that refer to one event.
SELECT e.kind, s.name, s.uid, r.stream, r.seq, named(e), e.at
FROM refs r
JOIN streams s ON s.id = r.stream AND s.tenant = :tenant
JOIN events e ON e.stream = r.stream AND e.seq = r.seq
WHERE r.target = :target AND r.target_seq = :target_seq
  AND (r.stream, r.seq) > (:after_stream, :after_seq) --? after_stream
ORDER BY r.stream, r.seq LIMIT :limit
