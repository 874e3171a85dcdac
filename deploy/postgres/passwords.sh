#!/bin/sh
# Passwords of the roles, from the environment; run by the image of PostgreSQL after roles.sql, once, when the database is made.
set -eu
psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
  -v app="$PERDURE_APP_PASSWORD" -v keeper="$PERDURE_KEEPER_PASSWORD" <<'SQL'
ALTER ROLE perdure_app PASSWORD :'app';
ALTER ROLE perdure_keeper PASSWORD :'keeper';
SQL
