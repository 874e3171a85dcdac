-- The files store's statements to its cache, besides those of every store.

-- mark_get: how far the log was read into this cache.
SELECT value FROM meta WHERE name = 'log_mark'

-- tenants_all: every tenant.
SELECT id, name FROM tenants

-- tenant_put: a tenant under the number that it has in the log.
INSERT INTO tenants (id, uid, name) VALUES (:id, :uid, :name)

-- stream_uid: the identity of a stream, and its tenant.
SELECT uid, tenant FROM streams WHERE id = :id

-- stream_shared: whether another tenant's stream of the same uid came before this one.
SELECT 1 FROM streams WHERE uid = :uid AND id < :id

-- stream_named: a stream by its uid: that of a tenant, or the one that came first.
SELECT id, uid, tenant, kind, name, parent, fork_seq FROM streams WHERE uid = :uid
  AND tenant = :tenant --? tenant
ORDER BY id LIMIT 1

-- event_hash: which event has this number in a stream.
SELECT hash FROM events WHERE stream = :stream AND seq = :seq

-- savepoint_begin: from here on everything can be taken back.
SAVEPOINT loading

-- savepoint_keep: it stays.
RELEASE loading

-- savepoint_undo: it is taken back.
ROLLBACK TO loading

-- unsynced: while a cache is made that nobody has yet, and that is synced as a whole before it gets its name.
PRAGMA synchronous = OFF

-- unlogged: likewise; every page is new, so there is nothing to keep of old ones.
PRAGMA journal_mode = MEMORY

-- roomy: likewise; 128 MiB of pages at most.
PRAGMA cache_size = -131072

-- lightly_synced: the log is what is durable; a cache that lost its last commits catches up.
PRAGMA synchronous = NORMAL

-- fully_synced: commits from here on survive a loss of power at once.
PRAGMA synchronous = FULL

-- emptied_hashes: every event whose body went.
SELECT hash FROM events WHERE body IS NULL

-- scrubbed: write every page anew: pages keep what was deleted from them, until they need the room.
VACUUM

-- drained: leave nothing in the WAL, unless somebody is reading from it.
PRAGMA wal_checkpoint(TRUNCATE)

-- unwritable: a log that was read into memory is not to be changed there.
PRAGMA query_only = ON

-- tenants_said: whether any tenant said that it imported something: only then does a stream mean something else here.
SELECT 1 FROM tenants n JOIN events e ON e.tenant = n.id AND e.kind = 'tenant.imported' LIMIT 1

-- tenants_whole: every tenant, as a line says it.
SELECT id, uid, name FROM tenants ORDER BY id

-- blobs_all: every blob that is kept.
SELECT tenant, address, size FROM blobs ORDER BY tenant, address

-- streams_all: every stream, as a line says it.
SELECT id, uid, tenant, kind, name, parent, fork_seq FROM streams ORDER BY id

-- events_all: every event, in the order of the feed, with its stream.
SELECT e.stream, e.seq, e.kind, e.tbl, e.actor, e.at, e.codec, e.commitment, e.hash, e.salt, e.body, e.tx
FROM events e ORDER BY e.pos

-- streams_said: the state of each stream in the tables, in words that do not depend on their numbers.
SELECT s.uid, t.name, s.kind, s.name, p.uid, s.fork_seq, s.seq, s.hash
FROM streams s JOIN tenants t ON t.id = s.tenant LEFT JOIN streams p ON p.id = s.parent

-- blobs_said: which blobs the tables keep.
SELECT t.name, b.address, b.size FROM blobs b JOIN tenants t ON t.id = b.tenant

-- emptied_said: which events the tables hold without a body.
SELECT hash, stream IS NOT NULL FROM events WHERE body IS NULL

-- blobs_inside: the blobs that a database has inside, as they are packed.
SELECT tenant, address, size, codec, data FROM blobs WHERE data IS NOT NULL ORDER BY tenant, address
