-- Values: one row for each name, with the event that holds the value.

-- entry_get: an entry that is there now.
SELECT e.name, e.version, e.updated_at, e.expires_at, e.seq, v.actor, v.body, :now
FROM entries e JOIN events v ON v.stream = e.stream AND v.seq = e.seq
WHERE e.stream = :stream AND e.name = :name AND e.gone = 0 AND (e.expires_at IS NULL OR e.expires_at > :now)

-- entries_page: the entries that are there now, by name.
SELECT e.name, e.version, e.updated_at, e.expires_at, e.seq, v.actor, v.body, :now
FROM entries e JOIN events v ON v.stream = e.stream AND v.seq = e.seq
WHERE e.stream = :stream AND e.gone = 0 AND (e.expires_at IS NULL OR e.expires_at > :now)
  AND e.name > :after --? after
  AND e.name >= :prefix --? prefix
  AND e.name < :prefix_end --? prefix_end
ORDER BY e.name LIMIT :limit

-- entries_page @postgres: names are ordered by their bytes, as SQLite does, whatever language the database speaks
SELECT e.name, e.version, e.updated_at, e.expires_at, e.seq, v.actor, v.body, :now
FROM entries e JOIN events v ON v.stream = e.stream AND v.seq = e.seq
WHERE e.stream = :stream AND e.gone = 0 AND (e.expires_at IS NULL OR e.expires_at > :now)
  AND e.name COLLATE "C" > :after --? after
  AND e.name COLLATE "C" >= :prefix --? prefix
  AND e.name COLLATE "C" < :prefix_end --? prefix_end
ORDER BY e.name COLLATE "C" LIMIT :limit
