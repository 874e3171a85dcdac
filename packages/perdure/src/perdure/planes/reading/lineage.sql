-- Lineage: the streams that hold a fork's past. A parent begins before its fork, in the same tenant: so every walk ends.

-- lineage: a stream's parent and all that come before it, the nearest first. The stream itself may be new in a transaction.
WITH RECURSIVE line (id, parent, tenant, fork_seq, depth) AS (
  SELECT id, parent, tenant, fork_seq, 1 FROM streams WHERE id = :parent AND tenant = :tenant AND fork_seq < :fork_seq
  UNION ALL
  SELECT s.id, s.parent, s.tenant, s.fork_seq, line.depth + 1 FROM line JOIN streams s ON s.id = line.parent
  WHERE s.fork_seq < line.fork_seq AND s.tenant = line.tenant)
SELECT s.id, s.uid, s.tenant, s.kind, s.name, s.parent, s.fork_seq FROM line JOIN streams s ON s.id = line.id
ORDER BY line.depth

-- merged: the note of a stream about the one that it stands beside since a merge.
SELECT body FROM events WHERE tenant = :tenant AND kind = :kind AND stream = :stream ORDER BY seq DESC
