"""The wall around tenants inside PostgreSQL: row-level security for a role that owns nothing (docs/decisions/0053).

Every table with a tenant column gets one policy, enabled and forced. A transaction names its tenants itself: a batch of the
lane those of its jobs, a read exactly one. A transaction that names none sees nothing. The predicates of our statements stay as
they are: this is the second wall. Callers: `perdure migrate --roles`, `postgres`, `perdure serve`, `doctor`. Keeps P11.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
import psycopg

from perdure.errors import Invalid, Refused
from perdure.model.limits import check_name
from perdure.stores.postgres_faults import fault_of

SETTING = "perdure.tenants"
POLICY = "perdure_tenant"
_OURS = f"tenant = ANY (string_to_array(nullif(current_setting('{SETTING}', true), ''), ',')::bigint[])"

# Tables without a tenant: the identity of the store, the list of its tables, and the names of its tenants. None holds content.
_TABLES = """SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity, pg_get_userbyid(c.relowner) AS owner,
  EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped),
  (SELECT coalesce(pg_get_expr(p.polqual, p.polrelid), '') || ' ' || coalesce(pg_get_expr(p.polwithcheck, p.polrelid), '')
     FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = %s AND p.polcmd = '*' AND p.polpermissive),
  (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid)
FROM pg_class c WHERE c.relnamespace = %s::regnamespace AND c.relkind IN ('r', 'p') ORDER BY 1"""
_VIEWS = """SELECT c.relname FROM pg_class c WHERE c.relnamespace = %s::regnamespace AND c.relkind = 'v'
  AND NOT ('security_invoker=true' = ANY (coalesce(c.reloptions, '{}'))) ORDER BY 1"""
# A sequence that a column brought goes with its table.
_KINDS = """SELECT c.relkind, c.relname FROM pg_class c WHERE c.relnamespace = %s::regnamespace AND c.relkind IN ('r', 'v', 'S')
  AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND c.relkind = 'S' AND d.deptype IN ('a', 'i'))
ORDER BY 1, 2"""
_ROLE = "SELECT current_user, rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user"
_MEMBER = "SELECT pg_has_role(current_user, %s, 'MEMBER')"
_MAKE = """DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = {literal}) THEN CREATE ROLE {name} {options};
END IF; END $$"""


class Roles(NamedTuple):
    """The three roles. owner: has the tables, and logs in nowhere. app: what servers and workers connect as. keeper: verify,
    backup, retention and migrations, over all tenants.
    """

    owner: str = "perdure_owner"
    app: str = "perdure_app"
    keeper: str = "perdure_keeper"


DEFAULT_ROLES = Roles()


class WallState(msgspec.Struct, frozen=True):
    """The wall as it stands. gaps: the parts that are missing, in words. role: the one that is connected; sees_through: why the
    wall does not hold for it, if it does not.
    """

    role: str
    raised: bool
    gaps: list[str]
    sees_through: list[str]


def names_tenants(tenants: Iterable[int]) -> str:
    """The statement with which a transaction names its tenants: until it ends, and never for the session."""
    return f"SELECT set_config('{SETTING}', '{','.join(str(int(tenant)) for tenant in tenants)}', true); "


def raise_wall(raw: Any, schema: str, roles: Roles = DEFAULT_ROLES) -> None:
    """Make the roles and raise the wall, in one transaction. Safe to repeat: after every migration, too.

    Refused for a role that may not do this: it takes a superuser, or the owner with the right to make roles.
    """
    names = [check_name(name, "roles") for name in roles]
    if len(set(names)) != len(names):
        raise Invalid("owner, application and keeper are three roles", path="roles")
    try:
        with raw.transaction():
            for text in _script(raw, schema, roles):
                raw.execute(text)
    except psycopg.errors.InsufficientPrivilege as error:
        hint = "run it once as a superuser, or as the role that owns the tables and may make roles"
        raise Refused(f"this role may not raise the wall: {error}", path="roles", hint=hint) from error
    except psycopg.Error as error:
        raise fault_of(error) from error


def _script(raw: Any, schema: str, roles: Roles) -> Iterable[str]:
    def quoted(name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def literal(name: str) -> str:
        return "'" + name.replace("'", "''") + "'"

    options = {roles.owner: "NOLOGIN", roles.app: "LOGIN NOSUPERUSER NOBYPASSRLS", roles.keeper: "LOGIN BYPASSRLS"}
    for name, given in options.items():
        yield _MAKE.format(literal=literal(name), name=quoted(name), options=given)
    owner, app, keeper, place = quoted(roles.owner), quoted(roles.app), quoted(roles.keeper), quoted(schema)
    if not raw.execute("SELECT pg_has_role(%s, %s, 'MEMBER')", (roles.keeper, roles.owner)).fetchone()[0]:
        yield f"GRANT {owner} TO {keeper}"  # the keeper repeats all this after a migration, and may not grant
    yield f"ALTER SCHEMA {place} OWNER TO {owner}"
    yield f"GRANT USAGE ON SCHEMA {place} TO {app}, {keeper}"
    kinds = raw.execute(_KINDS, (schema,)).fetchall()
    words = {"r": "TABLE", "v": "VIEW", "S": "SEQUENCE"}
    for kind, name in kinds:
        yield f"ALTER {words[_text(kind)]} {place}.{quoted(name)} OWNER TO {owner}"
    for name, has_tenant in [(row[0], row[4]) for row in _tables(raw, schema)]:
        if has_tenant:
            table = f"{place}.{quoted(name)}"
            yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"
            yield f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY"
            yield f"DROP POLICY IF EXISTS {POLICY} ON {table}"
            yield f"CREATE POLICY {POLICY} ON {table} USING ({_OURS}) WITH CHECK ({_OURS})"
    for name in [name for kind, name in kinds if _text(kind) == "v"]:
        yield f"ALTER VIEW {place}.{quoted(name)} SET (security_invoker = true)"
    yield f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {place} TO {app}, {keeper}"
    yield f"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {place} TO {app}, {keeper}"


def _text(kind: Any) -> str:
    return kind.decode() if isinstance(kind, bytes) else kind


def _tables(raw: Any, schema: str) -> list[tuple[Any, ...]]:
    return raw.execute(_TABLES, (POLICY, schema)).fetchall()


def look(raw: Any, schema: str) -> WallState:
    """The wall as it stands, for the role that is connected."""
    try:
        role, superuser, bypasses = raw.execute(_ROLE).fetchone()
        tables, views = _tables(raw, schema), raw.execute(_VIEWS, (schema,)).fetchall()
        owners = sorted({row[3] for row in tables})
        owns = any(raw.execute(_MEMBER, (owner,)).fetchone()[0] for owner in owners) and not superuser
    except psycopg.Error as error:
        raise fault_of(error) from error
    raised = any(row[1] for row in tables)
    gaps = [gap for row in tables if row[4] for gap in _gaps(*row[:3], *row[5:])] if raised else []
    gaps += [f"the view {name} reads as its owner" for (name,) in views] if raised else []
    reasons = {"is a superuser": superuser, "bypasses row-level security": bypasses, "owns the tables": owns}
    return WallState(role, raised, gaps, [f"the role {role} {says}" for says, so in reasons.items() if so])


def _gaps(name: str, enabled: bool, forced: bool, policy: str | None, count: int) -> Iterable[str]:
    if not enabled:
        yield f"row-level security is off for {name}"
    if not forced:
        yield f"row-level security is not forced for {name}"
    if policy is None:
        yield f"{name} has no policy"
    elif policy.count(SETTING) != 2 or policy.count("= ANY") != 2:
        yield f"the policy of {name} is not ours"
    if count > 1:
        yield f"{name} has another policy beside ours"


def check_wall(state: WallState) -> None:
    """Refused for a role that sees through the wall, where it has gaps, and where there is none."""
    faults = [*([] if state.raised else ["there is no row-level security"]), *state.gaps, *state.sees_through]
    if faults:
        raise Refused(
            f"tenants are not walled off in this database: {'; '.join(faults[:3])}", path="store",
            hint="`perdure migrate --roles` raises the wall; then connect as perdure_app, which owns nothing",
        )  # fmt: skip
