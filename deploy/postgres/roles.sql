-- Roles and grants, in the database that will hold the store, by a superuser, before `perdure migrate --roles`. Safe to repeat.
-- `perdure serve` refuses a role that is a superuser, owns the tables or bypasses row-level security; `perdure doctor` names each gap.

-- perdure_owner has the tables, and nobody logs in as it.
DO $$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'perdure_owner') THEN
    CREATE ROLE "perdure_owner" NOLOGIN;
  END IF;
END $$;

-- perdure_app is the role of servers, workers and programs: rights on rows; two connections for an idle process, ten at most.
DO $$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'perdure_app') THEN
    CREATE ROLE "perdure_app" LOGIN;
  END IF;
END $$;
ALTER ROLE "perdure_app" NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION CONNECTION LIMIT 180;

-- perdure_keeper is the role of an operator: verify, backup, retain, migrate. It passes the wall.
DO $$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'perdure_keeper') THEN
    CREATE ROLE "perdure_keeper" LOGIN;
  END IF;
END $$;
ALTER ROLE "perdure_keeper" NOSUPERUSER BYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION CONNECTION LIMIT 10;
GRANT "perdure_owner" TO "perdure_keeper";

-- Nobody else connects to this database, and nobody makes tables outside the schema of the store.
DO $$ BEGIN
  EXECUTE format('REVOKE CONNECT, TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
  EXECUTE format('GRANT CONNECT ON DATABASE %I TO "perdure_app", "perdure_keeper"', current_database());
END $$;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
