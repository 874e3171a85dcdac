-- Statements for a connection of the user's own, inside its transaction. PostgreSQL only.

-- settings_put: for this transaction, giving those before and its mark; a rollback, also one to a savepoint, takes it back.
WITH before AS MATERIALIZED (SELECT current_setting('search_path') AS path, current_setting('lock_timeout') AS timeout)
SELECT path, timeout, current_setting('perdure.joined', true),
  set_config('search_path', :search_path, true), set_config('lock_timeout', :lock_timeout, true) FROM before

-- transaction_mark: give this transaction a mark, which goes with it, and tell the one before; a commit that does not wait for
-- its sync would acknowledge what a power loss takes back.
WITH before AS MATERIALIZED (SELECT current_setting('perdure.joined', true) AS mark)
SELECT mark, set_config('perdure.joined', :mark, true),
  CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN set_config('synchronous_commit', 'on', true) END FROM before

-- store_known: whether this database has such a schema with a store in it; asking does not spoil the user's transaction.
SELECT to_regclass(quote_ident(:schema) || '.meta') IS NOT NULL
