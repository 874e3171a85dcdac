"""Checks: what must be so for a memory, value, decision or task to hold, as it is written down and read back.

A memory keeps its checks in its own document. Those of a value, decision or task are a row of `checks` that names it; a value's
belong to one version of it. Running them is `boot.checking`'s: verbs never call out. Callers: the planes, and `boot`. Keeps P10:
what is stored is data, and an odd check is unknown, never an error of its reader.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from perdure.errors import Invalid, TooLarge
from perdure.log.change import Change, Op, Stream
from perdure.model.instants import duration_us
from perdure.model.limits import check_name, check_text
from perdure.model.records.checks import (
    Age,
    AtCommit,
    Check,
    ClaimerAlive,
    Command,
    FileHash,
    GitRef,
    ModelOffered,
    Unreadable,
    UrlEtag,
    ValueIs,
)
from perdure.model.values import to_plain
from perdure.planes.reading.body_reading import doc_of
from perdure.planes.reading.paging import Page, decode_cursor, encode_cursor
from perdure.planes.tables import CHECKS
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

Q = Statements("perdure.planes.memory", "checks.sql")

CHECKS_MAX = 20
PATH_MAX_CHARS = 4_000
ARGUMENTS_MAX = 100


def to_stored(checks: Iterable[object]) -> list[dict[str, Any]]:
    """The checks as a document keeps them. Invalid with the path of what is none."""
    if isinstance(checks, (str, bytes)) or not isinstance(checks, Iterable):
        hint = "checks=[perdure.FileHash('Makefile'), perdure.Age('30d')]"
        raise Invalid(f"expected a list of checks, got {type(checks).__name__}", path="checks", hint=hint)
    items = list(checks)
    if len(items) > CHECKS_MAX:
        raise TooLarge(f"{len(items)} checks, at most {CHECKS_MAX} are kept", path="checks")
    return [_stored(check, f"checks[{i}]") for i, check in enumerate(items)]


def from_stored(stored: Any) -> tuple[Check, ...]:
    """The checks of a document."""
    return tuple(map(_read, stored)) if isinstance(stored, list) else (Unreadable(),)


def _stored(check: object, path: str) -> dict[str, Any]:
    if isinstance(check, ValueIs):
        check_name(check.name, f"{path}.name")
        return {"check": "value", "name": check.name, "value": to_plain(check.value, f"{path}.value")}
    folder = getattr(check, "folder", None)
    if folder is not None:
        check_text(folder, f"{path}.folder", PATH_MAX_CHARS)
    _refuse_odd(check, path)
    return msgspec.to_builtins(check)


def _refuse_odd(check: object, path: str) -> None:
    match check:
        case FileHash(name, digest):
            check_text(name, f"{path}.path", PATH_MAX_CHARS)
            if not name or len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
                raise Invalid("a file and the sha256 of its content are needed", path=path)
        case GitRef(name, commit):
            check_name(name, f"{path}.name")
            check_text(commit, f"{path}.commit", 64)
        case Command(argv):
            if isinstance(argv, str) or not argv or len(argv) > ARGUMENTS_MAX:
                hint = "a list, which no shell reads: perdure.Command(['make', '--version'])"
                raise Invalid("a command is a program and its arguments", path=f"{path}.argv", hint=hint)
            for i, argument in enumerate(argv):
                check_text(argument, f"{path}.argv[{i}]", PATH_MAX_CHARS)
        case AtCommit(commit):
            _require(commit, "the commit is not known", path)
            check_text(commit, f"{path}.commit", 64)
        case UrlEtag(url, etag):
            check_text(url, f"{path}.url", PATH_MAX_CHARS)
            _require(url.startswith(("http://", "https://")), "expected the address of a page", f"{path}.url")
            _require(etag, "the page has no ETag", path)
            check_text(etag, f"{path}.etag", PATH_MAX_CHARS)
        case _:
            _refuse_odd_inside(check, path)


def _refuse_odd_inside(check: object, path: str) -> None:
    match check:
        case Age(limit):
            duration_us(limit, f"{path}.limit")
        case ModelOffered(model):
            check_name(model, f"{path}.model")
        case ClaimerAlive(task):
            _require(type(task) is int and task >= 0, "expected the number of a task", f"{path}.task")
        case _:
            hint = "perdure.FileHash, GitRef, AtCommit, UrlEtag, Command, Age, ValueIs, ModelOffered or ClaimerAlive"
            raise Invalid(f"expected a check, got {type(check).__name__}", path=path, hint=hint)


def _read(stored: Any) -> Check:
    try:
        return msgspec.convert(stored, Check)
    except msgspec.ValidationError:
        return Unreadable()


def _require(is_so: object, message: str, path: str) -> None:
    if not is_so:
        raise Invalid(message, path=path)


# -- of values, decisions and tasks --------------------------------------------------------------------------


class Thing(enum.StrEnum):
    """The things whose checks stand in the table."""

    VALUE = "value"
    DECISION = "decision"
    TASK = "task"


class Carried(NamedTuple):
    """The checks of one thing. name: its number, or the name of a value; version: of which version of a value."""

    thing: Thing
    name: str
    version: int
    checks: tuple[Check, ...]


def put(tx: Tx, stream: Stream, thing: Thing, name: str | int, checks: Iterable[object], version: int = 0) -> None:
    """Write down on what a thing rests, in the place of what was written before. Without checks nothing is written."""
    stored = to_stored(checks)
    if not stored:
        return
    key = {"name": str(name), "thing": thing.value}
    op = Op.SET if tx.row(CHECKS, stream, *key.values()) else Op.INSERT
    tx.record(
        Change(
            kind="log.checks",
            stream=stream,
            table=CHECKS,
            op=op,
            key=key,
            set={"version": version},
            doc=stored,
            mark="doc_seq",
        )
    )


def checks_of(reads: Reads, stream: Stream, limit: int) -> dict[tuple[Thing, str, int], tuple[Check, ...]]:
    """The checks that were written last in a session or scope, by thing, name and version."""
    rows = reads.query(Q.checks_of_stream, touches=[(CHECKS, stream.id)], stream=stream.id, limit=limit)
    carried = (_carried(reads, stream, row) for row in rows)
    return {(item.thing, item.name, item.version): item.checks for item in carried}


def checks_on(reads: Reads, stream: Stream, thing: Thing, name: str, version: int) -> tuple[Check, ...]:
    """The checks of one thing; none if nothing was written down for it, or only for another version."""
    params = {"stream": stream.id, "thing": thing.value, "name": name}
    rows = reads.query(Q.checks_get, touches=[(CHECKS, stream.id)], **params)
    carried = _carried(reads, stream, rows[0]) if rows else None
    return carried.checks if carried is not None and carried.version == version else ()


def checks_of_store(reads: Reads, *, limit: int = 100, after: str | None = None) -> Page[tuple[Stream, Carried]]:
    """The checks of values, decisions and tasks of this tenant, each with the stream that it belongs to."""
    in_stream, seq = (0, 0) if after is None else decode_cursor(after, 2)
    rows = reads.query(Q.checks_of_store, tenant=reads.tenant, in_stream=in_stream, seq=seq, limit=limit + 1)
    carried: list[tuple[Stream, Carried]] = []
    for row in rows[:limit]:
        stream = Stream(*row[5:])
        carried.append((stream, _carried(reads, stream, row[:5])))
    last = rows[limit - 1] if len(rows) > limit else None
    return Page(carried, None if last is None else encode_cursor(last[5], last[3]))


def _carried(reads: Reads, stream: Stream, row: tuple[Any, ...]) -> Carried:
    thing, name, version, seq, body = row
    return Carried(Thing(thing), name, version, from_stored(doc_of(reads, body, f"{stream.name} seq {seq}")))
