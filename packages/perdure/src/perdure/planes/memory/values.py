"""Values: names with versions, per session and per scope. The plane of `set get entry update unset entries`.

A row is never deleted: a name that was deleted or has expired keeps counting its versions, so that a
version once seen never stands for another value. Reading and deciding inside one verb is the compare-and-set,
because streams are serial. Keeps P5, P9, P10.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from perdure.errors import Conflict, Invalid, NotFound
from perdure.log.change import Change, Op, Stream
from perdure.log.table import Row
from perdure.model.instants import to_datetime
from perdure.model.limits import check_name, check_page, check_text
from perdure.model.records.values import Entry
from perdure.model.values import to_plain
from perdure.planes import subjects
from perdure.planes.memory.checks import Thing
from perdure.planes.memory.checks import put as put_checks
from perdure.planes.reading.body_reading import doc_of, stored_value
from perdure.planes.reading.durations import Duration, deadline
from perdure.planes.reading.paging import Page, read_rows
from perdure.planes.reading.row_reading import stored_as, stored_fields, stored_instant, stored_instant_or_none
from perdure.planes.tables import ENTRIES
from perdure.stores.batch import EVENTS
from perdure.stores.past_store import PastReader
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import LOG, Tx

Q = Statements("perdure.planes.memory", "values.sql")

_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


# -- scopes --------------------------------------------------------------------------------------------------


def open_scope(tx: Tx, name: str, about: Iterable[str] = ()) -> Stream:
    """The scope of this name; made if it is new. Nothing is written when it exists, but for subjects that it lacks."""
    check_name(name, "scope")
    stream = tx.find_stream("scope", name)
    if stream is None:
        stream = tx.new_stream("scope", name)
        tx.record(Change("scope.opened", stream, op=Op.NOTE, doc={"kind": "scope", "name": name}))
    if about:
        subjects.add_to_scope(tx, stream, about)
    return stream


def find_scope(reads: Reads, name: str) -> Stream | None:
    """The scope of this name, if it exists: what a handle asks before it writes."""
    check_name(name, "scope")
    rows = reads.query(LOG.stream_by_name, tenant=reads.tenant, kind="scope", name=name)
    return Stream(*rows[0]) if rows else None


# -- writing -------------------------------------------------------------------------------------------------


def put(
    tx: Tx,
    stream: Stream,
    name: str,
    value: Any,
    *,
    expect: int | None = None,
    ttl: Duration | None = None,
    checks: Iterable[object] = (),
    about: Iterable[str] = (),
    derived: bool = False,
) -> Entry:
    """Set a value. With `expect`, only if that is its version now (0: it is not there); else Conflict.

    checks: on what this version of it rests. about: whom this version is about; derived: also those of the version before, from
    which it was computed.
    """
    check_name(name, "name")
    plain = to_plain(value, "value")
    row = _checked(tx, stream, name, expect)
    version = row["version"] + 1 if row else 1
    expires_at = deadline(tx, ttl)
    subject_names = {*subjects.named(about), *(subjects.in_row(row) if derived else ())}
    columns = {"version": version, "updated_at": tx.now, "expires_at": expires_at, "gone": 0, **_afresh(row)}
    op = Op.SET if row else Op.INSERT
    tx.record(
        Change(
            kind="value.set",
            stream=stream,
            table=ENTRIES,
            op=op,
            key={"name": name},
            set=columns,
            doc=plain,
            mark="seq",
            subjects=sorted(subject_names),
        )
    )
    put_checks(tx, stream, Thing.VALUE, name, checks, version)
    ends = None if expires_at is None else to_datetime(expires_at)
    return Entry(
        name=name,
        value=value,
        version=version,
        updated_at=to_datetime(tx.now),
        age=timedelta(0),
        expires_at=ends,
        actor=tx.actor,
    )


def delete(tx: Tx, stream: Stream, name: str, *, expect: int | None = None) -> bool:
    """Let a value go; whether there was one. Its versions are counted further."""
    check_name(name, "name")
    row = _checked(tx, stream, name, expect)
    if row is None or not _is_live(tx, row):
        return False
    _drop(tx, stream, name, row)
    return True


def drop_ended(tx: Tx, stream: Stream, name: str) -> bool:
    """Record that a value is gone whose time has ended; whether there was one. Nobody could read it any more."""
    row = tx.row(ENTRIES, stream, name)
    if row is None or row["gone"] or _is_live(tx, row):
        return False
    _drop(tx, stream, name, row)
    return True


def _drop(tx: Tx, stream: Stream, name: str, row: Row) -> None:
    columns = {"version": row["version"] + 1, "updated_at": tx.now, "expires_at": None, "gone": 1, **_afresh(row)}
    tx.record(Change("value.deleted", stream, ENTRIES, Op.SET, {"name": name}, columns, mark="seq"))


def extend(tx: Tx, stream: Stream, name: str, ttl: Duration) -> bool:
    """Let a value live for `ttl` from now; whether it is there. It keeps its version and the instant at which it was set."""
    row = tx.row(ENTRIES, stream, name)
    current = entry(tx, stream, name) if row is not None and _is_live(tx, row) else None
    if row is None or current is None:
        return False
    unchanged = {column: row[column] for column in ("version", "updated_at", "gone")}
    change = Change(
        kind="value.set",
        stream=stream,
        table=ENTRIES,
        op=Op.SET,
        key={"name": name},
        set={**unchanged, "expires_at": deadline(tx, ttl), **_afresh(row)},
        doc=to_plain(current.value, "value", from_store=True),
        mark="seq",
        subjects=sorted(subjects.in_row(row)),
    )
    tx.record(change)
    return True


def _afresh(row: Row | None) -> dict[str, Any]:
    """Every version says all of a value (`Table.says_all`): it is not about whom the one before was."""
    return {} if row is None or row["about"] is None else {"about": None}


def _checked(tx: Tx, stream: Stream, name: str, expect: int | None) -> Row | None:
    """The row of a name, live or not, if `expect` holds for it."""
    row = tx.row(ENTRIES, stream, name)
    if expect is None:
        return row
    if type(expect) is not int or expect < 0:
        raise Invalid(f"expected a version (0: not there), got {expect!r}", path="expect")
    current = row["version"] if row and _is_live(tx, row) else 0
    if current != expect:
        _refuse(tx, stream, name, expect)
    return row


def _is_live(tx: Tx, row: Row) -> bool:
    return not row["gone"] and (row["expires_at"] is None or row["expires_at"] > tx.store_now())


def _refuse(tx: Tx, stream: Stream, name: str, expect: int) -> None:
    """Conflict says what is there now. Nothing if that is what was expected: its time ended since it was looked at."""
    now = entry(tx, stream, name)
    version, value = (now.version, now.value) if now else (0, None)
    if version != expect:
        is_at = f"is at version {version}" if now else "is not there"
        raise Conflict(f"{name!r} {is_at}, not at {expect}", path="expect", version=version, value=value)


# -- reading -------------------------------------------------------------------------------------------------


def entry(reads: Reads, stream: Stream, name: str) -> Entry | None:
    """The value of a name with its version and age; None if it is not there or has expired. NotFound at a moment of the past
    whose values were pruned.
    """
    check_name(name, "name")
    refuse_pruned(reads, stream)
    rows = reads.query(Q.entry_get, touches=[(ENTRIES, stream.id)], stream=stream.id, name=name)
    return _entry(reads, stream, rows[0]) if rows else None


def entries(
    reads: Reads,
    stream: Stream,
    *,
    prefix: str | None = None,
    about: str | None = None,
    limit: int = 100,
    after: str | None = None,
) -> Page[Entry]:
    """The values whose name begins with exactly `prefix`, by name (in the order of their UTF-8 bytes). NotFound as `entry`."""
    refuse_pruned(reads, stream)
    start_with = "" if prefix is None else check_text(prefix, "prefix")
    start = None if after is None else check_name(after, "after")
    count = check_page(limit)
    rows = reads.query(
        Q.entries_page,
        touches=[(ENTRIES, stream.id)],
        stream=stream.id,
        after=start,
        prefix=start_with or None,
        prefix_end=after_prefix(start_with),
        about=subjects.wanted_here(reads, stream.id, about),
        limit=count + 1,
    )
    return read_rows(rows[:count], partial(_entry, reads, stream), rows[count - 1][0] if len(rows) > count else None)


def _entry(reads: Reads, stream: Stream, row: tuple[Any, ...]) -> Entry:
    name, version, updated_at, expires_at, seq, actor, body, now = row
    where = f"{stream.name} seq {seq}"
    value = stored_value(doc_of(reads, body, where), where)
    updated = stored_instant(updated_at, where)
    age = timedelta(microseconds=max(0, now - updated_at))
    return Entry(
        name=name,
        value=value,
        version=version,
        updated_at=updated,
        age=age,
        expires_at=stored_instant_or_none(expires_at, where),
        actor=actor,
    )


def refuse_pruned(reads: Reads, stream: Stream, last: int | None = None) -> None:
    """NotFound when values that stood at a moment of the past were pruned after it (by retention): which, nobody can tell.

    last: the event of that moment; None: what `reads` sees, if that is the past.
    """
    if last is None and not isinstance(reads, PastReader):
        return
    moment: int = reads.query(LOG.stream_head, stream=stream.id)[0][0] if last is None else last
    first = reads.query(Q.entries_emptied, touches=[(EVENTS, stream.id)], stream=stream.id)[0][0]
    if first is None or first > moment:
        return
    for pruning in _prunings(reads, stream, moment):
        if min(pruning.emptied, default=pruning.until) <= moment < pruning.until:
            message = f"values that stood at event {moment} were pruned by event {pruning.by}"
            raise NotFound(message, path=f"{stream.kind} {stream.name}", hint=f"look at event {pruning.until} or later")


class _Pruning(NamedTuple):
    """An event that took versions of values away: itself, what it took, and from which event on all values are known again."""

    by: int
    emptied: list[int]
    until: int


def _prunings(reads: Reads, stream: Stream, after: int) -> list[_Pruning]:
    """The events that took versions of values away after an event."""
    if isinstance(reads, PastReader):
        return reads.beyond(lambda origin: _prunings(origin, stream, after))
    prunings: list[_Pruning] = []
    for by, body in reads.query(Q.prunings_of_values, uid=stream.uid, after=after):
        where = f"{stream.name} seq {by}"
        doc = stored_fields(doc_of(reads, body, where), where)
        if doc.get("table") == ENTRIES.name and "until" in doc:
            emptied = stored_as(list[int], doc.get("emptied"), "list of events", where)
            prunings.append(_Pruning(by, emptied, stored_as(int, doc["until"], "event", where)))
    return prunings


def after_prefix(prefix: str) -> str | None:
    """The first text after all that begin with `prefix`, in UTF-8 order; None if there is none."""
    stem = prefix.rstrip(chr(_LAST_CHARACTER))
    if not stem:
        return None
    following = ord(stem[-1]) + 1
    if following in _SURROGATES:
        following = _SURROGATES.stop
    return stem[:-1] + chr(following)
