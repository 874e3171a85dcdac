-- turns_count: how many turns a stream has.
SELECT count(*) FROM turns WHERE stream = :stream

-- streams_all: every stream.
SELECT id, uid, tenant, kind, name, parent, fork_seq FROM streams ORDER BY id
