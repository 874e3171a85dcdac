-- Values of many scopes at once: a scope, and those whose names continue it after a separator.

-- scopes_below: the names of a scope and of those below it, as far as they hold a value now.
SELECT s.name FROM streams s
WHERE s.tenant = :tenant AND s.kind = 'scope' AND s.name >= :first AND s.name < :beyond AND (s.name = :first OR s.name >= :below)
  AND s.name > :after --? after
  AND EXISTS (SELECT 1 FROM entries e WHERE e.stream = s.id AND e.gone = 0 AND (e.expires_at IS NULL OR e.expires_at > :now))
ORDER BY s.name LIMIT :limit
-- scopes_below @postgres: names are compared by their bytes, whatever the collation of the database
SELECT s.name FROM streams s
WHERE s.tenant = :tenant AND s.kind = 'scope' AND s.name COLLATE "C" >= :first AND s.name COLLATE "C" < :beyond
  AND (s.name = :first OR s.name COLLATE "C" >= :below)
  AND s.name COLLATE "C" > :after --? after
  AND EXISTS (SELECT 1 FROM entries e WHERE e.stream = s.id AND e.gone = 0 AND (e.expires_at IS NULL OR e.expires_at > :now))
ORDER BY s.name COLLATE "C" LIMIT :limit

-- values_below: the values of a scope and of those below it, newest first. Only those of the page are read.
WITH page AS (
  SELECT s.name AS scope, e.stream, e.name, e.updated_at, e.expires_at, e.seq FROM streams s CROSS JOIN entries e
  WHERE s.tenant = :tenant AND s.kind = 'scope' AND s.name >= :first AND s.name < :beyond AND (s.name = :first OR s.name >= :below)
    AND e.stream = s.id AND e.gone = 0 AND (e.expires_at IS NULL OR e.expires_at > :now)
    AND (e.updated_at, e.stream, e.name) < (:updated_at, :stream, :name) --? stream
  ORDER BY e.updated_at DESC, e.stream DESC, e.name DESC LIMIT :limit
)
SELECT p.scope, p.stream, p.name, p.updated_at, p.expires_at, p.seq, v.body, :now
FROM page p CROSS JOIN events v WHERE v.stream = p.stream AND v.seq = p.seq
ORDER BY p.updated_at DESC, p.stream DESC, p.name DESC
-- values_below @postgres: names are compared by their bytes, whatever the collation of the database
WITH page AS (
  SELECT s.name AS scope, e.stream, e.name, e.updated_at, e.expires_at, e.seq FROM streams s CROSS JOIN entries e
  WHERE s.tenant = :tenant AND s.kind = 'scope' AND s.name COLLATE "C" >= :first AND s.name COLLATE "C" < :beyond
    AND (s.name = :first OR s.name COLLATE "C" >= :below)
    AND e.stream = s.id AND e.gone = 0 AND (e.expires_at IS NULL OR e.expires_at > :now)
    AND (e.updated_at, e.stream, e.name) < (:updated_at, :stream, :name) --? stream
  ORDER BY e.updated_at DESC, e.stream DESC, e.name DESC LIMIT :limit
)
SELECT p.scope, p.stream, p.name, p.updated_at, p.expires_at, p.seq, v.body, :now
FROM page p CROSS JOIN events v WHERE v.stream = p.stream AND v.seq = p.seq
ORDER BY p.updated_at DESC, p.stream DESC, p.name DESC

-- values_ended: values whose time has ended and that were not taken away yet, in scopes whose names begin with a prefix.
SELECT s.name, e.name FROM streams s CROSS JOIN entries e
WHERE s.tenant = :tenant AND s.kind = 'scope' AND substr(s.name, 1, length(:prefix)) = :prefix
  AND e.stream = s.id AND e.gone = 0 AND e.expires_at <= :now
ORDER BY e.stream LIMIT :limit
