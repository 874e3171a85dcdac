-- The statements of a tenant's own stream about streams that came from another store. No other stream is believed: not that of
-- another branch either, which a merge sets apart.

-- imported_of: the statements about one stream, oldest first.
SELECT e.body FROM refs r JOIN streams s ON s.id = r.stream JOIN events e ON e.stream = r.stream AND e.seq = r.seq
WHERE r.target = :uid AND s.kind = 'tenant' AND s.name = 'tenant' AND s.tenant = :tenant AND e.kind = 'tenant.imported' ORDER BY e.seq

-- imported_all: the statements about every stream of a tenant, oldest first.
SELECT e.body FROM events e JOIN streams s ON s.id = e.stream
WHERE e.tenant = :tenant AND s.kind = 'tenant' AND s.name = 'tenant' AND s.tenant = :tenant AND e.kind = 'tenant.imported'
ORDER BY e.stream, e.seq
