-- The statements of checkpoints that have a key: rows of the own stream, and of its parents up to where it was forked.

-- keyed_last: the checkpoint of a name with the greatest key, in a segment of a lineage.
SELECT c.seq, c.name, c.key, c.parent_key, c.root, c.at, e.body
FROM checkpoints c CROSS JOIN events e
WHERE c.stream = :stream AND c.name = :name AND c.key IS NOT NULL AND c.seq > :first AND c.seq <= :last
  AND e.stream = c.stream AND e.seq = c.seq
ORDER BY c.key DESC LIMIT 1

-- keyed_get: one checkpoint of a name by its key, in a segment of a lineage.
SELECT c.seq, c.name, c.key, c.parent_key, c.root, c.at, e.body
FROM checkpoints c CROSS JOIN events e
WHERE c.stream = :stream AND c.name = :name AND c.key = :key AND c.seq > :first AND c.seq <= :last
  AND e.stream = c.stream AND e.seq = c.seq
ORDER BY c.seq DESC LIMIT 1

-- keyed_standing: which checkpoints of a stream have one of two keys, and their states.
SELECT seq, key, root FROM checkpoints WHERE stream = :stream AND name = :name AND key IN (:key, :base)

-- keyed_page: the checkpoints of a segment whose name begins with a prefix, by key, greatest first.
SELECT c.seq, c.name, c.key, c.parent_key, c.root, c.at, e.body
FROM checkpoints c CROSS JOIN events e
WHERE c.stream = :stream AND c.key IS NOT NULL AND c.seq > :first AND c.seq <= :last
  AND e.stream = c.stream AND e.seq = c.seq
  AND c.name = :name --? name
  AND substr(c.name, 1, length(:prefix)) = :prefix --? prefix
  AND c.key < :before --? before
ORDER BY c.key DESC, c.seq DESC LIMIT :limit

-- keyed_across: the checkpoints of all sessions of a tenant whose name begins with a prefix, by key, greatest first, in pages.
SELECT c.seq, c.name, c.key, c.parent_key, c.root, c.at, e.body, s.name, c.stream
FROM checkpoints c CROSS JOIN events e CROSS JOIN streams s
WHERE c.tenant = :tenant AND c.key IS NOT NULL AND e.stream = c.stream AND e.seq = c.seq AND s.id = c.stream
  AND s.kind = 'session' AND substr(c.name, 1, length(:prefix)) = :prefix
  AND c.key <= :upto --? upto
  AND (c.key, c.stream, c.seq) < (:key, :after, :seq) --? key
ORDER BY c.key DESC, c.stream DESC, c.seq DESC LIMIT :limit

-- writes_get: the writes of tasks after a checkpoint, in a segment of a lineage.
SELECT w.seq, w.task, w.path, e.body
FROM checkpoint_writes w CROSS JOIN events e
WHERE w.stream = :stream AND w.name = :name AND w.checkpoint = :checkpoint AND w.seq > :first AND w.seq <= :last
  AND e.stream = w.stream AND e.seq = w.seq
ORDER BY w.seq

-- writes_standing: which writes of a task after a checkpoint there are.
SELECT places FROM checkpoint_writes WHERE stream = :stream AND name = :name AND checkpoint = :checkpoint AND task = :task
