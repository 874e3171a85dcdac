"""The settings that a PostgreSQL connection must have in force, compared with those that it has.

A pooler gives each transaction another server connection. A setting that was asked for at the start is then lost, or refused, or
is whatever the last client left behind. So every new connection is looked at once. Where it is not the server itself that
answers, each transaction brings its own settings (decision 0037). Callers: `postgres`. Keeps P1, P3, P9.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from perdure.errors import Invalid
from perdure.stores.store import Fault, FaultKind, History
from perdure.stores.url import ENCODED

# PgBouncer says the first unless it is told to ignore options, the second with pool_mode = statement.
_REFUSED_OPTIONS = re.compile("unsupported (?:options )?startup parameter")
_NO_TRANSACTIONS = re.compile("transaction blocks not allowed")
_OPTION = re.compile(r"(?:-c\s*|--)([A-Za-z_][\w.\-]*)=((?:\\.|[^\s\\])*)(?:\s+|$)", re.ASCII)
_UNTOLD = (psycopg.errors.InsufficientPrivilege, psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFunction)
_QUOTED = re.compile(r'"[^"]*"?')  # a part of a URL that libpq repeats may be a part of its password
_TIMES = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
_TIME = re.compile(r"(\d+)(ms|s|min|h|d|)")
_UNITS_MS = {"": 1, "ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}

# The identity of the server, as far as it has a history of its own: a standby is of the history that it follows.
# `pg_control_checkpoint` says the time line too, but only after the first checkpoint.
_HISTORY = """(SELECT system_identifier::text FROM pg_control_system()),
  CASE WHEN NOT pg_is_in_recovery() THEN substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) END"""
_NO_HISTORY = "NULL::text, NULL::text"
# How the server became what it is: by following another one until it was promoted, or by going to a chosen point of the past.
_TARGETS = (
    "recovery_target",
    "recovery_target_lsn",
    "recovery_target_name",
    "recovery_target_time",
    "recovery_target_xid",
)
# Few functions, and nothing that is computed: a new backend looks up each of them first.
# The catalogue is asked for the table: to_regclass fails for a role that may not use the schema, which is told so later.
_LOOK = """SELECT pg_backend_pid(), pg_is_in_recovery(), pg_last_wal_receive_lsn() IS NOT NULL,
  (SELECT row_security_active(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = '{schema}' AND c.relname = 'streams'), {history}, {settings}"""
_FACTS = ("transaction_timeout", "synchronous_standby_names", *_TARGETS)

POOLER = (
    "in PgBouncer set pool_mode = transaction (or session), and let nothing set this for the role, the database or"
    " server connections; or name the server itself"
)


class InForce(NamedTuple):
    """The state of a new connection. missing: settings that are not as asked. direct: the server itself answers. walled:
    row-level security holds for its role.
    """

    direct: bool
    transaction_timeout: str
    missing: list[str]
    history: History
    walled: bool = False


class AskedFor:
    """The settings that the connections of one store ask for: `settings` by name, as the server is to have them in force."""

    def __init__(self, schema: str, timeout_ms: int, theirs: str, *, read_only: bool) -> None:
        self.schema = schema
        self._theirs = theirs
        self._read_only = read_only
        self._tells = True  # whether the server says of which history it is: a managed one may not
        self.settings = {
            "search_path": schema,
            "statement_timeout": str(timeout_ms),
            "lock_timeout": str(timeout_ms),
            "idle_in_transaction_session_timeout": str(2 * timeout_ms),
            "default_transaction_read_only": "on" if read_only else "off",
            "default_transaction_isolation": "read committed",  # else waiting for a head's lock is a failure, not a wait
            "synchronous_commit": "on",
            "client_min_messages": "warning",  # a commit that did not wait for its standby comes with a warning only
        }
        # A machine that is gone, or takes nothing any more: the server looks as the client does. A pooler's own matter.
        self._sockets = {
            "tcp_keepalives_idle": "10",
            "tcp_keepalives_interval": "5",
            "tcp_keepalives_count": "4",
            "tcp_user_timeout": str(timeout_ms),
        }

    @property
    def options(self) -> str:
        """The user's own `options`, then the settings that we always enforce."""
        ours = {**self.settings, **self._sockets}
        escaped = (f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in ours.items())
        return " ".join([self._theirs, *escaped]).strip()

    # -- looking -------------------------------------------------------------------------------------------------------------

    def look(self, raw: Any, name: str) -> InForce:
        """Compare the settings, and hear who the server is: one round trip. name: as the connection is called."""
        try:
            row = raw.execute(self._look_text()).fetchone()
        except _UNTOLD:
            if not self._tells:
                raise
            self._tells = False
            return self.look(raw, name)
        pid, recovers, received, walled, system, line, *values = row
        found = dict(zip((*_FACTS, *self.settings, "client_encoding", "application_name"), values, strict=True))
        wanted = {**self.settings, "client_encoding": "UTF8", "application_name": name}
        missing = [each for each, value in wanted.items() if _plain(each, found[each]) != value]
        followed = received and not any(found[each] for each in _TARGETS)
        synchronous = bool(found["synchronous_standby_names"])
        history = History(system, None if line is None else int(line, 16), recovers, synchronous, followed)
        direct = pid == raw.info.backend_pid and not missing
        return InForce(direct, found["transaction_timeout"] or "0", missing, history, bool(walled))

    def _look_text(self) -> str:
        names = (*_FACTS, *self.settings, "client_encoding", "application_name")
        settings = ", ".join(f"current_setting('{name}', true)" for name in names)
        return _LOOK.format(schema=self.schema, history=_HISTORY if self._tells else _NO_HISTORY, settings=settings)

    # -- behind a pooler -----------------------------------------------------------------------------------------------------

    def brought(self, name: str) -> str:
        """The statement with which each transaction behind a pooler begins: all settings, until it ends."""
        theirs = _their_settings(self._theirs)
        settings = {**theirs, **self.settings, "client_encoding": "UTF8", "application_name": name}
        set_each = sql.SQL(", ").join(
            sql.SQL("set_config({}, {}, true)").format(sql.Literal(each), sql.Literal(value))
            for each, value in settings.items()
        )
        return sql.SQL("SELECT {}; ").format(set_each).as_string(None)

    def check_brought(self, raw: Any, name: str, brought: str) -> None:
        """Whether a transaction behind the pooler has what it brings. REFUSED with what does not hold, and why."""
        try:
            raw.execute(f"BEGIN; {brought}", prepare=False)
            missing = self.look(raw, name).missing
            raw.execute("ROLLBACK", prepare=False)
        except psycopg.Error as error:
            if _NO_TRANSACTIONS.search(str(error)):
                raise Fault(FaultKind.REFUSED, f"the pooler allows no transactions: {error}", POOLER) from error
            raise
        if missing:
            named = ", ".join(missing)
            raise Fault(
                FaultKind.REFUSED, f"something between this process and the server drops its settings: {named}", POOLER
            )


def refuses_options(error: psycopg.Error) -> bool:
    """Whether a pooler refused a connection because it asks for settings."""
    return bool(_REFUSED_OPTIONS.search(str(error)))


def _plain(name: str, shown: str | None) -> str | None:
    """A setting as it was asked for: times are shown in whatever unit fits."""
    match = _TIME.fullmatch(shown or "") if name in _TIMES else None
    return shown if match is None else str(int(match[1]) * _UNITS_MS[match[2]])


def _their_settings(options: str) -> dict[str, str]:
    """The user's own options as settings. Invalid when there are others: only the server itself can be given those."""
    found = {}
    at = len(options) - len(options.lstrip())
    while at < len(options):
        match = _OPTION.match(options, at)
        if match is None:
            hint = "behind a pooler only settings can be given: options=-c name=value"
            raise Invalid(
                "not all options of this URL can be brought through the pooler", path="store.options", hint=hint
            )
        found[match[1].replace("-", "_")] = re.sub(r"\\(.)", r"\1", match[2])
        at = match.end()
    return found


def options_in(conninfo: str) -> str:
    """The user's own `options`. Refuses what libpq would not understand, without repeating what may be a password."""
    try:
        return str(conninfo_to_dict(conninfo).get("options") or "")
    except psycopg.Error as error:
        query = conninfo.partition("?")[2]
        options = [] if "@" in query else [part.partition("=") for part in query.split("&")]
        names = {f'"{name}"' for name, equals, _ in options if equals}
        said = str(error).partition("\n")[0].partition("token: ")[0].strip()
        said = _QUOTED.sub(lambda found: found[0] if found[0] in names else "…", said)
        raise Invalid(f"PostgreSQL does not understand this URL: {said}", path="store", hint=ENCODED) from None
