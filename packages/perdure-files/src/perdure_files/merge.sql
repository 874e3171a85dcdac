-- The questions of a merge to the store that it merges into.

-- run_by_key: whether a run with this key was started here.
SELECT count(*) FROM runs WHERE tenant = :tenant AND agent = :agent AND key = :key

-- event_hashes: the hashes of a stream's events, by sequence number.
SELECT seq, hash FROM events WHERE stream = :stream
