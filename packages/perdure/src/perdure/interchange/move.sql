-- The questions of a move to its two stores: everything here looks across tenants.

-- leases_held: runs, claimed tasks and locks that somebody has, and effects that somebody is sending, with the holder, if its heartbeat
-- is good. (A client that sends has that of its server: `presence.client_of`.)
SELECT 'run ' || r.name, r.holder FROM runs r JOIN holders h ON h.tenant = r.tenant AND h.holder = r.holder
WHERE r.status = 'running' AND h.expires_at > :now
UNION ALL
SELECT 'effect ' || f.tool, f.holder FROM effects f JOIN holders h ON h.tenant = f.tenant AND h.holder = replace(f.holder, '-client', '')
WHERE f.state = 'dispatched' AND f.tenant IN (SELECT id FROM tenants) AND h.expires_at > :now
UNION ALL
SELECT 'task ' || t.title, t.holder FROM tasks t JOIN holders h ON h.tenant = t.tenant AND h.holder = t.holder
WHERE t.status = 'doing' AND t.tenant IN (SELECT id FROM tenants) AND h.expires_at > :now AND coalesce(t.claim_expires_at, :now + 1) > :now
UNION ALL
SELECT 'lock ' || k.name, substr(k.holder, length(k.holder) - 31) FROM locks k WHERE k.holder IS NOT NULL AND k.expires_at > :now
LIMIT :limit

-- tenants_all: every tenant.
SELECT id, name FROM tenants ORDER BY id

-- events_count: how many events there are.
SELECT count(*) FROM events

-- counts: how much there is.
SELECT (SELECT count(*) FROM streams), (SELECT count(*) FROM events), (SELECT count(*) FROM blobs)

-- events_nth: the position of an event by its number in the order of the feed.
SELECT pos, 0 FROM events ORDER BY pos LIMIT 1 OFFSET :number

-- events_nth @postgres: the order of the feed is by transaction first.
SELECT pos, xid::text::bigint FROM events ORDER BY xid, pos LIMIT 1 OFFSET :number

-- events_next: events of all tenants in the order of the feed.
SELECT seq, kind, tbl, actor, at, codec, commitment, hash, salt, body, tx, pos, stream, 0 FROM events
WHERE pos > :pos AND :xid = 0 ORDER BY pos LIMIT :limit

-- events_next @postgres: as above.
SELECT seq, kind, tbl, actor, at, codec, commitment, hash, salt, body, tx, pos, stream, xid::text::bigint AS transaction FROM events
WHERE (xid, pos) > (:xid::bigint::text::xid8, :pos) ORDER BY xid, pos LIMIT :limit

-- blobs_next: blobs of all tenants, in pages.
SELECT id, tenant, address, size, codec, data FROM blobs WHERE id > :after ORDER BY id LIMIT :limit

-- heads_all: where every chain ends.
SELECT n.name, s.uid, s.seq, s.hash FROM streams s JOIN tenants n ON n.id = s.tenant
