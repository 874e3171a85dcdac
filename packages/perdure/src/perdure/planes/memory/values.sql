-- Values: one row for each name, with the event that holds the value.

-- entry_get: an entry that is there now.
SELECT e.name, e.version, e.updated_at, e.expires_at, e.seq, named(v), v.body, :now
FROM entries e JOIN events v ON v.stream = e.stream AND v.seq = e.seq
WHERE e.stream = :stream AND e.name = :name AND e.gone = 0 AND (e.expires_at IS NULL OR e.expires_at > :now)

-- entries_emptied: the first change of a stream's values that was pruned, now or later.
SELECT min(seq) FROM events WHERE stream = :stream AND body IS NULL AND tbl = 'entries'

-- prunings_of_values: events that say that events of a stream were pruned, after a sequence number.
SELECT e.seq, e.body FROM streams s JOIN events e ON e.stream = s.id
WHERE s.uid = :uid AND e.seq > :after AND e.kind = 'log.pruned' AND e.tbl = '' ORDER BY e.seq

-- entries_page: the entries that are there now, by name.
SELECT e.name, e.version, e.updated_at, e.expires_at, e.seq, named(v), v.body, :now
FROM entries e JOIN events v ON v.stream = e.stream AND v.seq = e.seq
WHERE e.stream = :stream AND e.gone = 0 AND (e.expires_at IS NULL OR e.expires_at > :now)
  AND about_here(e) AND e.about IS NOT NULL --? about
  AND e.name > :after --? after
  AND e.name >= :prefix --? prefix
  AND e.name < :prefix_end --? prefix_end
ORDER BY e.name LIMIT :limit
