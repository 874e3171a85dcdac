-- The statements of migrations, backups and restores, besides the migrations themselves.

-- relations: every table and view that is there, ours or not.
SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'

-- relations @postgres: the catalogue is another one, and only our schema counts.
SELECT relname::text FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'm', 'f')
  AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())

-- meta_facts: the store's facts about itself.
SELECT name, value FROM meta

-- meta_put: set one of these facts.
INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value RETURNING name

-- migration_lock: PostgreSQL only; one process at a time migrates a schema (on SQLite the file is locked).
SELECT pg_advisory_xact_lock(hashtext('perdure.migrate'), hashtext(:schema))

-- unhurried: PostgreSQL only; what follows in this transaction may take as long as it takes.
SELECT set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true)

-- schema_name: PostgreSQL only; tell the next statement which schema is meant: a name cannot be a parameter there.
SELECT set_config('perdure.schema', :schema, true)

-- schema_current: PostgreSQL only; where a table is made that names no schema.
SELECT current_schema()::text

-- schema_hidden: PostgreSQL only; whether there is such a schema, which this role may not use.
SELECT current_schema() IS NULL AND EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = :schema)

-- schema_make: PostgreSQL only; make our schema unless somebody made it for us, which needs no right to make one.
DO $$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = current_setting('perdure.schema')) THEN
    EXECUTE format('CREATE SCHEMA %I', current_setting('perdure.schema'));
  END IF;
END $$

-- copy_into: SQLite only; a consistent copy while others write, without what was deleted.
VACUUM INTO :target

-- database_size: SQLite only; what a copy will take at most.
SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()

-- schema_objects: SQLite only; everything that the schema declares.
SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'

-- page_faults: SQLite only; what the database itself finds wrong with its file.
SELECT integrity_check FROM pragma_integrity_check() LIMIT 1

-- key_faults: SQLite only; references that lead nowhere.
SELECT count(*) FROM pragma_foreign_key_check()

-- table_names: every table that is copied, those that others refer to first; the index of what was said is made anew.
SELECT name FROM tables WHERE name NOT IN ('meta', 'tables', 'pruning', 'texts', 'postings', 'terms', 'shelves', 'indexing', 'embeddings', 'vectors')
ORDER BY CASE name WHEN 'tenants' THEN 0 WHEN 'streams' THEN 1 ELSE 2 END, name

-- table_columns: PostgreSQL only; the columns of a table that mean something elsewhere too.
SELECT column_name::text FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name = :name AND data_type <> 'xid8' ORDER BY ordinal_position

-- blobs_outside: the blobs that lie in the artifact place.
SELECT tenant, address, size, codec FROM blobs WHERE data IS NULL ORDER BY tenant, address

-- rows_total: how many rows a backup will hold, about.
SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM blobs)

-- numbers_forward: PostgreSQL only; nothing that is made from now on takes a number that was restored.
SELECT setval('stream_ids', greatest((SELECT max(id) FROM streams), (SELECT max(id) FROM tenants), 1)),
  setval(pg_get_serial_sequence('events', 'pos'), coalesce((SELECT max(pos) FROM events), 1)),
  setval(pg_get_serial_sequence('blobs', 'id'), coalesce((SELECT max(id) FROM blobs), 1))
