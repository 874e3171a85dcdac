-- The parts of a run in its envelope: rows since its last cut, and what is still open from before it.

-- effects_kept prepared: the effects of a run with their documents as they are stored. None is open from before the cut: a cut refuses that.
SELECT f.seq, f.state, f.tool, f.kind, f.key, f.digest, f.attempt, f.epoch, f.actor, f.at, f.place, f.call, f.undoes, f.holder,
  f.dispatched_at, f.deadline_at, f.quiet_at, f.error, f.mishaps, f.first_dispatched_at, e.body, o.body
FROM effects f
JOIN events e ON e.stream = f.stream AND e.seq = coalesce(f.doc_seq, f.seq)
LEFT JOIN events o ON o.stream = f.stream AND o.seq = f.outcome_seq
WHERE f.stream = :stream AND f.seq > :after
ORDER BY f.seq

-- waits_kept prepared: the waits of a run with their documents as they are stored.
SELECT w.seq, w.kind, w.state, w.name, w.actor, w.at, w.place, w.effect, w.digest, w.expires_at, w.met_by, w.met_at, e.body, o.body
FROM waits w
JOIN events e ON e.stream = w.stream AND e.seq = coalesce(w.doc_seq, w.seq)
LEFT JOIN events o ON o.stream = w.stream AND o.seq = w.outcome_seq
WHERE w.stream = :stream AND w.seq IN (
  SELECT seq FROM waits WHERE stream = :stream AND seq > :after
  UNION ALL
  SELECT seq FROM waits WHERE stream = :stream AND state = 'open')
ORDER BY w.seq

-- signals_kept: the signals of a run that nobody has taken.
SELECT g.seq, g.name, e.body FROM signals g
JOIN events e ON e.stream = g.stream AND e.seq = coalesce(g.doc_seq, g.seq)
WHERE g.stream = :stream AND g.taken_by IS NULL ORDER BY g.name, g.seq
