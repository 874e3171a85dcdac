-- The statements of the log itself: streams, events, feed, blobs.

-- store_clock: now, on the clock that decides leases.
SELECT :now

-- tenant_name: the name of a tenant.
SELECT name FROM tenants WHERE id = :tenant

-- stream_by_name: a stream of a tenant.
SELECT id, uid, tenant, kind, name, parent, fork_seq FROM streams WHERE tenant = :tenant AND kind = :kind AND name = :name

-- stream_by_id: a stream by its number in this store.
SELECT id, uid, tenant, kind, name, parent, fork_seq FROM streams WHERE id = :id

-- stream_by_uid: a stream by its identity, which is the same in every store.
SELECT id, uid, tenant, kind, name, parent, fork_seq FROM streams WHERE uid = :uid
  AND tenant = :tenant --? tenant

-- stream_head: the head of one stream.
SELECT seq, hash FROM streams WHERE id = :stream

-- event_by_seq: one event.
SELECT seq, kind, tbl, actor, at, codec, commitment, hash, salt, body, tx, pos, stream FROM events
WHERE stream = :stream AND seq = :seq

-- events_page: events of a stream, in order.
SELECT seq, kind, tbl, actor, at, codec, commitment, hash, salt, body, tx, pos, stream FROM events
WHERE stream = :stream AND seq > :after AND seq <= :upto ORDER BY seq LIMIT :limit

-- pruned_tables: which tables have events without a body, up to a sequence number.
SELECT DISTINCT tbl FROM events WHERE stream = :stream AND seq <= :upto AND body IS NULL

-- event_tx: which transaction wrote this event; resolves a COMMIT whose reply was lost.
SELECT tx FROM events WHERE stream = :stream AND seq = :seq

-- event_known: whether there is this event, by the uid of its stream.
SELECT 1 FROM streams s JOIN events e ON e.stream = s.id WHERE s.uid = :uid AND e.seq = :seq AND e.hash = :hash

-- event_newest: the newest event, by the uid of its stream.
SELECT s.uid, e.seq, e.hash FROM (SELECT stream, seq, hash FROM events ORDER BY pos DESC LIMIT 1) e JOIN streams s ON s.id = e.stream

-- event_newest @postgres: of the last 10,000 transactions: behind the wall the events of other tenants are gone through.
SELECT s.uid, e.seq, e.hash FROM (SELECT stream, seq, hash FROM events
  WHERE xid >= greatest(pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 10000, 0)::text::xid8
  ORDER BY xid DESC, pos DESC LIMIT 1) e JOIN streams s ON s.id = e.stream

-- tenant_numbers: every tenant.
SELECT id FROM tenants

-- feed_end: the position after everything that is committed now.
SELECT 0, coalesce(max(pos), 0) FROM events

-- feed_end @postgres: the end of what no transaction in flight can still come before.
SELECT coalesce(max(xid::text::bigint), 0), coalesce(max(pos), 0) FROM (
  SELECT xid, pos FROM events WHERE xid < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY xid DESC, pos DESC LIMIT 1) newest

-- feed_held: the transaction that holds back what is committed; a file has none.
SELECT 0, '', '', 0 WHERE 0

-- feed_held @postgres: the oldest one in flight, if an event of a later one waits for it. A prepared one has no process.
WITH oldest AS (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS xid)
SELECT a.pid, a.application_name, coalesce(a.state, 'unknown'), coalesce(extract(epoch FROM clock_timestamp() - a.xact_start), 0)::bigint
FROM pg_stat_activity a, oldest o WHERE a.backend_xid = o.xid::xid AND a.pid <> pg_backend_pid()
  AND EXISTS (SELECT 1 FROM events WHERE xid >= o.xid)
UNION ALL
SELECT 0, p.gid, 'prepared', extract(epoch FROM clock_timestamp() - p.prepared)::bigint
FROM pg_prepared_xacts p, oldest o WHERE p.transaction = o.xid::xid AND EXISTS (SELECT 1 FROM events WHERE xid >= o.xid)

-- blob_get: one blob.
SELECT size, codec, data FROM blobs WHERE tenant = :tenant AND address = :address

-- blobs_known: which of these blobs (a JSON list of addresses in hex) are stored.
SELECT address FROM blobs WHERE tenant = :tenant AND address IN (SELECT unhex(value) FROM json_each(:addresses))

-- blobs_known @postgres: lists come in by another function.
SELECT address FROM blobs WHERE tenant = :tenant
  AND address IN (SELECT decode(value, 'hex') FROM json_array_elements_text(CAST(:addresses AS json)))

-- blobs_get: these blobs (a JSON list of addresses in hex).
SELECT address, size, codec, data FROM blobs
WHERE tenant = :tenant AND address IN (SELECT unhex(value) FROM json_each(:addresses))

-- blobs_get @postgres: lists come in by another function.
SELECT address, size, codec, data FROM blobs WHERE tenant = :tenant
  AND address IN (SELECT decode(value, 'hex') FROM json_array_elements_text(CAST(:addresses AS json)))

-- meta_get: one fact about the store.
SELECT value FROM meta WHERE name = :name

-- actor_of: the random names of an actor.
SELECT actor FROM actors WHERE tenant = :tenant AND name = :name ORDER BY stream, seq

-- actor_named: the actor behind a random name.
SELECT name FROM actors WHERE tenant = :tenant AND actor = :actor ORDER BY stream LIMIT 1

-- every_tenant: name every tenant, for a look in this transaction that tells nothing of them: only a server walls them off.
SELECT 1

-- every_tenant @postgres: row-level security lets rows of named tenants through.
SELECT set_config('perdure.tenants', (SELECT string_agg(id::text, ',') FROM tenants), true)

-- tenant_by_name: a tenant.
SELECT id FROM tenants WHERE name = :name
