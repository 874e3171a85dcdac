-- Finding texts by their words. Lists come in as JSON.

-- terms_counted: in how many texts of these shelves each of these words stands.
SELECT t.term, CAST(sum(t.df) AS BIGINT) FROM terms t
WHERE t.tenant = :tenant AND t.shelf IN (SELECT value FROM json_each(:shelves)) AND t.term IN (SELECT value FROM json_each(:words))
GROUP BY t.term

-- terms_counted @postgres: lists come in by another function, as arrays: joined, they would make it read the whole table.
SELECT t.term, CAST(sum(t.df) AS BIGINT) FROM terms t
WHERE t.tenant = :tenant AND t.shelf = ANY (ARRAY(SELECT value FROM json_array_elements_text(CAST(:shelves AS json))))
  AND t.term = ANY (ARRAY(SELECT value FROM json_array_elements_text(CAST(:words AS json))))
GROUP BY t.term

-- shelves_counted: the shelves of a tenant: how many texts, words and short texts each has.
SELECT shelf, texts, words, shorts FROM shelves WHERE tenant = :tenant

-- texts_best: the texts with the best scores for some weighted words, by BM25 with k1 = 1.2 and b = 0.75.
SELECT p.in_stream, p.seq, p.part, p.shelf,
  sum(q.weight * p.tf * 2.2 / (p.tf + 0.3 + 0.9 * p.len / :average)) AS score
FROM (SELECT value ->> 0 AS term, value ->> 1 AS weight FROM json_each(:weights)) q
CROSS JOIN (SELECT value AS shelf FROM json_each(:shelves)) f
CROSS JOIN (SELECT value AS id FROM json_each(:streams)) s --? streams
CROSS JOIN postings p
CROSS JOIN texts x --? filtered
WHERE p.tenant = :tenant AND p.shelf = f.shelf AND p.term = q.term
  AND p.in_stream = s.id --? streams
  AND x.in_stream = p.in_stream AND x.seq = p.seq AND x.part = p.part AND x.shelf = p.shelf AND x.tenant = p.tenant --? filtered
  AND x.at >= :since --? filtered since
  AND x.at < :until --? filtered until
  AND x.actor IN (SELECT :actor UNION ALL SELECT w.actor FROM actors w WHERE w.tenant = :tenant AND w.name = :actor) --? filtered actor
  AND EXISTS (SELECT 1 FROM tags g WHERE g.stream = x.in_stream AND g.thing IN ('memory', 'decision', 'task') AND g.tag = :tag AND g.id = x.of_seq) --? filtered tag
  AND about_text(x) --? filtered about
  AND (x.shelf NOT IN (SELECT value FROM json_each(:results)) OR (SELECT e.kind FROM events e WHERE e.stream = x.in_stream AND e.seq = x.seq) IN ('call.answered', 'effect.committed', 'effect.failed')) --? filtered results
GROUP BY p.in_stream, p.seq, p.part, p.shelf ORDER BY score DESC, p.seq DESC, p.in_stream, p.part LIMIT :limit

-- texts_best @postgres: the same as above, and weights need to be told that they are numbers.
SELECT p.in_stream, p.seq, p.part, p.shelf,
  sum(q.weight * p.tf * 2.2 / (p.tf + CAST(0.3 AS float8) + CAST(0.9 AS float8) * p.len / CAST(:average AS float8))) AS score
FROM postings p
JOIN (SELECT value ->> 0 AS term, CAST(value ->> 1 AS float8) AS weight FROM json_array_elements(CAST(:weights AS json))) q ON q.term = p.term
JOIN texts x ON x.in_stream = p.in_stream AND x.seq = p.seq AND x.part = p.part AND x.shelf = p.shelf AND x.tenant = p.tenant --? filtered
  AND x.at >= :since --? filtered since
  AND x.at < :until --? filtered until
  AND x.actor IN (SELECT :actor UNION ALL SELECT w.actor FROM actors w WHERE w.tenant = :tenant AND w.name = :actor) --? filtered actor
  AND EXISTS (SELECT 1 FROM tags g WHERE g.stream = x.in_stream AND g.thing IN ('memory', 'decision', 'task') AND g.tag = :tag AND g.id = x.of_seq) --? filtered tag
  AND about_text(x) --? filtered about
  AND (x.shelf <> ALL (ARRAY(SELECT value FROM json_array_elements_text(CAST(:results AS json)))) OR (SELECT e.kind FROM events e WHERE e.stream = x.in_stream AND e.seq = x.seq) IN ('call.answered', 'effect.committed', 'effect.failed')) --? filtered results
WHERE p.tenant = :tenant AND p.shelf = ANY (ARRAY(SELECT value FROM json_array_elements_text(CAST(:shelves AS json))))
  AND p.term = ANY (ARRAY(SELECT value ->> 0 FROM json_array_elements(CAST(:weights AS json))))
  AND p.in_stream = ANY (ARRAY(SELECT CAST(value AS BIGINT) FROM json_array_elements_text(CAST(:streams AS json)))) --? streams
GROUP BY p.in_stream, p.seq, p.part, p.shelf ORDER BY score DESC, p.seq DESC, p.in_stream, p.part LIMIT :limit

-- texts_fitting: those of some texts (a list of stream, event, part and shelf) that fit the filters which are given.
-- (:results are shelves of which only the answers of calls and the outcomes of effects fit.)
SELECT x.in_stream, x.seq, x.part, x.shelf
FROM (SELECT value ->> 0 AS stream, value ->> 1 AS seq, value ->> 2 AS part, value ->> 3 AS shelf FROM json_each(:places)) w
CROSS JOIN texts x WHERE x.in_stream = w.stream AND x.seq = w.seq AND x.part = w.part AND x.shelf = w.shelf AND x.tenant = :tenant
  AND EXISTS (SELECT 1 FROM tags g WHERE g.stream = x.in_stream AND g.thing IN ('memory', 'decision', 'task') AND g.tag = :tag AND g.id = x.of_seq) --? tag
  AND about_text(x) --? about
  AND (x.shelf NOT IN (SELECT value FROM json_each(:results)) OR (SELECT e.kind FROM events e WHERE e.stream = x.in_stream AND e.seq = x.seq) IN ('call.answered', 'effect.committed', 'effect.failed')) --? results

-- texts_fitting @postgres: lists come in by another function; OFFSET 0 makes it look each one up.
SELECT x.in_stream, x.seq, x.part, x.shelf
FROM (SELECT CAST(value ->> 0 AS BIGINT) AS stream, CAST(value ->> 1 AS BIGINT) AS seq, CAST(value ->> 2 AS BIGINT) AS part,
  value ->> 3 AS shelf FROM json_array_elements(CAST(:places AS json))) w
CROSS JOIN LATERAL (SELECT * FROM texts t WHERE t.in_stream = w.stream AND t.seq = w.seq AND t.part = w.part
  AND t.shelf = w.shelf AND t.tenant = :tenant OFFSET 0) x WHERE x.tenant = :tenant
  AND EXISTS (SELECT 1 FROM tags g WHERE g.stream = x.in_stream AND g.thing IN ('memory', 'decision', 'task') AND g.tag = :tag AND g.id = x.of_seq) --? tag
  AND about_text(x) --? about
  AND (x.shelf <> ALL (ARRAY(SELECT value FROM json_array_elements_text(CAST(:results AS json)))) OR (SELECT e.kind FROM events e WHERE e.stream = x.in_stream AND e.seq = x.seq) IN ('call.answered', 'effect.committed', 'effect.failed')) --? results

-- postings_newest: where a word stands in one stream, the newest first.
SELECT seq, part, tf, len FROM postings
WHERE tenant = :tenant AND shelf = :shelf AND term = :term AND in_stream = :stream AND seq <= :last
ORDER BY seq DESC, part DESC LIMIT :limit

-- texts_near: the texts of some stretches of streams (a list of stream, first and last event).
SELECT x.in_stream, x.seq, x.part, x.shelf, x.of_seq, named(x), x.at, x.user_said, x.is_short, x.len, x.terms
FROM (SELECT value ->> 0 AS stream, value ->> 1 AS first, value ->> 2 AS last FROM json_each(:stretches)) w
CROSS JOIN texts x WHERE x.in_stream = w.stream AND x.seq BETWEEN w.first AND w.last AND x.tenant = :tenant

-- texts_near @postgres: lists come in by another function; OFFSET 0 makes it look each stretch up instead of reading the whole table.
SELECT x.in_stream, x.seq, x.part, x.shelf, x.of_seq, named(x), x.at, x.user_said, x.is_short, x.len, x.terms
FROM (SELECT CAST(value ->> 0 AS BIGINT) AS stream, CAST(value ->> 1 AS BIGINT) AS first, CAST(value ->> 2 AS BIGINT) AS last
  FROM json_array_elements(CAST(:stretches AS json))) w
CROSS JOIN LATERAL (
  SELECT * FROM texts t WHERE t.in_stream = w.stream AND t.seq BETWEEN w.first AND w.last AND t.tenant = :tenant OFFSET 0) x

-- runs_of_session: the streams of the runs of a session.
SELECT stream FROM runs WHERE tenant = :tenant AND session = :session
