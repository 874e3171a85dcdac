-- The queries of `upkeep/health.py`: counts, and whether the heads agree with the events.

-- counts: how much there is. Counting looks at every row.
SELECT (SELECT count(*) FROM tenants), (SELECT count(*) FROM streams), (SELECT count(*) FROM events),
  (SELECT count(*) FROM blobs), (SELECT coalesce(sum(size), 0) FROM blobs)

-- heads_astray: streams whose head is not their last event.
SELECT streams.uid, streams.kind, streams.name, streams.seq FROM streams
LEFT JOIN events ON events.stream = streams.id AND events.seq = streams.seq
WHERE (streams.seq > streams.fork_seq AND (events.hash IS NULL OR events.hash <> streams.hash))
  OR EXISTS (SELECT 1 FROM events beyond WHERE beyond.stream = streams.id AND beyond.seq > streams.seq)
ORDER BY streams.id LIMIT :limit

-- guards: the triggers that keep events from being changed.
SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'events' ORDER BY name

-- guards @postgres: the catalogue of triggers is another one.
SELECT trigger.tgname FROM pg_trigger AS trigger JOIN pg_class AS events ON events.oid = trigger.tgrelid
JOIN pg_namespace AS place ON place.oid = events.relnamespace
WHERE events.relname = 'events' AND place.nspname = current_schema()
  AND NOT trigger.tgisinternal AND trigger.tgenabled <> 'D' ORDER BY trigger.tgname

-- server: the version of this PostgreSQL, and how careful it is set to be.
SELECT current_setting('server_version_num'), current_setting('server_version'), current_setting('is_superuser'),
  current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
  current_setting('data_checksums'), CASE WHEN pg_is_in_recovery() THEN 1 ELSE 0 END,
  pg_database_size(current_database()), current_setting('max_connections')

-- server @sqlite: there is no server.
SELECT 'none'

-- schema: the schema that is looked at; SQLite has one.
SELECT 'main'

-- schema @postgres: the one of the search path.
SELECT current_schema()
