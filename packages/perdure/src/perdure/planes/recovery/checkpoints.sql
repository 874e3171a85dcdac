-- The statements of checkpoints: rows of the own stream, and of its parents up to where it was forked.

-- checkpoint_last: the newest checkpoint of a name in a segment of a lineage.
SELECT seq, root FROM checkpoints WHERE stream = :stream AND seq = (
  SELECT max(seq) FROM checkpoints WHERE stream = :stream AND name = :name AND seq > :first AND seq <= :last)

-- checkpoint_root: the root of one checkpoint.
SELECT root FROM checkpoints WHERE stream = :stream AND seq = :seq

-- checkpoints_page: the checkpoints of a segment, newest first.
SELECT c.seq, c.name, c.parent, c.root, c.size, c.at, named(e), s.uid, c.key, c.parent_key
FROM checkpoints c CROSS JOIN events e CROSS JOIN streams s
WHERE c.stream = :stream AND c.seq > :first AND c.seq <= :last
  AND e.stream = c.stream AND e.seq = c.seq AND e.seq > :first AND e.seq <= :last AND s.id = c.stream
  AND about_before(c) --? about
  AND c.seq IN ( --? name
    SELECT seq FROM checkpoints WHERE stream = :stream AND name = :name AND seq > :first AND seq <= :last --? name
    ORDER BY seq DESC LIMIT :limit) --? name
ORDER BY c.seq DESC LIMIT :limit

-- checkpoints_own: all checkpoints of a stream, newest first: what a prune looks at.
SELECT seq, name, root, at FROM checkpoints WHERE stream = :stream ORDER BY seq DESC

-- saves_emptied: checkpoints of a range that were pruned, now or later.
SELECT seq FROM events WHERE stream = :stream AND seq > :after AND seq <= :upto AND body IS NULL AND kind = 'checkpoint.saved'

-- prunings: events that say that checkpoints were pruned, after a sequence number.
SELECT e.seq, e.body FROM streams s JOIN events e ON e.stream = s.id
WHERE s.uid = :uid AND s.tenant = :tenant AND e.seq > :after AND e.tbl = 'checkpoints' AND e.kind = 'checkpoint.pruned' ORDER BY e.seq

-- forks_of: where the forks of a stream, and the forks of those, left it. (UNION: so it ends, also where parents form a circle.)
WITH RECURSIVE forks (id, seq) AS (
  SELECT id, fork_seq FROM streams WHERE parent = :stream
  UNION
  SELECT s.id, CASE WHEN s.fork_seq < f.seq THEN s.fork_seq ELSE f.seq END FROM streams s JOIN forks f ON s.parent = f.id)
SELECT DISTINCT seq FROM forks

-- writes_after: the writes of tasks after a checkpoint that has a key, of the stream itself.
SELECT seq FROM checkpoint_writes WHERE stream = :stream AND name = :name AND checkpoint = :checkpoint ORDER BY seq
