-- The vectors of texts, and which texts have none yet. Lists come in as JSON.

-- embedding_get: an embedding: its number, up to which batch of the index it is done, and how often its vectors changed.
SELECT embedding, done, batches, gone FROM embeddings WHERE tenant = :tenant AND name = :name AND sha256 = :sha256 AND dims = :dims

-- actors_named: under which names texts of an actor are kept, besides its own.
SELECT actor FROM actors WHERE tenant = :tenant AND name = :name

-- indexing_batches: how many batches of texts the index of a tenant has.
SELECT added FROM indexing WHERE tenant = :tenant

-- embeddings_all: every embedding of a tenant.
SELECT name, sha256, dims, embedding, done FROM embeddings WHERE tenant = :tenant

-- texts_without: the texts after a batch of the index that have no vector yet, oldest first.
-- (IS NULL, `+ 0`: by the key of the text; without statistics PostgreSQL would read all vectors for each of them.)
SELECT x.in_stream, x.seq, x.part, x.shelf, x.actor, x.at, x.added FROM texts x
WHERE x.tenant = :tenant AND x.added > :done
  AND (SELECT 1 FROM vectors v WHERE v.in_stream = x.in_stream AND v.seq = x.seq AND v.part = x.part
    AND v.shelf = x.shelf AND v.embedding + 0 = :embedding AND v.tenant + 0 = :tenant) IS NULL
ORDER BY x.added LIMIT :limit

-- events_of_texts: these events (a list of stream and number).
SELECT e.seq, e.kind, e.tbl, e.actor, e.at, e.codec, e.commitment, e.hash, e.salt, e.body, e.tx, e.pos, e.stream
FROM (SELECT DISTINCT value ->> 0 AS stream, value ->> 1 AS seq FROM json_each(:places)) w
CROSS JOIN events e WHERE e.stream = w.stream AND e.seq = w.seq

-- events_of_texts @postgres: lists come in by another function; OFFSET 0 makes it look each one up.
SELECT e.seq, e.kind, e.tbl, e.actor, e.at, e.codec, e.commitment, e.hash, e.salt, e.body, e.tx, e.pos, e.stream
FROM (SELECT DISTINCT CAST(value ->> 0 AS BIGINT) AS stream, CAST(value ->> 1 AS BIGINT) AS seq
  FROM json_array_elements(CAST(:places AS json))) w
CROSS JOIN LATERAL (SELECT * FROM events t WHERE t.stream = w.stream AND t.seq = w.seq OFFSET 0) e

-- texts_missing: how many texts after a batch of the index have no vector yet; by the key, as above.
SELECT count(*) FROM texts x
WHERE x.tenant = :tenant AND x.added > :done
  AND (SELECT 1 FROM vectors v WHERE v.in_stream = x.in_stream AND v.seq = x.seq AND v.part = x.part
    AND v.shelf = x.shelf AND v.embedding + 0 = :embedding AND v.tenant + 0 = :tenant) IS NULL

-- texts_there: which of these texts there are (a list of stream, event, part and shelf).
SELECT x.in_stream, x.seq, x.part, x.shelf
FROM (SELECT value ->> 0 AS stream, value ->> 1 AS seq, value ->> 2 AS part, value ->> 3 AS shelf FROM json_each(:places)) w
CROSS JOIN texts x WHERE x.in_stream = w.stream AND x.seq = w.seq AND x.part = w.part AND x.shelf = w.shelf AND x.tenant = :tenant

-- texts_there @postgres: lists come in by another function.
SELECT x.in_stream, x.seq, x.part, x.shelf
FROM (SELECT CAST(value ->> 0 AS BIGINT) AS stream, CAST(value ->> 1 AS BIGINT) AS seq, CAST(value ->> 2 AS BIGINT) AS part,
  value ->> 3 AS shelf FROM json_array_elements(CAST(:places AS json))) w
JOIN texts x ON x.in_stream = w.stream AND x.seq = w.seq AND x.part = w.part AND x.shelf = w.shelf AND x.tenant = :tenant

-- vectors_at: the vectors of these texts (a list of stream, event, part and shelf).
SELECT v.in_stream, v.seq, v.part, v.shelf, v.vector
FROM (SELECT value ->> 0 AS stream, value ->> 1 AS seq, value ->> 2 AS part, value ->> 3 AS shelf FROM json_each(:places)) w
CROSS JOIN vectors v WHERE v.in_stream = w.stream AND v.seq = w.seq AND v.part = w.part AND v.shelf = w.shelf
  AND v.embedding = :embedding AND v.tenant = :tenant

-- vectors_at @postgres: lists come in by another function; OFFSET 0 makes it look each one up.
SELECT v.in_stream, v.seq, v.part, v.shelf, v.vector
FROM (SELECT CAST(value ->> 0 AS BIGINT) AS stream, CAST(value ->> 1 AS BIGINT) AS seq, CAST(value ->> 2 AS BIGINT) AS part,
  value ->> 3 AS shelf FROM json_array_elements(CAST(:places AS json))) w
CROSS JOIN LATERAL (SELECT * FROM vectors t WHERE t.in_stream = w.stream AND t.seq = w.seq AND t.part = w.part
  AND t.shelf = w.shelf AND t.embedding = :embedding AND t.tenant = :tenant OFFSET 0) v

-- vectors_since: the bits of an embedding that were added after a batch.
SELECT v.in_stream, v.seq, v.part, v.shelf, v.at, v.actor, v.bits FROM vectors v
WHERE v.tenant = :tenant AND v.embedding = :embedding AND v.batch > :batch ORDER BY v.batch

-- vectors_some: some vectors of an embedding, to be taken away.
SELECT in_stream, seq, part, shelf, embedding FROM vectors WHERE tenant = :tenant AND embedding = :embedding LIMIT :limit

-- texts_tagged: the texts of the memories with a tag or about a subject.
SELECT x.in_stream, x.seq, x.part, x.shelf FROM tags g CROSS JOIN texts x INDEXED BY texts_of_memories
WHERE g.tenant = :tenant AND g.thing = :thing AND g.tag = :tag
  AND x.in_stream = g.stream AND x.of_seq = g.id AND x.tenant = g.tenant AND x.shelf >= 'memory.' AND x.shelf < 'past/'
  AND x.in_stream IN (SELECT value FROM json_each(:streams)) --? streams
  AND x.at >= :since --? since
  AND x.at < :until --? until
LIMIT :limit

-- texts_tagged @postgres: it finds the index by itself, and lists come in by another function.
SELECT x.in_stream, x.seq, x.part, x.shelf FROM tags g JOIN texts x ON x.in_stream = g.stream AND x.of_seq = g.id AND x.tenant = g.tenant
WHERE g.tenant = :tenant AND g.thing = :thing AND g.tag = :tag AND x.shelf >= 'memory.' AND x.shelf < 'past/'
  AND x.in_stream = ANY (ARRAY(SELECT CAST(value AS BIGINT) FROM json_array_elements_text(CAST(:streams AS json)))) --? streams
  AND x.at >= :since --? since
  AND x.at < :until --? until
LIMIT :limit

-- texts_labelled: the first texts of the decisions and tasks with a tag.
SELECT x.in_stream, x.seq, x.part, x.shelf FROM tags g CROSS JOIN texts x
WHERE g.tenant = :tenant AND g.thing IN ('decision', 'task') AND g.tag = :tag AND x.in_stream = g.stream AND x.seq = g.id AND +x.tenant = :tenant
  AND x.in_stream IN (SELECT value FROM json_each(:streams)) --? streams
  AND x.at >= :since --? since
  AND x.at < :until --? until
LIMIT :limit

-- texts_labelled @postgres: lists come in by another function.
SELECT x.in_stream, x.seq, x.part, x.shelf FROM tags g CROSS JOIN texts x
WHERE g.tenant = :tenant AND g.thing IN ('decision', 'task') AND g.tag = :tag AND x.in_stream = g.stream AND x.seq = g.id AND x.tenant = g.tenant
  AND x.in_stream = ANY (ARRAY(SELECT CAST(value AS BIGINT) FROM json_array_elements_text(CAST(:streams AS json)))) --? streams
  AND x.at >= :since --? since
  AND x.at < :until --? until
LIMIT :limit

-- texts_about: the texts of the events that are about a subject.
SELECT x.in_stream, x.seq, x.part, x.shelf FROM subjects s CROSS JOIN texts x
WHERE s.tenant = :tenant AND s.subject = :about AND x.in_stream = s.stream AND x.seq = s.seq AND +x.tenant = :tenant
  AND x.in_stream IN (SELECT value FROM json_each(:streams)) --? streams
  AND x.at >= :since --? since
  AND x.at < :until --? until
LIMIT :limit

-- texts_about @postgres: lists come in by another function.
SELECT x.in_stream, x.seq, x.part, x.shelf FROM subjects s CROSS JOIN texts x
WHERE s.tenant = :tenant AND s.subject = :about AND x.in_stream = s.stream AND x.seq = s.seq AND x.tenant = s.tenant
  AND x.in_stream = ANY (ARRAY(SELECT CAST(value AS BIGINT) FROM json_array_elements_text(CAST(:streams AS json)))) --? streams
  AND x.at >= :since --? since
  AND x.at < :until --? until
LIMIT :limit

-- texts_about_whole: the texts of streams that are about a subject as a whole, the newest first.
SELECT x.in_stream, x.seq, x.part, x.shelf FROM texts x
WHERE x.tenant = :tenant AND about_whole(x.in_stream)
  AND x.in_stream IN (SELECT value FROM json_each(:streams)) --? streams
  AND x.at >= :since --? since
  AND x.at < :until --? until
ORDER BY x.in_stream, x.seq DESC LIMIT :limit

-- texts_about_whole @postgres: lists come in by another function; LATERAL makes it look each stream up instead of reading the whole table.
SELECT x.in_stream, x.seq, x.part, x.shelf FROM (
  SELECT DISTINCT who.stream FROM subjects who WHERE who.tenant = :tenant AND who.subject = :about AND who.whole = 1
    AND who.stream = ANY (ARRAY(SELECT CAST(value AS BIGINT) FROM json_array_elements_text(CAST(:streams AS json)))) --? streams
) w CROSS JOIN LATERAL (SELECT t.in_stream, t.seq, t.part, t.shelf FROM texts t WHERE t.in_stream = w.stream AND t.tenant = :tenant
  AND t.at >= :since --? since
  AND t.at < :until --? until
  ORDER BY t.seq DESC LIMIT :limit) x
ORDER BY x.in_stream, x.seq DESC LIMIT :limit

-- texts_and_vectors: how many texts a tenant has, and how many vectors.
SELECT (SELECT count(*) FROM texts WHERE tenant = :tenant), (SELECT count(*) FROM vectors WHERE tenant = :tenant)
