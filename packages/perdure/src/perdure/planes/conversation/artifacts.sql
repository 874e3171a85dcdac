-- The statements of artifacts: rows of the own stream, and of its parents up to where it was forked.

-- artifacts_page: the artifacts of a segment of a lineage, newest first.
SELECT a.seq, s.name, a.name, a.media_type, a.size, a.address, a.at, a.actor, s.uid, a.stream
FROM artifacts a JOIN streams s ON s.id = a.stream
WHERE a.stream = :stream AND a.seq > :first AND a.seq <= :last
  AND about_here(a) --? about
  AND a.seq IN ( --? name
    SELECT seq FROM artifacts WHERE stream = :stream AND name = :name AND seq > :first AND seq <= :last --? name
    ORDER BY seq DESC LIMIT :limit) --? name
ORDER BY a.seq DESC LIMIT :limit

-- artifacts_across: the artifacts of a tenant, newest first.
SELECT a.seq, s.name, a.name, a.media_type, a.size, a.address, a.at, a.actor, s.uid, a.stream
FROM
  about(artifacts) b CROSS JOIN --? about
  artifacts a JOIN streams s ON s.id = a.stream
WHERE a.tenant = :tenant
  AND a.stream = b.stream AND a.seq = b.seq --? about
  AND a.media_type = :media_type --? media_type
  AND a.actor = :actor --? actor
  AND a.name = :name --? name
  AND a.at >= :since --? since
  AND a.at < :until --? until
  AND (a.at, a.stream, a.seq) < (:last_at, :last_stream, :last_seq) --? last_at
ORDER BY a.at DESC, a.stream DESC, a.seq DESC LIMIT :limit

-- artifact_by_address: the newest artifact of a tenant with this content.
SELECT a.seq, s.name, a.name, a.media_type, a.size, a.address, a.at, a.actor, s.uid, a.stream
FROM artifacts a JOIN streams s ON s.id = a.stream
WHERE a.tenant = :tenant AND a.address = :address
ORDER BY +a.at DESC, a.stream DESC, a.seq DESC LIMIT 1

-- addresses_between: the contents of a tenant whose addresses lie in a range.
SELECT DISTINCT address FROM artifacts WHERE tenant = :tenant AND address >= :low AND address < :high
ORDER BY address LIMIT :limit
