"""The user's own questions in SQL: one statement that reads the views of one tenant, bounded in rows and time.

    SQLite       a connection of its own, for reading; SQLite itself judges the statement (its authorizer). The views that it
                 sees are made for it: of this tenant only, and with documents whole that lie in a blob.
    PostgreSQL   a cursor inside a READ ONLY transaction that is rolled back; the views read which tenant is meant.

Called by `store.query`. Keeps P1 (no second library needs to open the file), P11, P15.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import apsw
import msgspec

from perdure.errors import Error, Invalid, Refused, TimedOut, TooLarge
from perdure.model.ids import new_uid
from perdure.model.limits import check_text
from perdure.stores.core import Core, Reader
from perdure.stores.expected_schema import own_names, own_views
from perdure.stores.sqlite import SqliteConnection, SqliteEngine, fault_of, opened_to_read
from perdure.stores.store import WHOLE_STORE, Fault, FaultKind
from perdure.stores.tx import LOG
from perdure.stores.user_sql import is_hidden

if TYPE_CHECKING:
    from perdure.stores.postgres import PostgresConnection

ROWS_MAX = 100_000
BYTES_MAX = 256 * 1024 * 1024  # one value, and one document that is unpacked
_STEPS = 10_000  # of SQLite's machine between two looks at the clock
_ONLY_VIEWS = "read the views (docs/sql.md), and change things with the verbs of the store"
_FOR_EXAMPLE = "such as `SELECT * FROM v_sessions`; docs/sql.md lists the views"
_NOT_A_VIEW = re.compile("no such table|cannot modify")
_TOKEN = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | \$(\w*)\$.*?\$\1\$ | :: | :([a-z_]\w*)""",
    re.DOTALL | re.VERBOSE | re.IGNORECASE,
)
_BODY = re.compile(r"CAST\((\w+)\.body AS TEXT\)")

Params = Mapping[str, Any]
Found = tuple[Sequence[str], list[tuple[Any, ...]]]


def ask(
    core: Core, tenant: int, statement: str, params: Params, limit: int, timeout_seconds: float | None
) -> list[dict[str, Any]]:
    """The rows that a statement finds, by column. Raises Refused when it is not one that only reads, TooLarge, TimedOut."""
    if not check_text(statement, "sql").strip():
        raise Invalid("there is no statement", path="sql", hint=_FOR_EXAMPLE)
    if type(limit) is not int or not 1 <= limit <= ROWS_MAX:
        raise Invalid(f"expected 1 to {ROWS_MAX:,} rows, got {limit!r}", path="limit")
    if not isinstance(params, Mapping):
        raise Invalid(
            f"expected parameters by name, got {type(params).__name__}", path="params", hint="{'tool': 'pay'} for :tool"
        )
    seconds = core.timeout_seconds if timeout_seconds is None else timeout_seconds
    found = _ask_postgres if core.engine.is_server else _ask_sqlite
    try:
        columns, rows = found(core, tenant, statement, params, limit, seconds)
    except Fault as fault:
        raise fault.as_error("sql") from fault
    if len(rows) > limit:
        raise TooLarge(f"it has more than {limit:,} rows", path="sql", hint="add LIMIT, or pass a larger limit=")
    if len(set(columns)) < len(columns):
        raise Invalid("two columns have the same name", path="sql", hint="name them with AS")
    return [dict(zip(columns, row, strict=True)) for row in rows]


# -- SQLite --------------------------------------------------------------------------------------------------------------


def _ask_sqlite(core: Core, tenant: int, statement: str, params: Params, limit: int, seconds: float) -> Found:
    name = core.read(_tenant_name, tenant=tenant)  # which also brings the cache of a files store to the end of its log
    with closing(_connected(core)) as connection:
        raw, secret = connection.raw, new_uid().hex()
        _make_views(raw, name, secret, partial(_whole, core, tenant))
        deadline = time.monotonic() + seconds
        raw.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        raw.limit(apsw.SQLITE_LIMIT_LENGTH, BYTES_MAX)
        raw.authorizer = judge = _Judge(secret)
        with _told(judge, seconds):
            cursor = raw.cursor()
            cursor.exec_trace = one = _OneStatement()
            cursor.execute(statement, dict(params), can_cache=False)
            rows = _taken(cursor, limit)
            return one.columns, rows


def _tenant_name(reads: Reader) -> str:
    return reads.query(LOG.tenant_name, tenant=reads.tenant)[0][0]


def _connected(core: Core) -> SqliteConnection:
    """A connection of its own to the same state; to a copy of a database in memory, which has only one."""
    if core.engine.one_connection:
        copy = core.read(lambda reads: reads.connection.raw.serialize("main"), tenant=WHOLE_STORE)
        raw = apsw.Connection(":memory:")
        raw.deserialize("main", copy)
        return SqliteConnection(raw)
    assert isinstance(core.engine, SqliteEngine)
    assert core.engine.path is not None
    return opened_to_read(core.engine.path, core.engine.busy_wait_ms)


def _make_views(raw: apsw.Connection, tenant: str, secret: str, whole: Callable[..., str | None]) -> None:
    """Our views, in place of those in the file: each over one with a name that nobody can guess, which alone may read tables."""
    raw.create_scalar_function("perdure_body", whole, 1, deterministic=True, flags=apsw.SQLITE_INNOCUOUS)
    said = apsw.format_sql_value(tenant)
    for name, text in own_views().items():
        whole_text = _BODY.sub(r"perdure_body(\1.body)", text)
        raw.execute(f'CREATE TEMP VIEW "{name} {secret}" AS {whole_text}')
        raw.execute(f'CREATE TEMP VIEW {name} AS SELECT * FROM "{name} {secret}" WHERE tenant = {said}')  # noqa: S608


def _whole(core: Core, tenant: int, body: bytes | None) -> str | None:
    """The body of an event with its document in place, as JSON. One whose blob cannot be read names the blob only."""
    if body is None or b'"doc_blob"' not in body:
        return None if body is None else body.decode("utf-8", "replace")
    try:
        fields = msgspec.json.decode(body)
        if address := fields.get("doc_blob"):
            fields["doc"] = msgspec.Raw(core.read(Reader.blob, address, tenant=tenant))
        return msgspec.json.encode(fields).decode()
    except (Error, msgspec.DecodeError, ValueError, AttributeError):
        return body.decode("utf-8", "replace")


class _OneStatement:
    """Called before each statement of a text: there must be one. Remembers its columns."""

    def __init__(self) -> None:
        self.columns: list[str] = []
        self._seen = False

    def __call__(self, cursor: apsw.Cursor, _text: str, _bindings: Any) -> bool:
        if self._seen:
            raise Refused("there is more than one statement", path="sql", hint=_ONLY_VIEWS)
        self._seen = True
        self.columns = [column for column, *_ in cursor.get_description()]
        return True


class _Judge:
    """SQLite's question about each thing that a statement is about to do. Remembers what it refused."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self.said = ""
        self.hint = _ONLY_VIEWS

    def __call__(
        self, what: int, first: str | None, second: str | None, database: str | None, inside: str | None
    ) -> int:
        if what in (apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE):
            return apsw.SQLITE_OK
        if what == apsw.SQLITE_FUNCTION and second != "load_extension":
            return apsw.SQLITE_OK
        if what == apsw.SQLITE_READ and (not second or self._may_read((first or "").lower(), database, inside or "")):
            return apsw.SQLITE_OK  # no column: a view joins this table and uses nothing of it, or only rows are counted
        if what == apsw.SQLITE_READ and not self.said:
            self.said = f"the table {first} is not for queries"
            self.hint = f"read the view v_{first}: docs/sql.md" if f"v_{first}" in own_views() else _ONLY_VIEWS
        action = apsw.mapping_authorizer_function.get(what, str(what))
        self.said = self.said or f"not in a query: {str(action).removeprefix('SQLITE_')} ({first or second or ''})"
        return apsw.SQLITE_DENY

    def _may_read(self, name: str, database: str | None, inside: str) -> bool:
        """Our tables inside our views, these views as they were made for this question, and the user's own tables."""
        if inside.endswith(self._secret) or name.endswith(self._secret):
            return True
        if name in own_names():
            return database == "temp"
        return not name.startswith("sqlite_") and not is_hidden(name)


def _taken(cursor: Any, limit: int) -> list[tuple[Any, ...]]:
    """At most one row more than the limit, and not more bytes than a process can bear."""
    rows, size = [], 0
    for row in islice(cursor, limit + 1):
        size += sum(len(value) for value in row if isinstance(value, (str, bytes)))
        if size > BYTES_MAX:
            raise TooLarge(
                f"the rows have more than {BYTES_MAX:,} bytes", path="sql", hint="select fewer columns, or add LIMIT"
            )
        rows.append(row)
    return rows


@contextmanager
def _told(judge: _Judge, seconds: float) -> Iterator[None]:
    try:
        yield
    except apsw.AuthError as error:
        raise Refused(judge.said or str(error), path="sql", hint=judge.hint) from None
    except apsw.InterruptError:
        raise _too_long(seconds) from None
    except apsw.TooBigError:
        raise TooLarge(f"a value has more than {BYTES_MAX:,} bytes", path="sql") from None
    except apsw.BindingsError as error:
        raise Invalid(str(error), path="params") from None
    except apsw.Error as error:
        fault = fault_of(error)
        if fault.kind is not FaultKind.BROKEN:
            raise fault.as_error("sql") from error
        raise Invalid(str(error), path="sql", hint=_ONLY_VIEWS if _NOT_A_VIEW.search(str(error)) else "") from error
    except KeyError as error:
        raise Invalid(f"no value is given for :{error.args[0]}", path="params") from None
    except TypeError as error:
        raise Invalid(str(error), path="params") from None


def _too_long(seconds: float) -> TimedOut:  # as PostgreSQL says it too
    return TimedOut(f"it took more than {seconds:g} s", path="sql", hint="ask for less, or pass a longer timeout=")


# -- PostgreSQL ----------------------------------------------------------------------------------------------------------


def _ask_postgres(core: Core, tenant: int, statement: str, params: Params, limit: int, seconds: float) -> Found:
    def asked(reads: Reader) -> Found:
        name, connection = _tenant_name(reads), cast("PostgresConnection", reads.connection)
        with reads.snapshot():
            return connection.ask(_renamed(statement, params), params, name, limit, seconds)

    return core.read(asked, tenant=tenant)


def _renamed(statement: str, params: Params) -> str:
    """The statement for psycopg: `:name` outside of texts and comments is a parameter."""

    def rename(found: re.Match[str]) -> str:
        name = found[2]
        if name is None:
            return found[0].replace("%", "%%")
        if name not in params:
            raise Invalid(f"no value is given for :{name}", path="params")
        return f"%({name})s"

    pieces, end = [], 0
    for found in _TOKEN.finditer(statement):
        pieces += [statement[end : found.start()].replace("%", "%%"), rename(found)]
        end = found.end()
    return "".join([*pieces, statement[end:].replace("%", "%%")]).rstrip().removesuffix(";")
