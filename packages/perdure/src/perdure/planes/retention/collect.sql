-- The statements of collection: what nothing refers to any more.

-- roots_all: the roots of all checkpoints of a tenant.
SELECT DISTINCT c.root FROM checkpoints c JOIN streams s ON s.id = c.stream WHERE s.tenant = :tenant

-- roots_since: the roots of checkpoints whose events come after a position of the feed.
SELECT DISTINCT c.root FROM events e JOIN checkpoints c ON c.stream = e.stream AND c.seq = e.seq
WHERE +e.tenant = :tenant AND e.tbl = 'checkpoints' AND e.pos > :pos AND :xid = 0

-- roots_since @postgres: positions are given out before commit; the order of the feed is by transaction first.
SELECT DISTINCT c.root FROM events e JOIN checkpoints c ON c.stream = e.stream AND c.seq = e.seq
WHERE e.tenant = :tenant AND e.tbl = 'checkpoints' AND (e.xid, e.pos) > (:xid::bigint::text::xid8, :pos)

-- blobs_unreferenced: blobs that no event names, in pages. Nodes below the root of a checkpoint are among them.
-- (CROSS JOIN and + keep the order of looking: from a blob to its few references, and blobs in the order of their ids.)
SELECT b.id, b.address, b.size FROM blobs b
WHERE +b.tenant = :tenant AND b.id > :after
  AND NOT EXISTS (
    SELECT 1 FROM blob_refs r CROSS JOIN streams s WHERE r.address = b.address AND s.id = r.stream AND s.tenant = b.tenant)
  AND NOT EXISTS (SELECT 1 FROM blob_pins p WHERE p.tenant = b.tenant AND p.address = b.address AND p.expires_at > :now)
ORDER BY b.id LIMIT :limit

-- blobs_needed: those of these addresses (a JSON list in hex) that an event names or that are pinned.
SELECT r.address FROM blob_refs r CROSS JOIN streams s
WHERE s.id = r.stream AND s.tenant = :tenant AND r.address IN (SELECT unhex(value) FROM json_each(:addresses))
UNION
SELECT p.address FROM blob_pins p WHERE p.tenant = :tenant AND p.expires_at > :now
  AND p.address IN (SELECT unhex(value) FROM json_each(:addresses))

-- blobs_needed @postgres: lists come in by another function, as arrays: joined, they would make it read the whole table.
SELECT r.address FROM blob_refs r JOIN streams s ON s.id = r.stream
WHERE s.tenant = :tenant AND r.address = ANY (ARRAY(SELECT decode(value, 'hex') FROM json_array_elements_text(CAST(:addresses AS json))))
UNION
SELECT p.address FROM blob_pins p WHERE p.tenant = :tenant AND p.expires_at > :now
  AND p.address = ANY (ARRAY(SELECT decode(value, 'hex') FROM json_array_elements_text(CAST(:addresses AS json))))

-- pins_expired: pins of writers that died.
SELECT address, holder FROM blob_pins WHERE tenant = :tenant AND expires_at <= :now LIMIT :limit
