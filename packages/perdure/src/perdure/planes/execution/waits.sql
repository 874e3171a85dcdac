-- The waits of runs: for people, times, signals, other runs.

-- wait_get prepared: one wait with its question and its answer.
SELECT w.seq, w.kind, w.state, w.name, w.place, w.effect, w.digest, w.actor, w.at, w.expires_at, w.met_by, w.met_at, e.body, o.body
FROM waits w
JOIN events e ON e.stream = w.stream AND e.seq = coalesce(w.doc_seq, w.seq)
LEFT JOIN events o ON o.stream = w.stream AND o.seq = w.outcome_seq
WHERE w.stream = :stream
  AND w.seq = :seq --? seq
  AND w.effect = :effect --? effect
  AND w.seq > :after --? after
  AND w.state = 'open' --? open
  AND w.kind = :kind --? kind
  AND w.name = :name --? name
ORDER BY w.seq

-- waits_of_store: waits of a tenant's runs, newest first; not those of a run elsewhere, which nobody can meet here.
SELECT w.seq, w.kind, w.state, w.name, w.place, w.effect, w.digest, w.actor, w.at, w.expires_at, w.met_by, w.met_at, e.body, o.body,
  s.id, s.uid, s.tenant, s.kind, s.name, s.parent, s.fork_seq
FROM (
  SELECT w.* FROM
    about(waits) b CROSS JOIN --? about
    (SELECT x.id AS stream FROM streams x WHERE x.tenant = :tenant AND x.kind = 'session' AND x.name = :session --? session
      UNION ALL SELECT r.stream FROM runs r WHERE r.tenant = :tenant AND r.session = :session) p CROSS JOIN --? session
    waits w
  WHERE w.tenant = :tenant
    AND w.kind = :kind
    AND w.stream = b.stream AND w.seq = b.seq --? about
    AND w.stream = p.stream --? session
    AND w.state = :state --? state
    AND (w.expires_at IS NULL OR w.expires_at > :now) --? open
    AND (w.state = 'expired' OR (w.state = 'open' AND w.expires_at <= :now)) --? expired
    AND (w.state <> 'open' OR NOT EXISTS (
      SELECT 1 FROM runs r WHERE r.stream = w.stream AND r.status = 'parked' AND r.reason IN ('moved', 'imported')))
    AND (w.at, w.stream, w.seq) < (:after_at, :after_stream, :after_seq) --? after_at
  ORDER BY w.at DESC, w.stream DESC, w.seq DESC LIMIT :limit) w
JOIN streams s ON s.id = w.stream
LEFT JOIN events e ON e.stream = w.stream AND e.seq = coalesce(w.doc_seq, w.seq)
LEFT JOIN events o ON o.stream = w.stream AND o.seq = w.outcome_seq
ORDER BY w.at DESC, w.stream DESC, w.seq DESC

-- waits_expiring: when the open waits of a run expire, as far as they do.
SELECT seq, expires_at FROM waits WHERE stream = :stream AND state = 'open' AND expires_at IS NOT NULL

-- waits_ended prepared: after which event each wait of a run was over.
SELECT seq, outcome_seq FROM waits WHERE stream = :stream AND seq > :after AND outcome_seq IS NOT NULL

-- signal_next: the oldest signal of a name that nobody has taken.
SELECT g.seq, e.body, named(e) FROM signals g
JOIN events e ON e.stream = g.stream AND e.seq = coalesce(g.doc_seq, g.seq)
WHERE g.stream = :stream AND g.name = :name AND g.taken_by IS NULL ORDER BY g.seq LIMIT 1
