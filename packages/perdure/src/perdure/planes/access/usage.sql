-- The bytes that a tenant has stored: counted from where the last count ended, so many rows at a time.

-- usage_ends: the last event and the last blob of a tenant after those that were counted. (`+`: by position.)
SELECT (SELECT max(pos) FROM events WHERE pos > :pos AND +tenant = :tenant),
  (SELECT max(id) FROM blobs WHERE id > :blob AND +tenant = :tenant)

-- usage_between: the bytes of a tenant's bodies and blobs between two places.
SELECT (SELECT coalesce(sum(length(body)), 0) FROM events WHERE pos > :pos AND pos <= :end_pos AND +tenant = :tenant),
  (SELECT coalesce(sum(size), 0) FROM blobs WHERE id > :blob AND id <= :end_blob AND +tenant = :tenant)
