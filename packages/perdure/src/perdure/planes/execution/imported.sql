-- The statements of a tenant's own stream about streams that came from another store. No other stream is believed: not that of
-- another branch either, which a merge sets apart.

-- imported_of: the statements about one stream, oldest first. (A note refers to its stream twice.)
SELECT DISTINCT e.seq, e.body FROM refs r JOIN streams s ON s.id = r.stream JOIN events e ON e.stream = r.stream AND e.seq = r.seq
WHERE r.target = :uid AND s.kind = 'tenant' AND s.name = 'tenant' AND s.tenant = :tenant AND e.kind = 'tenant.imported' ORDER BY e.seq

-- imported_all: the statements about every stream of a tenant, oldest first.
SELECT e.body FROM events e JOIN streams s ON s.id = e.stream
WHERE e.tenant = :tenant AND s.kind = 'tenant' AND s.name = 'tenant' AND s.tenant = :tenant AND e.kind = 'tenant.imported'
ORDER BY e.stream, e.seq

-- taken_over: whether a person took a stream over after an event. (That of a session is among the few events of no table.)
SELECT 1 FROM events WHERE stream = :stream AND seq > :after AND tbl = '' AND kind IN ('run.taken_over', 'session.taken_over')
UNION ALL SELECT 1 FROM events e JOIN streams s ON s.id = e.stream
WHERE e.stream = :stream AND e.seq > :after AND s.kind = 'run' AND e.kind = 'run.unparked' LIMIT 1

-- run_keyed: the key of a run, as a row of `effects_keyed`.
SELECT 1, r.key, NULL FROM runs r WHERE r.stream = :stream AND r.key IS NOT NULL

-- effects_keyed: the keys of the effects of a session.
SELECT f.seq, f.key, f.place FROM effects f WHERE f.stream = :stream AND f.place IS NULL

-- tasks_keyed: the keys of the tasks of a session, as rows of `effects_keyed`.
SELECT t.seq, t.key, NULL FROM tasks t WHERE t.stream = :stream AND t.key IS NOT NULL

-- marks_keyed: the requests whose answers a scope of marks holds.
SELECT e.name, e.seq FROM entries e WHERE e.stream = :stream AND e.gone = 0

-- runs_of_session: the runs of a session.
SELECT s.id, s.uid, s.tenant, s.kind, s.name, s.parent, s.fork_seq FROM runs r JOIN streams s ON s.id = r.stream
WHERE r.tenant = :tenant AND r.session = :session
