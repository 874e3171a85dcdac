-- A table beside memory: rows that are many, by their key, while a fold is under way.

-- made: the table, in a database of its own that nobody else sees and that goes with its connection.
CREATE TABLE spilled (key BLOB PRIMARY KEY, row BLOB NOT NULL) STRICT, WITHOUT ROWID

-- put: a row, or another one in its place.
INSERT OR REPLACE INTO spilled (key, row) VALUES (:key, :row)

-- get: the row of a key.
SELECT row FROM spilled WHERE key = :key

-- drop: the row of a key goes.
DELETE FROM spilled WHERE key = :key

-- page: rows in the order of their keys, after one.
SELECT key, row FROM spilled WHERE key > :after ORDER BY key LIMIT :limit
