-- Reading all events of a tenant in the order of the feed, and the named readers that keep their position.

-- feed_after: events after a position and not after the end that was read before, in the order of the feed. (`+`: by position.)
SELECT seq, kind, tbl, actor, at, codec, commitment, hash, salt, body, tx, pos, stream, 0 FROM events
WHERE pos > :pos AND pos <= :end_pos AND :xid = 0 AND :end_xid = 0 AND +tenant = :tenant
ORDER BY pos LIMIT :limit

-- feed_after @postgres: positions are given out before commit, so the transaction comes first (ORDER BY must mean the column).
SELECT seq, kind, tbl, actor, at, codec, commitment, hash, salt, body, tx, pos, stream, xid::text::bigint AS transaction FROM events
WHERE (xid, pos) > (:xid::bigint::text::xid8, :pos) AND (xid, pos) <= (:end_xid::bigint::text::xid8, :end_pos)
  AND tenant = :tenant
ORDER BY xid, pos LIMIT :limit

-- subscription_lock: one at a time may take or acknowledge a batch; SQLite's file is locked anyway.
SELECT 1

-- subscription_lock @postgres: an ephemeral row has no head that is compared and set; a new one has no row to lock either.
SELECT pg_advisory_xact_lock(hashtext('perdure.subscription'), hashtext(CAST(:tenant AS TEXT) || '/' || :name))

-- subscription_get: where a named reader is.
SELECT epoch, xid, pos, token, batch_xid, batch_pos, coalesce(expires_at, 0) > :now AS held FROM subscriptions
WHERE tenant = :tenant AND name = :name
