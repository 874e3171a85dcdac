-- Named readers of the feed: where they are.

-- subscription_lock: one at a time may take or acknowledge a batch; SQLite's file is locked anyway.
SELECT 1

-- subscription_lock @postgres: an ephemeral row has no head that is compared and set; a new one has no row to lock either.
SELECT pg_advisory_xact_lock(hashtext('perdure.subscription'), hashtext(CAST(:tenant AS TEXT) || '/' || :name))

-- subscription_get: where a named reader is, and what is under way.
SELECT epoch, xid, pos, about, :now FROM subscriptions WHERE tenant = :tenant AND name = :name
