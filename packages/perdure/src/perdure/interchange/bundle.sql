-- Statements that make a bundle, and that look where it comes in.

-- streams_travelling: all streams of a tenant that travel, of one kind.
SELECT id, uid, tenant, kind, name, parent, fork_seq FROM streams WHERE tenant = :tenant AND kind = :kind

-- runs_of_session: the runs that belong to a session.
SELECT s.id, s.uid, s.tenant, s.kind, s.name, s.parent, s.fork_seq FROM runs r JOIN streams s ON s.id = r.stream
WHERE r.tenant = :tenant AND r.session = :session

-- runs_of_parent: the runs that a run started.
SELECT s.id, s.uid, s.tenant, s.kind, s.name, s.parent, s.fork_seq FROM runs r JOIN streams s ON s.id = r.stream
WHERE r.tenant = :tenant AND r.parent = :parent

-- tenant_name: the name of a tenant.
SELECT name FROM tenants WHERE id = :tenant
