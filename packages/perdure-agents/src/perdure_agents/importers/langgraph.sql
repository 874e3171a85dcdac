-- threads_page: threads of LangGraph's SQLite checkpoints, each with its namespaces (its subgraphs).
SELECT DISTINCT thread_id, checkpoint_ns
FROM checkpoints
WHERE (thread_id, checkpoint_ns) > (:thread, :ns)
ORDER BY thread_id, checkpoint_ns
LIMIT 200

-- first_thread: whether there is a thread and namespace with empty names, which no page has.
SELECT thread_id, checkpoint_ns FROM checkpoints WHERE thread_id = '' AND checkpoint_ns = '' LIMIT 1

-- line_page: the checkpoints of a thread, oldest first (their ids grow), and what each follows.
SELECT checkpoint_id, parent_checkpoint_id
FROM checkpoints
WHERE thread_id = :thread AND checkpoint_ns = :ns AND checkpoint_id > :after
ORDER BY checkpoint_id
LIMIT 1000

-- checkpoint_get: one checkpoint, packed.
SELECT type, CAST(checkpoint AS BLOB)
FROM checkpoints
WHERE thread_id = :thread AND checkpoint_ns = :ns AND checkpoint_id = :checkpoint

-- writes_page: writes of tasks after a checkpoint, which no later one has taken in.
SELECT task_id, idx, channel, type, CAST(value AS BLOB)
FROM writes
WHERE thread_id = :thread AND checkpoint_ns = :ns AND checkpoint_id = :checkpoint AND (task_id, idx) > (:task, :idx)
ORDER BY task_id, idx
LIMIT 100

-- deltas_page: writes of a step to one channel, in the order in which they were taken in.
SELECT task_path, task_id, idx, type, CAST(value AS BLOB)
FROM writes
WHERE thread_id = :thread AND checkpoint_ns = :ns AND checkpoint_id = :checkpoint AND channel = :channel
  AND (task_path, task_id, idx) > (:path, :task, :idx)
ORDER BY task_path, task_id, idx
LIMIT 100
