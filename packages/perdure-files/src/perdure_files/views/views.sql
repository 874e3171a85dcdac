-- The queries of the views that no plane has.

-- session_heads: the sessions of a tenant and where each is.
SELECT id, uid, tenant, kind, name, parent, fork_seq, seq, hash FROM streams WHERE tenant = :tenant AND kind = 'session'
ORDER BY name

-- tenants_with_sessions: whose sessions there are.
SELECT DISTINCT tenant FROM streams WHERE kind = 'session' ORDER BY tenant

-- tenant_name: the name of a tenant.
SELECT name FROM tenants WHERE id = :tenant
