-- The steps of runs, which are events and no rows.

-- step_get: one step of a run.
SELECT e.body FROM events e WHERE e.stream = :stream AND e.seq = :seq AND e.tbl = 'steps' AND e.kind = 'step.done'

-- steps_after: the steps of a run after an event, in order.
SELECT e.seq, e.body FROM events e
WHERE e.stream = :stream AND e.seq > :after AND e.tbl = 'steps'
ORDER BY e.seq
