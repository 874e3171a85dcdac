-- The index of what was said: how far it is, and what it holds.

-- feed_visible_end: the position of the last event that is committed now.
SELECT 0, coalesce(max(pos), 0) FROM events

-- feed_visible_end @postgres: also what lies behind a transaction in flight: whoever was answered finds what was said.
SELECT coalesce(max(xid::text::bigint), 0), coalesce(max(pos), 0)
FROM (SELECT xid, pos FROM events ORDER BY xid DESC, pos DESC LIMIT 1) newest

-- indexing_get: how far the index of a tenant is.
SELECT epoch, xid, pos, version, added FROM indexing WHERE tenant = :tenant

-- index_lock: one at a time may add to the index; SQLite's file is locked anyway.
SELECT 1

-- index_lock @postgres: also against those who empty events (stores/postgres.py): an emptied text must not be indexed after.
SELECT pg_advisory_xact_lock(hashtext('perdure.index'), hashtext(current_schema() || '.' || :tenant::bigint))

-- events_emptied_among: the events of a range that have lost their bodies.
SELECT stream, seq FROM events WHERE pos >= :first AND pos <= :last AND body IS NULL

-- texts_of_memory: the texts of a memory, live or superseded. (SQLite would read the whole stream: it knows no counts.)
SELECT seq, part, shelf, of_seq, actor, at, user_said, is_short, len, terms FROM texts INDEXED BY texts_of_memories
WHERE in_stream = :stream AND of_seq = :of_seq AND shelf >= 'memory.' AND shelf < 'past/'

-- texts_of_memory @postgres: it finds the index by itself.
SELECT seq, part, shelf, of_seq, actor, at, user_said, is_short, len, terms FROM texts
WHERE in_stream = :stream AND of_seq = :of_seq AND shelf >= 'memory.' AND shelf < 'past/'

-- texts_some: some texts of a tenant, to be taken away.
SELECT in_stream, seq, part, shelf FROM texts WHERE tenant = :tenant LIMIT :limit

-- texts_between: which texts of a stream there are, from one event to another.
SELECT seq, part, shelf FROM texts WHERE in_stream = :stream AND seq >= :first AND seq <= :last
