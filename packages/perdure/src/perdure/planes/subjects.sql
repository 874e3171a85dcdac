-- Subjects of events, of ranges and of streams, and the list of all of them.

-- any_at_all: whether a tenant has any subject.
SELECT 1 FROM subjects WHERE tenant = :tenant LIMIT 1

-- of_event: the subjects of one event, those of its stream included.
SELECT subject FROM subjects WHERE stream = :stream AND seq = :seq
UNION SELECT subject FROM subjects WHERE stream = :stream AND whole = 1

-- of_whole: the subjects of everything in a stream.
SELECT DISTINCT subject FROM subjects WHERE stream = :stream AND whole = 1

-- of_span: the subjects of a segment of a lineage.
SELECT DISTINCT subject FROM subjects WHERE stream = :stream AND seq > :first AND seq <= :last

-- of_range: the subjects of a range of turns, and of the summaries that lie in it.
SELECT subject FROM subjects WHERE stream = :stream AND seq <= :upto AND seq >= :first AND seq <= :last
UNION SELECT b.subject FROM covers c JOIN subjects b ON b.stream = c.stream AND b.seq = c.seq
WHERE c.stream = :stream AND c.seq <= :upto AND c.last_seq >= :first AND c.last_seq <= :last AND c.first_seq >= :first

-- is_whole: whether everything in a stream is about a subject.
SELECT 1 FROM subjects WHERE tenant = :tenant AND subject = :about AND stream = :stream AND whole = 1 LIMIT 1

-- runs_of_session: the runs of a session.
SELECT s.id, s.uid, s.tenant, s.kind, s.name, s.parent, s.fork_seq FROM runs r JOIN streams s ON s.id = r.stream
WHERE r.tenant = :tenant AND r.session = :session ORDER BY s.id

-- runs_started_by: the runs that a run started.
SELECT s.id, s.uid, s.tenant, s.kind, s.name, s.parent, s.fork_seq FROM runs r JOIN streams s ON s.id = r.stream
WHERE r.tenant = :tenant AND r.parent = :parent ORDER BY s.id

-- subjects_page: the subjects of a tenant, by name: in how many streams, of how many records, and when the first and the last was.
-- A stream that is about a subject as a whole counts with all of its records.
SELECT k.subject, count(*), CAST(sum(k.records) AS BIGINT), min(a.at), max(z.at) FROM (
  SELECT b.subject, b.stream, CASE max(b.whole) WHEN 1 THEN s.seq - s.fork_seq ELSE count(*) END AS records,
    CASE max(b.whole) WHEN 1 THEN s.fork_seq + 1 ELSE min(b.seq) END AS first_seq,
    CASE max(b.whole) WHEN 1 THEN s.seq ELSE max(b.seq) END AS last_seq
  FROM subjects b JOIN streams s ON s.id = b.stream
  WHERE b.tenant = :tenant AND b.subject IN (SELECT DISTINCT p.subject FROM subjects p WHERE p.tenant = :tenant
    AND p.subject > :after --? after
    ORDER BY p.subject LIMIT :limit)
  GROUP BY b.subject, b.stream, s.seq, s.fork_seq) AS k
JOIN events a ON a.stream = k.stream AND a.seq = k.first_seq
JOIN events z ON z.stream = k.stream AND z.seq = k.last_seq
GROUP BY k.subject ORDER BY k.subject
