-- The queries of verify and anchors: everything here looks across tenants, because a chain does not know them.

-- events_total: how much there is to look at, of one tenant or (NULL) of all.
SELECT CAST(coalesce(sum(seq - fork_seq), 0) AS BIGINT) FROM streams
WHERE 1 = 1
  AND tenant = :tenant --? tenant

-- stream_now: a stream with its head.
SELECT id, uid, tenant, kind, name, parent, fork_seq, seq, hash FROM streams WHERE id = :stream

-- events_checked: events of a stream in order, with the tenant that each claims.
SELECT seq, kind, tbl, actor, at, codec, commitment, hash, salt, body, tx, pos, stream, tenant, 0 FROM events
WHERE stream = :stream AND seq > :after ORDER BY seq LIMIT :limit

-- events_checked @postgres: the feed is in the order of transactions; ids that are not given out yet are of another cluster.
SELECT seq, kind, tbl, actor, at, codec, commitment, hash, salt, body, tx, pos, stream, tenant,
  CASE WHEN xid < pg_snapshot_xmax(pg_current_snapshot()) THEN xid::text::bigint ELSE 0 END FROM events
WHERE stream = :stream AND seq > :after ORDER BY seq LIMIT :limit

-- event_hash: the event that a fork continues.
SELECT hash FROM events WHERE stream = :stream AND seq = :seq

-- events_astray: events of streams that do not exist.
SELECT stream, min(seq), count(*) FROM events WHERE stream NOT IN (SELECT id FROM streams) GROUP BY stream ORDER BY stream LIMIT 100

-- rows_astray: rows of streams that do not exist.
SELECT tbl, stream, count(*) FROM (
  SELECT 'sessions' AS tbl, stream FROM sessions
  UNION ALL SELECT 'turns', stream FROM turns
  UNION ALL SELECT 'covers', stream FROM covers
  UNION ALL SELECT 'tasks', stream FROM tasks
  UNION ALL SELECT 'decisions', stream FROM decisions
  UNION ALL SELECT 'entries', stream FROM entries
  UNION ALL SELECT 'locks', stream FROM locks
  UNION ALL SELECT 'checkpoints', stream FROM checkpoints
  UNION ALL SELECT 'checkpoint_writes', stream FROM checkpoint_writes
  UNION ALL SELECT 'artifacts', stream FROM artifacts
  UNION ALL SELECT 'anchors', stream FROM anchors
  UNION ALL SELECT 'effects', stream FROM effects
  UNION ALL SELECT 'runs', stream FROM runs
  UNION ALL SELECT 'waits', stream FROM waits
  UNION ALL SELECT 'signals', stream FROM signals
  UNION ALL SELECT 'memories', stream FROM memories
  UNION ALL SELECT 'actors', stream FROM actors
  UNION ALL SELECT 'checks', stream FROM checks
  UNION ALL SELECT 'refs', stream FROM refs
  UNION ALL SELECT 'blob_refs', stream FROM blob_refs
  UNION ALL SELECT 'subjects', stream FROM subjects
  UNION ALL SELECT 'calls', stream FROM calls
  UNION ALL SELECT 'tags', stream FROM tags
  UNION ALL SELECT 'task_needs', stream FROM task_needs
) AS every_row WHERE stream NOT IN (SELECT id FROM streams) GROUP BY tbl, stream ORDER BY tbl, stream LIMIT 100

-- blob_refs_page: the blobs that a stream's events need, and which rows keep them.
SELECT r.seq, r.address, b.id FROM blob_refs r LEFT JOIN blobs b ON b.tenant = :tenant AND b.address = r.address
WHERE r.stream = :stream AND (r.seq, r.address) > (:seq, :address) ORDER BY r.seq, r.address LIMIT :limit

-- blob_row: one blob with the number of its row.
SELECT id, size, codec, data FROM blobs WHERE tenant = :tenant AND address = :address

-- guards: triggers that make the database refuse to change events, as they were written.
SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'events'

-- guards @postgres: the catalogue is another one; a trigger may be off, have a condition, or be for something else.
-- (27 is: before, for each row, at an update or a deletion; 34: before, for the statement, at a truncation.)
SELECT t.tgname::text, p.prosrc FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
WHERE t.tgrelid = to_regclass('events') AND NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') AND t.tgqual IS NULL
  AND (t.tgname, t.tgtype) IN (('events_guard', 27), ('events_keep', 34))

-- pruning_standing: whether the guards are told to let a prune pass. Nobody but a prune ever sees such a row.
SELECT tenant FROM pruning

-- anchored: the event where an anchor says that a head was.
SELECT s.name, s.seq, e.hash FROM streams s LEFT JOIN events e ON e.stream = s.id AND e.seq = :seq WHERE s.uid = :uid

-- heads_page: chain heads, in the order of streams, of one tenant or (NULL) of all.
SELECT id, uid, seq, hash FROM streams
WHERE id > :after
  AND tenant = :tenant --? tenant
ORDER BY id LIMIT :limit

-- tenant_first: the owner of the store's own stream.
SELECT min(id) FROM tenants

-- tenants_named: each tenant that has more than an anchor makes (the store's stream, a directory), by its first stream that no other has too.
SELECT s.uid, n.name FROM tenants n JOIN streams s ON s.id = (SELECT min(m.id) FROM streams m
  WHERE m.tenant = n.id AND m.kind <> 'store' AND NOT EXISTS (SELECT 1 FROM streams o WHERE o.uid = m.uid AND o.tenant <> m.tenant))
WHERE EXISTS (SELECT 1 FROM streams h WHERE h.tenant = n.id AND h.kind NOT IN ('store', 'tenant'))

-- tenants_recorded: the last statement of the store's own stream about the names of tenants.
SELECT e.body FROM events e JOIN streams s ON s.id = e.stream
WHERE s.kind = 'store' AND s.name = 'store' AND e.kind = :kind ORDER BY e.stream, e.seq DESC LIMIT 1

-- tenants_in_directories: events of the directories of actors, which say what their tenants are called.
SELECT s.uid, e.seq, n.name, e.body FROM streams s JOIN tenants n ON n.id = s.tenant JOIN events e ON e.stream = s.id
WHERE s.kind = 'tenant' AND s.name = 'tenant' AND e.tbl = 'actors' AND e.body IS NOT NULL ORDER BY s.id, e.seq

-- tenant_of_stream: the present name of the tenant of a stream.
SELECT n.name FROM streams s JOIN tenants n ON n.id = s.tenant WHERE s.uid = :uid

-- quarantined: the damage that was recorded as known.
SELECT e.body FROM events e JOIN streams s ON s.id = e.stream
WHERE s.kind = 'store' AND s.name = 'store' AND e.kind = :kind ORDER BY e.stream, e.seq
