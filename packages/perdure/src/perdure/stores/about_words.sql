-- Words of other statements: whom records are about (decision 0070). `<it>` is what stands in the brackets of the word.
-- Each begins with the rows of the subject `:about`, so that a rare subject costs little in a long listing (P8).

-- about: the records of a table, of one tenant, that are about the subject or whose stream is: to begin a join with. A record is about
-- everybody whom an event of it names.
(SELECT who.stream, who.of_seq AS seq FROM subjects who WHERE who.tenant = :tenant AND who.subject = :about
  UNION SELECT x.stream, x.seq FROM (
    SELECT DISTINCT who.stream FROM subjects who WHERE who.tenant = :tenant AND who.subject = :about AND who.whole = 1) w
  JOIN <it> x ON x.stream = w.stream)

-- about @postgres: it takes every stream for one of average length, and would read the table; a list that it cannot guess counts as ten.
(SELECT who.stream, who.of_seq AS seq FROM subjects who WHERE who.tenant = :tenant AND who.subject = :about
  UNION SELECT w.stream, unnest(ARRAY(SELECT x.seq FROM <it> x WHERE x.stream = w.stream)) FROM (
    SELECT DISTINCT who.stream FROM subjects who WHERE who.tenant = :tenant AND who.subject = :about AND who.whole = 1) w)

-- about_event: the events of one tenant that are about the subject, or whose stream is: to begin a join with.
(SELECT who.stream, who.seq FROM subjects who WHERE who.tenant = :tenant AND who.subject = :about
  UNION SELECT x.stream, x.seq FROM (
    SELECT DISTINCT who.stream FROM subjects who WHERE who.tenant = :tenant AND who.subject = :about AND who.whole = 1) w
  JOIN <it> x ON x.stream = w.stream)

-- about_event @postgres: as `about`.
(SELECT who.stream, who.seq FROM subjects who WHERE who.tenant = :tenant AND who.subject = :about
  UNION SELECT w.stream, unnest(ARRAY(SELECT x.seq FROM <it> x WHERE x.stream = w.stream)) FROM (
    SELECT DISTINCT who.stream FROM subjects who WHERE who.tenant = :tenant AND who.subject = :about AND who.whole = 1) w)

-- about_state: the events of checkpoints that are about the subject: a state may hold all that was before it. To begin a join with.
(SELECT c.stream, c.seq FROM (
    SELECT who.stream, min(who.seq) AS seq FROM subjects who WHERE who.tenant = :tenant AND who.subject = :about GROUP BY who.stream) w
  JOIN events c ON c.stream = w.stream AND c.seq >= w.seq AND c.tbl = 'checkpoints')

-- about_any: the streams of a table in which anything is about the subject: to begin a join with.
(SELECT DISTINCT who.stream FROM subjects who WHERE who.tenant = :tenant AND who.subject = :about)

-- about_whole: all of a stream is about the subject.
<it> IN (SELECT who.stream FROM subjects who WHERE who.tenant = :tenant AND who.subject = :about AND who.whole = 1)

-- about_text: a text of the index: its event is about the subject, or its memory, or all of its stream.
(<it>.in_stream IN (SELECT who.stream FROM subjects who WHERE who.tenant = :tenant AND who.subject = :about AND who.whole = 1)
  OR EXISTS (SELECT 1 FROM subjects who WHERE who.tenant = :tenant AND who.subject = :about AND who.stream = <it>.in_stream AND who.seq = <it>.seq)
  OR EXISTS (SELECT 1 FROM tags who WHERE who.tenant = :tenant AND who.thing = 'memory_about' AND who.tag = :about
    AND who.stream = <it>.in_stream AND who.id = <it>.of_seq))

-- about_here: a record of the stream `:stream`, not all of which is about the subject (`subjects.wanted_here`).
<it>.seq IN (SELECT who.of_seq FROM subjects who
  WHERE who.tenant = (SELECT tenant FROM streams WHERE id = :stream) AND who.subject = :about AND who.stream = :stream)

-- about_before: anything up to a record of the stream `:stream` is about the subject.
<it>.seq >= (SELECT min(who.seq) FROM subjects who
  WHERE who.tenant = (SELECT tenant FROM streams WHERE id = :stream) AND who.subject = :about AND who.stream = :stream)

-- about_event_here: an event of the stream `:stream`, as `about_here`, or that of a checkpoint, as `about_before`.
<it>.seq IN (SELECT who.seq FROM subjects who
    WHERE who.tenant = (SELECT tenant FROM streams WHERE id = :stream) AND who.subject = :about AND who.stream = :stream
  UNION ALL SELECT c.seq FROM events c WHERE c.stream = :stream AND c.tbl = 'checkpoints' AND c.seq >= (
    SELECT min(who.seq) FROM subjects who
    WHERE who.tenant = (SELECT tenant FROM streams WHERE id = :stream) AND who.subject = :about AND who.stream = :stream))

-- copied: whether a run or an effect came by import, or what became of it, and no person took its stream over since: 1 or 0. A copy
-- is of no epoch (0); the notes of imports stand in the tenant's own stream. `planes.execution.imported` tells it exactly.
CASE WHEN <it>.epoch = 0 AND EXISTS (SELECT 1 FROM streams c JOIN refs x ON x.target = c.uid JOIN streams o ON o.id = x.stream
  WHERE c.id = <it>.stream AND o.tenant = c.tenant AND o.kind = 'tenant' AND NOT EXISTS (
    SELECT 1 FROM events u WHERE u.stream = c.id AND u.seq > x.target_seq
      AND u.kind IN ('run.unparked', 'run.taken_over', 'session.taken_over')))
  THEN 1 ELSE 0 END

-- copied_stream: whether the session of a row came by import, and no person took it over since: 1 or 0. Notes refer to its event 0 for this.
CASE WHEN EXISTS (SELECT 1 FROM streams c JOIN refs x ON x.target = c.uid AND x.target_seq = 0 JOIN streams o ON o.id = x.stream
  WHERE c.id = <it>.stream AND o.tenant = c.tenant AND o.kind = 'tenant')
  AND NOT EXISTS (SELECT 1 FROM events u WHERE u.stream = <it>.stream AND u.tbl = '' AND u.kind = 'session.taken_over')
  THEN 1 ELSE 0 END
