-- Manifests of the last boots of a session.

-- boots_newest: the newest manifests of a session.
SELECT number, manifest FROM boots WHERE stream = :stream ORDER BY number DESC LIMIT :limit
