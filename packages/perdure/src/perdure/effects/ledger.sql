-- The effect ledger: what was meant, what was sent, what is known to have happened.

-- effect_get: one effect with its arguments and its outcome.
SELECT f.seq, f.state, f.tool, f.kind, f.key, f.digest, f.place, f.call, f.undoes, f.attempt, f.epoch, f.holder, f.actor, f.at,
  f.dispatched_at, f.deadline_at, f.quiet_at, f.mishaps, f.first_dispatched_at, e.body, o.body, o.at, copied(f)
FROM effects f
JOIN events e ON e.stream = f.stream AND e.seq = coalesce(f.doc_seq, f.seq)
LEFT JOIN events o ON o.stream = f.stream AND o.seq = f.outcome_seq
WHERE f.stream = :stream
  AND f.seq = :seq --? seq
  AND f.key = :key --? key

-- effects_of_stream: the effects of a session or run, oldest first; `after` is a sequence number.
SELECT f.seq, f.state, f.tool, f.kind, f.key, f.digest, f.place, f.call, f.undoes, f.attempt, f.epoch, f.holder, f.actor, f.at,
  f.dispatched_at, f.deadline_at, f.quiet_at, f.mishaps, f.first_dispatched_at, e.body, o.body, o.at, copied(f)
FROM effects f
JOIN events e ON e.stream = f.stream AND e.seq = coalesce(f.doc_seq, f.seq)
LEFT JOIN events o ON o.stream = f.stream AND o.seq = f.outcome_seq
WHERE f.stream = :stream AND f.seq > :after
  AND f.state IN ('planned', 'dispatched', 'in_doubt', 'undoing') --? open
  AND about_here(f) --? about
ORDER BY f.seq LIMIT :limit

-- effects_of_store: the effects of a tenant, newest first; `done` leaves out what a what-if fork copied.
SELECT f.seq, f.state, f.tool, f.kind, f.key, f.digest, f.place, f.call, f.undoes, f.attempt, f.epoch, f.holder, f.actor, f.at,
  f.dispatched_at, f.deadline_at, f.quiet_at, f.mishaps, f.first_dispatched_at, e.body, o.body, o.at, copied(f),
  s.id, s.uid, s.tenant, s.kind, s.name, s.parent, s.fork_seq
FROM (
  SELECT f.* FROM
    about(effects) b CROSS JOIN --? about
    effects f
  WHERE f.tenant = :tenant
    AND f.stream = b.stream AND f.seq = b.seq --? about
    AND f.state = :state --? state
    AND f.tool = :tool --? tool
    AND EXISTS (SELECT 1 FROM streams x WHERE x.id = f.stream AND x.kind = :of) --? of
    AND NOT EXISTS (SELECT 1 FROM events m --? done
      WHERE m.stream = f.stream AND m.seq = f.seq AND m.kind = 'effect.supposed' AND m.at >= coalesce(f.dispatched_at, 0)) --? done
    AND f.at >= :since --? since
    AND f.at < :until --? until
    AND (f.at, f.stream, f.seq) < (:after_at, :after_stream, :after_seq) --? after_at
  ORDER BY f.at DESC, f.stream DESC, f.seq DESC LIMIT :limit) f
JOIN streams s ON s.id = f.stream
LEFT JOIN events e ON e.stream = f.stream AND e.seq = coalesce(f.doc_seq, f.seq)
LEFT JOIN events o ON o.stream = f.stream AND o.seq = f.outcome_seq
ORDER BY f.at DESC, f.stream DESC, f.seq DESC

-- effects_gone_wrong: the effects of a tenant with which something went wrong, the last trouble first; `done` as above.
SELECT f.seq, f.state, f.tool, f.kind, f.key, f.digest, f.place, f.call, f.undoes, f.attempt, f.epoch, f.holder, f.actor, f.at,
  f.dispatched_at, f.deadline_at, f.quiet_at, f.mishaps, f.first_dispatched_at, e.body, o.body, o.at, copied(f), coalesce(o.at, f.at),
  s.id, s.uid, s.tenant, s.kind, s.name, s.parent, s.fork_seq
FROM
  about(effects) b CROSS JOIN --? about
  effects f
JOIN streams s ON s.id = f.stream
LEFT JOIN events e ON e.stream = f.stream AND e.seq = coalesce(f.doc_seq, f.seq)
LEFT JOIN events o ON o.stream = f.stream AND o.seq = f.outcome_seq
WHERE f.tenant = :tenant
  AND f.error IS NOT NULL
  AND f.stream = b.stream AND f.seq = b.seq --? about
  AND f.state = :state --? state
  AND f.tool = :tool --? tool
  AND NOT EXISTS (SELECT 1 FROM events m --? done
    WHERE m.stream = f.stream AND m.seq = f.seq AND m.kind = 'effect.supposed' AND m.at >= coalesce(f.dispatched_at, 0)) --? done
  AND coalesce(o.at, f.at) >= :since --? since
  AND coalesce(o.at, f.at) < :until --? until
  AND (coalesce(o.at, f.at), f.stream, f.seq) < (:after_at, :after_stream, :after_seq) --? after_at
ORDER BY coalesce(o.at, f.at) DESC, f.stream DESC, f.seq DESC LIMIT :limit

-- dispatches_after: the dispatches of a run after an event, each with the body that names its effect.
SELECT e.seq, e.body FROM events e
WHERE e.stream = :stream AND e.seq > :after AND e.kind IN ('effect.dispatched', 'effect.redispatched')
ORDER BY e.seq
