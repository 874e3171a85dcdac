-- The parts of a run that a page shows, after one of its events.

-- effects_counted: how many effects a run had after an event.
SELECT count(*) FROM effects WHERE stream = :stream AND seq <= :upto

-- effect_from_end: an effect of a run, counted back from an event.
SELECT seq FROM effects WHERE stream = :stream AND seq <= :upto ORDER BY seq DESC LIMIT 1 OFFSET :skipped

-- wait_first_open: the oldest wait that was not over after an event.
SELECT min(seq) FROM waits WHERE stream = :stream AND seq <= :upto AND (outcome_seq IS NULL OR outcome_seq > :upto)

-- events_shown: all of the run itself, those of effects and waits from one on, and the newest of any kind.
SELECT seq, kind, tbl, actor, at, codec, commitment, hash, salt, body, tx, pos, stream FROM events
WHERE stream = :stream AND seq > :after AND seq <= :upto
  AND (tbl = 'runs' OR (tbl = 'effects' AND seq >= :effects) OR (tbl = 'waits' AND seq >= :waits) OR seq > :newest)
ORDER BY seq LIMIT :limit
