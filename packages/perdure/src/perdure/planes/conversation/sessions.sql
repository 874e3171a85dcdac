-- Sessions, turns, calls and covers. Everything is read by (stream, seq) or by an index of its own: cost is flat.

-- session_by_name: a session's stream and the digest of its pins.
SELECT t.id, t.uid, t.tenant, t.kind, t.name, t.parent, t.fork_seq, s.pin
FROM streams t JOIN sessions s ON s.stream = t.id
WHERE t.tenant = :tenant AND t.kind = 'session' AND t.name = :name

-- session_header: one session, with its newest event. An open one reads as waiting while somebody is asked in it or in a run of
-- it (also about an effect in doubt), else as crashed if all who attend it have died.
SELECT s.name, s.title, s.creator, s.labels, s.created_at, s.ended_at, s.expires_at, s.archived_at, e.seq, e.at,
  CASE WHEN s.status NOT IN ('active', 'waiting') THEN s.status
    WHEN EXISTS (SELECT 1 FROM waits w WHERE w.stream = s.stream AND w.state = 'open' AND w.kind IN ('ask', 'approval')
      AND (w.expires_at IS NULL OR w.expires_at > :now)) THEN 'waiting'
    WHEN EXISTS (SELECT 1 FROM runs r WHERE r.tenant = s.tenant AND r.session = s.name AND r.status = 'waiting' AND (
      r.reason = 'doubt' OR EXISTS (SELECT 1 FROM waits w WHERE w.stream = r.stream AND w.state = 'open'
        AND w.kind IN ('ask', 'approval') AND (w.expires_at IS NULL OR w.expires_at > :now)))) THEN 'waiting'
    WHEN EXISTS (SELECT 1 FROM attendance a WHERE a.stream = s.stream) AND NOT EXISTS (
      SELECT 1 FROM attendance a JOIN holders h ON h.tenant = a.tenant AND h.holder = a.holder
      WHERE a.stream = s.stream AND h.expires_at > :now) THEN 'crashed'
    ELSE s.status END, copied_stream(s)
FROM sessions s JOIN streams t ON t.id = s.stream JOIN events e ON e.stream = t.id AND e.seq = t.seq
WHERE s.stream = :stream

-- sessions_page: sessions of a tenant, newest first; by a label, through its tags. A page is chosen before its states are read. A
-- session that reads as waiting or crashed is narrowed down (`asked`, `crashed`), and then its state is a choice of its own.
SELECT f.name, f.title, f.creator, f.labels, f.created_at, f.ended_at, f.expires_at, f.archived_at, e.seq, e.at, f.state, copied_stream(f), f.stream
FROM (SELECT s.name, s.title, s.creator, s.labels, s.created_at, s.ended_at, s.expires_at, s.archived_at, s.stream,
  CASE WHEN s.status NOT IN ('active', 'waiting') THEN s.status
    WHEN EXISTS (SELECT 1 FROM waits w WHERE w.stream = s.stream AND w.state = 'open' AND w.kind IN ('ask', 'approval')
      AND (w.expires_at IS NULL OR w.expires_at > :now)) THEN 'waiting'
    WHEN EXISTS (SELECT 1 FROM runs r WHERE r.tenant = s.tenant AND r.session = s.name AND r.status = 'waiting' AND (
      r.reason = 'doubt' OR EXISTS (SELECT 1 FROM waits w WHERE w.stream = r.stream AND w.state = 'open'
        AND w.kind IN ('ask', 'approval') AND (w.expires_at IS NULL OR w.expires_at > :now)))) THEN 'waiting'
    WHEN EXISTS (SELECT 1 FROM attendance a WHERE a.stream = s.stream) AND NOT EXISTS (
      SELECT 1 FROM attendance a JOIN holders h ON h.tenant = a.tenant AND h.holder = a.holder
      WHERE a.stream = s.stream AND h.expires_at > :now) THEN 'crashed'
    ELSE s.status END AS state
FROM
  about_any(sessions) b CROSS JOIN --? about
  (SELECT o.stream FROM sessions o WHERE o.tenant = :tenant AND o.status = 'waiting' --? asked
    UNION SELECT w.stream FROM waits w --? asked
    WHERE w.tenant = :tenant AND w.kind IN ('ask', 'approval') AND w.state = 'open' --? asked
    UNION SELECT x.id FROM runs r JOIN streams x ON x.tenant = r.tenant AND x.kind = 'session' AND x.name = r.session --? asked
    WHERE r.tenant = :tenant AND r.session IS NOT NULL AND r.status = 'waiting') k CROSS JOIN --? asked
  (SELECT DISTINCT a.stream FROM attendance a LEFT JOIN holders h ON h.tenant = a.tenant AND h.holder = a.holder --? crashed
    WHERE h.expires_at IS NULL OR h.expires_at <= :now) c CROSS JOIN --? crashed
  tags g CROSS JOIN --? label
  sessions s
WHERE s.tenant = :tenant
  AND s.stream = b.stream --? about
  AND s.stream = k.stream --? asked
  AND s.stream = c.stream --? crashed
  AND g.tenant = :tenant AND g.thing = 'session' AND g.tag = :label --? label
  AND s.stream = g.stream --? label
  AND g.at >= :since --? label since
  AND g.at < :until --? label until
  AND (g.at, g.stream) < (:at, :id) --? label at id
  AND s.status = :status --? status
  AND s.creator = :creator --? creator
  AND s.created_at >= :since --? since
  AND s.created_at < :until --? until
  AND (s.expires_at IS NULL OR s.expires_at > :now) --? current
  AND s.archived_at IS NULL --? listed
  AND (s.created_at, s.stream) < (:at, :id) --? at id
ORDER BY
  g.at DESC, g.stream DESC --? label
  s.created_at DESC, s.stream DESC --? !label
LIMIT :limit --? !state
) AS f JOIN streams t ON t.id = f.stream JOIN events e ON e.stream = t.id AND e.seq = t.seq
WHERE f.state = :state --? state
ORDER BY f.created_at DESC, f.stream DESC LIMIT :limit

-- body_at: the body of one event.
SELECT body FROM events WHERE stream = :stream AND seq = :seq

-- turns_back: the newest turns of a range, newest first. The range is said of both (PostgreSQL infers none), in this order (SQLite would sort).
-- Without those that were retracted: here (own), or by this session or one that it was forked from, before it was (heir).
WITH RECURSIVE line (id, parent, tenant, fork_seq, upto) AS ( --? heir
  SELECT id, parent, tenant, fork_seq, CAST(:whole AS BIGINT) FROM streams WHERE id = :heir --? heir
  UNION ALL --? heir
  SELECT s.id, s.parent, s.tenant, s.fork_seq, line.fork_seq FROM line JOIN streams s ON s.id = line.parent --? heir
  WHERE s.fork_seq < line.fork_seq AND s.tenant = line.tenant) --? heir
SELECT t.seq, t.role, t.key, t.call, e.at, named(e), e.body
FROM turns t CROSS JOIN events e
WHERE t.stream = :stream AND t.seq > :first AND t.seq <= :last
  AND e.stream = t.stream AND e.seq = t.seq AND e.seq > :first AND e.seq <= :last
  AND t.retracted_seq IS NULL --? own
  AND NOT EXISTS (SELECT 1 FROM line h CROSS JOIN turns m WHERE m.stream = h.id AND m.seq = t.seq AND m.retracted_seq <= h.upto) --? heir
  AND about_here(t) --? about
ORDER BY t.seq DESC LIMIT :limit

-- turns_on: the oldest turns of a range, in order; of `rules`, which are few, by their own index.
WITH RECURSIVE line (id, parent, tenant, fork_seq, upto) AS ( --? heir
  SELECT id, parent, tenant, fork_seq, CAST(:whole AS BIGINT) FROM streams WHERE id = :heir --? heir
  UNION ALL --? heir
  SELECT s.id, s.parent, s.tenant, s.fork_seq, line.fork_seq FROM line JOIN streams s ON s.id = line.parent --? heir
  WHERE s.fork_seq < line.fork_seq AND s.tenant = line.tenant) --? heir
SELECT t.seq, t.role, t.key, t.call, e.at, named(e), e.body
FROM turns t CROSS JOIN events e
WHERE t.stream = :stream AND t.seq > :first AND t.seq <= :last
  AND e.stream = t.stream AND e.seq = t.seq AND e.seq > :first AND e.seq <= :last
  AND t.retracted_seq IS NULL --? own
  AND NOT EXISTS (SELECT 1 FROM line h CROSS JOIN turns m WHERE m.stream = h.id AND m.seq = t.seq AND m.retracted_seq <= h.upto) --? heir
  AND about_here(t) --? about
  AND t.seq IN ( --? rules
    SELECT r.seq FROM turns r --? rules
    WHERE r.stream = :stream AND r.role = 'system' AND r.seq > :first AND r.seq <= :last) --? rules
ORDER BY t.seq LIMIT :limit

-- turn_by_key: the turn that was said under a client key, here or (forked) in what this was forked from. (`+ 0`, `>= 0`: by the key.)
WITH RECURSIVE line (id, parent, tenant, fork_seq, upto) AS ( --? forked
  SELECT id, parent, tenant, fork_seq, CAST(:last AS BIGINT) FROM streams WHERE id = :stream --? forked
  UNION ALL --? forked
  SELECT s.id, s.parent, s.tenant, s.fork_seq, line.fork_seq FROM line JOIN streams s ON s.id = line.parent --? forked
  WHERE s.fork_seq < line.fork_seq AND s.tenant = line.tenant) --? forked
SELECT t.seq, t.role, t.key, t.call, e.at, named(e), e.body FROM
  line CROSS JOIN --? forked
  turns t JOIN events e ON e.stream = t.stream AND e.seq = t.seq
WHERE t.key = :key
  AND t.stream = :alone --? alone
  AND t.stream = line.id AND t.seq + 0 <= line.upto AND COALESCE(t.retracted_seq, 0) >= 0 --? forked
  AND COALESCE(t.retracted_seq, 0) = 0 --? alone
  AND NOT EXISTS (SELECT 1 FROM line h CROSS JOIN turns m WHERE m.stream = h.id AND m.seq = t.seq AND m.retracted_seq <= h.upto) --? forked

-- turn_by_call: the result of a call that was made in a turn, here or (forked) in what this was forked from. (`+ 0`: by the call.)
WITH RECURSIVE line (id, parent, tenant, fork_seq, upto) AS ( --? forked
  SELECT id, parent, tenant, fork_seq, CAST(:last AS BIGINT) FROM streams WHERE id = :stream --? forked
  UNION ALL --? forked
  SELECT s.id, s.parent, s.tenant, s.fork_seq, line.fork_seq FROM line JOIN streams s ON s.id = line.parent --? forked
  WHERE s.fork_seq < line.fork_seq AND s.tenant = line.tenant) --? forked
SELECT t.seq, t.role, t.key, t.call, e.at, named(e), e.body FROM
  line CROSS JOIN --? forked
  turns t JOIN events e ON e.stream = t.stream AND e.seq = t.seq
WHERE t.call = :call AND t.seq + 0 > :maker
  AND t.stream = :alone --? alone
  AND t.stream = line.id AND t.seq <= line.upto --? forked
  AND t.retracted_seq IS NULL --? alone
  AND NOT EXISTS (SELECT 1 FROM line h CROSS JOIN turns m WHERE m.stream = h.id AND m.seq = t.seq AND m.retracted_seq <= h.upto) --? forked

-- call_makers: the newest turns that made a call, newest first, here or (forked) in what this was forked from.
WITH RECURSIVE line (id, parent, tenant, fork_seq, upto) AS ( --? forked
  SELECT id, parent, tenant, fork_seq, CAST(:last AS BIGINT) FROM streams WHERE id = :stream --? forked
  UNION ALL --? forked
  SELECT s.id, s.parent, s.tenant, s.fork_seq, line.fork_seq FROM line JOIN streams s ON s.id = line.parent --? forked
  WHERE s.fork_seq < line.fork_seq AND s.tenant = line.tenant) --? forked
SELECT t.seq, c.about FROM
  line CROSS JOIN --? forked
  calls c JOIN turns t ON t.stream = c.stream AND t.seq = c.seq
WHERE c.call = :call
  AND c.stream = :alone --? alone
  AND c.stream = line.id AND c.seq <= line.upto --? forked
  AND t.retracted_seq IS NULL --? alone
  AND NOT EXISTS (SELECT 1 FROM line h CROSS JOIN turns m WHERE m.stream = h.id AND m.seq = t.seq AND m.retracted_seq <= h.upto) --? forked
ORDER BY c.seq DESC LIMIT 2

-- calls_answered: which calls have a result in a range.
WITH RECURSIVE line (id, parent, tenant, fork_seq, upto) AS ( --? heir
  SELECT id, parent, tenant, fork_seq, CAST(:whole AS BIGINT) FROM streams WHERE id = :heir --? heir
  UNION ALL --? heir
  SELECT s.id, s.parent, s.tenant, s.fork_seq, line.fork_seq FROM line JOIN streams s ON s.id = line.parent --? heir
  WHERE s.fork_seq < line.fork_seq AND s.tenant = line.tenant) --? heir
SELECT t.call FROM turns t WHERE t.stream = :stream AND t.role = 'tool' AND t.seq > :first AND t.seq <= :last
  AND t.retracted_seq IS NULL --? own
  AND NOT EXISTS (SELECT 1 FROM line h CROSS JOIN turns m WHERE m.stream = h.id AND m.seq = t.seq AND m.retracted_seq <= h.upto) --? heir

-- answer_across: a result after a cut whose call was made before it.
SELECT t.seq, c.seq FROM turns t JOIN calls c ON c.stream = t.stream AND c.call = t.call
WHERE t.stream = :stream AND t.role = 'tool' AND t.seq > :cut AND c.seq <= :cut AND t.retracted_seq IS NULL
  AND NOT EXISTS (SELECT 1 FROM calls d WHERE d.stream = t.stream AND d.call = t.call AND d.seq > c.seq AND d.seq < t.seq)
ORDER BY t.seq LIMIT 1

-- cover_before: the outermost cover of all that end before a sequence number and are the last to do so. (`+ 0`: by range.)
SELECT c.seq, c.first_seq, c.last_seq, e.at, named(e), e.body
FROM covers c CROSS JOIN events e
WHERE e.stream = c.stream AND e.seq = c.seq AND c.stream = :stream AND c.seq + 0 <= :last AND c.last_seq < :before
ORDER BY c.last_seq DESC, c.first_seq, c.seq DESC LIMIT 1

-- cover_crossing: a cover that a new one over this range would cut, or lie inside of.
SELECT seq, first_seq, last_seq FROM covers
WHERE stream = :stream AND seq + 0 <= :last AND (
  (last_seq > :upto AND first_seq <= :upto) OR (last_seq >= :start AND last_seq <= :upto AND first_seq < :start))
LIMIT 1

-- covers_page: all covers of a range, the swallowed ones too, in the order in which they were made.
SELECT c.seq, c.first_seq, c.last_seq, e.at, named(e), e.body
FROM covers c CROSS JOIN events e
WHERE c.stream = :stream AND c.seq > :first AND c.seq <= :last
  AND e.stream = c.stream AND e.seq = c.seq AND e.seq > :first AND e.seq <= :last
  AND about_here(c) --? about
ORDER BY c.seq LIMIT :limit

-- turns_emptied: turns of a range that were pruned, now or later: how many, the first and the last. Nobody misses a retracted one.
SELECT count(*), min(e.seq), max(e.seq) FROM events e
WHERE e.stream = :stream AND e.seq > :first AND e.seq <= :last AND e.body IS NULL AND e.tbl = 'turns' AND NOT EXISTS (
  SELECT 1 FROM streams s CROSS JOIN refs r CROSS JOIN events x
  WHERE s.id = e.stream AND r.target = s.uid AND r.target_seq = e.seq AND r.stream = e.stream
    AND x.stream = r.stream AND x.seq = r.seq AND x.kind = 'turn.retracted')

-- pins_by_name: the pins of a session and their digest, by its name; nothing if it has none.
SELECT e.body, x.pin FROM streams s JOIN sessions x ON x.stream = s.id JOIN events e ON e.stream = x.stream AND e.seq = x.pin_seq
WHERE s.tenant = :tenant AND s.kind = 'session' AND s.name = :name
