-- Facts that a run learned since its store was restored.

-- found_out_after: whether a run learned something after an event that it may have learned otherwise before.
SELECT 1 FROM events e
WHERE e.stream = :stream AND e.seq > :after AND e.kind IN ('step.done', 'run.wait.answered', 'run.wait.expired')
LIMIT 1
