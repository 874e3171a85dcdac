-- Reading all events of a tenant in the order of the feed, but those of its directory of actors: who is meant is no news.

-- feed_after: events after a position and not after the end that was read before, in the order of the feed. (`+`: by position.)
SELECT seq, kind, tbl, actor, at, codec, commitment, hash, salt, body, tx, pos, stream, 0 FROM events
WHERE pos > :pos AND pos <= :end_pos AND :xid = 0 AND :end_xid = 0 AND +tenant = :tenant AND tbl <> 'actors'
  AND +stream = :stream --? stream
  AND EXISTS (SELECT 1 FROM json_each(:kinds) w WHERE kind = w.value OR (substr(w.value, -2) = '.*' AND instr(kind, substr(w.value, 1, length(w.value) - 1)) = 1)) --? kinds
ORDER BY pos LIMIT :limit

-- feed_after @postgres: positions are given out before commit, so the transaction comes first (ORDER BY must mean the column).
SELECT seq, kind, tbl, actor, at, codec, commitment, hash, salt, body, tx, pos, stream, xid::text::bigint AS transaction FROM events
WHERE (xid, pos) > (:xid::bigint::text::xid8, :pos) AND (xid, pos) <= (:end_xid::bigint::text::xid8, :end_pos)
  AND tenant = :tenant AND tbl <> 'actors'
  AND stream = :stream --? stream
  AND EXISTS (SELECT 1 FROM json_array_elements_text(CAST(:kinds AS json)) w WHERE kind = w.value OR (right(w.value, 2) = '.*' AND starts_with(kind, left(w.value, -1)))) --? kinds
ORDER BY xid, pos LIMIT :limit

-- feed_bound: the position so many events further on, of whatever kind.
SELECT 0, pos FROM events WHERE pos > :pos AND :xid = 0 ORDER BY pos LIMIT 1 OFFSET :steps

-- feed_bound @postgres: in the order of transactions.
SELECT xid::text::bigint, pos FROM events WHERE (xid, pos) > (:xid::bigint::text::xid8, :pos) ORDER BY xid, pos LIMIT 1 OFFSET :steps
