-- Statements that close a store that moved away, and open one that is complete.

-- seal: from the commit of this on nobody appends an event here, also who has had the store open all the while.
CREATE TRIGGER IF NOT EXISTS events_moved BEFORE INSERT ON events BEGIN SELECT raise(ABORT, 'this store was moved'); END

-- seal @postgres: a trigger needs a function there; its code is that of a database that can only be read.
CREATE OR REPLACE FUNCTION events_moved() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  RAISE EXCEPTION 'this store was moved' USING ERRCODE = '25006'; END $$;
CREATE OR REPLACE TRIGGER events_moved BEFORE INSERT ON events FOR EACH STATEMENT EXECUTE FUNCTION events_moved()

-- unseal: events can be appended again.
DROP TRIGGER IF EXISTS events_moved

-- unseal @postgres: with its function.
DROP TRIGGER IF EXISTS events_moved ON events; DROP FUNCTION IF EXISTS events_moved()

-- meta_drop: a fact that no longer holds.
DELETE FROM meta WHERE name = :name

-- streams_any: whether anything was ever written here.
SELECT 1 FROM streams LIMIT 1
