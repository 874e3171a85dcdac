"""Sessions: their name, status, goal, labels and pins, and finding them. The plane behind `store.session(s)`.

An open session reads as *waiting* while somebody is asked in it or in a run of it, whatever is stored. Else it reads as
*crashed*, which is never stored, while somebody is written down as attending it and nobody who is has a living heartbeat
(see `presence`). Turns are in `turns`, summaries in `covers`. Keeps P8,
P13.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

from perdure.errors import Conflict, Damaged, Invalid
from perdure.log.change import Change, Op, Stream
from perdure.log.table import Row
from perdure.model.filters import SessionFilters, filter_params
from perdure.model.limits import LABELS_MAX, TEXT_MAX_CHARS, check_name, check_page, check_text
from perdure.model.records.conversation import Pins, SessionHeader, SessionRecord, Status
from perdure.model.values import digest
from perdure.planes import subjects
from perdure.planes.reading.body_reading import doc_of
from perdure.planes.reading.durations import Duration, between, deadline, store_now
from perdure.planes.reading.labels import from_labels, to_labels
from perdure.planes.reading.paging import Page, decode_cursor, encode_cursor, read_rows
from perdure.planes.reading.row_reading import (
    stored_as,
    stored_fields,
    stored_instant,
    stored_instant_or_none,
    stored_state,
)
from perdure.planes.reading.snapshots import one_state
from perdure.planes.recovery import presence
from perdure.planes.tables import ATTENDANCE, HOLDERS, SESSIONS
from perdure.stores.batch import EVENTS
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

Q = Statements("perdure.planes.conversation", "sessions.sql")

P = ParamSpec("P")
T = TypeVar("T")

PIN_DIGEST_CHARS = 32  # of the hexadecimal digest: every event carries it
OPEN = frozenset({"active", "waiting"})
PIN_NAMES = ("model", "prompt", "tools", "commit")


# -- opening -------------------------------------------------------------------------------------------------


def find_session(reads: Reads, name: str) -> tuple[Stream, str] | None:
    """The stream of a session and the digest of its pins; None if there is no session of this name."""
    check_name(name, "name")
    rows = reads.query(Q.session_by_name, tenant=reads.tenant, name=name)
    return (Stream(*rows[0][:-1]), rows[0][-1] or "") if rows else None


def open_session(
    tx: Tx,
    name: str,
    *,
    title: str = "",
    labels: Iterable[str] = (),
    goal: str | None = None,
    ttl: Duration | None = None,
    pins: Mapping[str, Any] | None = None,
    about: Iterable[str] = (),
) -> tuple[Stream, str]:
    """The session of this name. The options are for its creation: one that exists stays as it is. Only subjects are added."""
    stream = tx.find_stream("session", check_name(name, "name"))
    if stream is not None:
        if about:
            subjects.add_to_session(tx, stream, about)
        return stream, _session(tx, stream)["pin"] or ""
    columns = {
        "name": name, "title": check_text(title, "title"), "status": "active", "creator": tx.actor,
        "created_at": tx.now, "expires_at": deadline(tx, ttl), "labels": to_labels(labels),
    }  # fmt: skip
    versions = check_pins(pins) if pins is not None else {}
    subject_names = subjects.named(about)
    stream = tx.new_stream("session", name)
    tx.record(Change("session.opened", stream, SESSIONS, set=columns, subjects=subject_names))
    if goal is not None:
        set_goal(tx, stream, goal)
    return stream, pin(tx, stream, **versions).digest if versions else ""


def _session(reads: Reads, stream: Stream) -> Row:
    row = reads.row(SESSIONS, stream)
    if row is None:
        raise Damaged("the session has no row", path=f"session {stream.name}")
    return row


# -- status --------------------------------------------------------------------------------------------------


def mark_waiting(tx: Tx, stream: Stream) -> None:
    """The session waits for somebody; it is open."""
    _move(tx, stream, "session.suspended", OPEN, Status.WAITING)


def mark_active(tx: Tx, stream: Stream) -> None:
    """The session continues after waiting."""
    _move(tx, stream, "session.resumed", OPEN, Status.ACTIVE)


def close_session(tx: Tx, stream: Stream, status: str, holder: str) -> None:
    """The session is over; its holder steps out, so that what becomes of it later is no crash of this
    session.
    """
    if status not in (Status.COMPLETED, Status.FAILED):
        raise Invalid(f"a session is closed as completed or failed, not {str(status)[:40]!r}", path="status")
    _move(tx, stream, "session.closed", OPEN, Status(status))
    presence.step_out(tx, stream, holder)


def reopen(tx: Tx, stream: Stream) -> None:
    """A closed session is active again. One that is open stays as it is."""
    if _session(tx, stream)["status"] not in OPEN:
        _move(tx, stream, "session.reopened", frozenset({"completed", "failed"}), Status.ACTIVE)


def reopening(verb: Callable[Concatenate[Tx, Stream, P], T]) -> Callable[Concatenate[Tx, Stream, P], T]:
    """A verb that goes on with a conversation: a session that was closed is open again from here on, in the same commit."""

    def reopened(tx: Tx, stream: Stream, *args: P.args, **kwargs: P.kwargs) -> T:
        reopen(tx, stream)
        return verb(tx, stream, *args, **kwargs)

    return reopened


def archive(tx: Tx, stream: Stream) -> None:
    """Leave a session out of listings. Conflict for one that is open: what is not over must stay in sight."""
    check_over(tx, stream)
    if _session(tx, stream)["archived_at"] is None:
        tx.record(Change("session.archived", stream, SESSIONS, Op.SET, set={"archived_at": tx.now}))


def unarchive(tx: Tx, stream: Stream) -> None:
    """Let listings have a session again."""
    if _session(tx, stream)["archived_at"] is not None:
        tx.record(Change("session.unarchived", stream, SESSIONS, Op.SET, set={"archived_at": None}))


def check_over(reads: Reads, stream: Stream) -> None:
    """Conflict unless a session is closed, or its time is over."""
    row = _session(reads, stream)
    is_expired = row["expires_at"] is not None and row["expires_at"] <= store_now(reads)
    if row["status"] in OPEN and not is_expired:
        raise Conflict(
            f"the session is {row['status']}, not over",
            path="status",
            status=row["status"],
            hint="session.close() or `perdure close` first",
        )


def _move(tx: Tx, stream: Stream, kind: str, sources: frozenset[str], target: Status) -> None:
    """Move the status; one that is there already is left alone, so that a call can be repeated."""
    status = _session(tx, stream)["status"]
    if status == target.value:
        return
    if status not in sources:
        raise Conflict(
            f"the session is {status} and cannot become {target.value}", path="status", status=status,
            hint="session.reopen() or `perdure close --undo` first",
        )  # fmt: skip
    ended_at = None if target.value in OPEN else tx.now
    columns = {"status": target.value, "ended_at": ended_at}
    if kind == "session.reopened":
        columns["archived_at"] = None
    tx.record(Change(kind, stream, SESSIONS, Op.SET, set=columns))


# -- goal, labels, pins --------------------------------------------------------------------------------------


def set_title(tx: Tx, stream: Stream, title: str, *, about: Iterable[str] = ()) -> None:
    """Set the title. The one that stands already is not written again. about: whom the whole session is about from here on."""
    if about:
        subjects.add_to_session(tx, stream, about)
    if _session(tx, stream)["title"] != check_text(title, "title"):
        tx.record(Change("session.titled", stream, SESSIONS, Op.SET, set={"title": title}))


def set_goal(tx: Tx, stream: Stream, goal: str | None, *, about: Iterable[str] = ()) -> None:
    """Set the goal, or with None let it go. The goal that stands already is not written again. about: as for a title."""
    if about:
        subjects.add_to_session(tx, stream, about)
    if goal is not None:
        check_text(goal, "goal", TEXT_MAX_CHARS)
    if goal == get_goal(tx, stream):
        return
    if goal is None:
        tx.record(Change("session.goal_dropped", stream, SESSIONS, Op.SET, set={"goal_seq": None}))
    else:
        tx.record(Change("session.goal_set", stream, SESSIONS, Op.SET, doc=goal, mark="goal_seq"))


def get_goal(reads: Reads, stream: Stream) -> str | None:
    """The goal, if there is one."""
    goal = _document(reads, stream, _session(reads, stream)["goal_seq"])
    return stored_as(str | None, goal, "goal", f"session {stream.name}")


def _document(reads: Reads, stream: Stream, seq: int | None) -> Any:
    """A document of the session's row; a fork has its own copy of it."""
    if seq is None:
        return None
    rows = reads.query(Q.body_at, touches=[(EVENTS, stream.id)], stream=stream.id, seq=seq)
    return doc_of(reads, rows[0][0] if rows else None, f"session {stream.name} seq {seq}")


def label(tx: Tx, stream: Stream, labels: Iterable[str]) -> tuple[str, ...]:
    """Add labels; returns all of them."""
    before = from_labels(_session(tx, stream)["labels"])
    return _relabel(tx, stream, before, {*before, *from_labels(to_labels(labels))})


def unlabel(tx: Tx, stream: Stream, labels: Iterable[str]) -> tuple[str, ...]:
    """Take labels away; returns those that stay."""
    before = from_labels(_session(tx, stream)["labels"])
    return _relabel(tx, stream, before, set(before) - set(from_labels(to_labels(labels))))


def _relabel(tx: Tx, stream: Stream, before: tuple[str, ...], after: set[str]) -> tuple[str, ...]:
    column = to_labels(after)
    if set(before) != after:
        tx.record(Change("session.labelled", stream, SESSIONS, Op.SET, set={"labels": column}))
    return from_labels(column)


def pin(
    tx: Tx,
    stream: Stream,
    *,
    model: str | None = None,
    prompt: str | None = None,
    tools: Mapping[str, str] | None = None,
    commit: str | None = None,
) -> Pins:
    """Pin software versions: what is given replaces what was pinned, the rest stays."""
    versions = check_pins({"model": model, "prompt": prompt, "tools": tools, "commit": commit})
    if "prompt" in versions:
        versions["prompt"] = hashlib.sha256(versions["prompt"].encode()).hexdigest()
    return pin_as(tx, stream, versions)


def pin_as(tx: Tx, stream: Stream, given: dict[str, Any]) -> Pins:
    """Pin versions as they are kept: the prompt by its digest."""
    before = stored_fields(_document(tx, stream, _session(tx, stream)["pin_seq"]), f"session {stream.name} pins")
    doc = before | given
    mark = digest(doc, "pins").hex()[:PIN_DIGEST_CHARS]
    if doc != before:
        tx.record(Change("session.pinned", stream, SESSIONS, Op.SET, set={"pin": mark}, doc=doc, mark="pin_seq"))
    return _pins_of(doc, mark)


def get_pins(reads: Reads, stream: Stream) -> Pins | None:
    """The pins in force, if there are any."""
    row = _session(reads, stream)
    doc = _document(reads, stream, row["pin_seq"])
    return None if doc is None else _pins_of(stored_fields(doc, f"session {stream.name} pins"), row["pin"])


def pins_by_name(reads: Reads, name: str) -> Pins | None:
    """The pins in force in the session of a name; None if there are none, or no such session."""
    rows = reads.query(Q.pins_by_name, tenant=reads.tenant, name=name)
    where = f"session {name} pins"
    return _pins_of(stored_fields(doc_of(reads, rows[0][0], where), where), rows[0][1]) if rows else None


def _pins_of(doc: dict[str, Any], mark: str) -> Pins:
    return Pins(doc.get("model"), doc.get("prompt"), doc.get("tools", {}), doc.get("commit"), mark)


def check_pins(pins: object, path: str = "pins") -> dict[str, Any]:
    """The pins that are given, checked."""
    if not isinstance(pins, Mapping):
        raise Invalid(f"expected pins by name, got {type(pins).__name__}", path=path)
    versions = {name: value for name, value in pins.items() if value is not None}
    for name, value in versions.items():
        if name not in PIN_NAMES:
            raise Invalid(f"only these can be pinned: {', '.join(PIN_NAMES)}", path=f"{path}.{str(name)[:40]}")
        versions[name] = _checked_tools(value) if name == "tools" else check_text(value, f"{path}.{name}")
    return versions


def _checked_tools(tools: object) -> dict[str, str]:
    if not isinstance(tools, Mapping) or len(tools) > LABELS_MAX * 16:
        raise Invalid("expected versions by the names of tools, at most 1024", path="pins.tools")
    versions = {check_name(name, "pins.tools"): version for name, version in tools.items()}
    return {name: check_text(version, f"pins.tools.{name}") for name, version in versions.items()}


# -- looking -------------------------------------------------------------------------------------------------


def get_status(reads: Reads, stream: Stream) -> Status:
    """The state of the session now; crashed if its attending process has died."""
    return _header(reads, stream).status


@one_state
def info(reads: Reads, stream: Stream) -> SessionRecord:
    """All about a session but its contents."""
    return with_header(reads, stream, get_goal(reads, stream), get_pins(reads, stream))


def with_header(reads: Reads, stream: Stream, goal: str | None, pins: Pins | None) -> SessionRecord:
    """The record of a session with this goal and these pins."""
    header = _header(reads, stream)
    return SessionRecord(**{name: getattr(header, name) for name in header.__struct_fields__}, goal=goal, pins=pins)


def _header(reads: Reads, stream: Stream) -> SessionHeader:
    touches = [(SESSIONS, stream.id), (EVENTS, stream.id), (ATTENDANCE, stream.id), (HOLDERS, stream.tenant)]
    rows = reads.query(Q.session_header, touches=touches, stream=stream.id)
    if not rows:
        raise Damaged("the session has no row", path=f"session {stream.name}")
    return _header_of(rows[0])


def _header_of(row: tuple[Any, ...]) -> SessionHeader:
    name, title, creator, labels, created_at, ended_at, expires_at, archived_at, seq, at, status, copied = row[:12]
    path = f"session {name}"
    return SessionHeader(
        name=name,
        title=title,
        status=stored_state(Status, status, path),
        creator=creator,
        labels=from_labels(labels, path),
        created_at=stored_instant(created_at, path),
        ended_at=stored_instant_or_none(ended_at, path),
        expires_at=stored_instant_or_none(expires_at, path),
        last_seq=seq,
        last_at=stored_instant(at, path),
        archived_at=stored_instant_or_none(archived_at, path),
        copy=bool(copied),
    )


def sessions(reads: Reads, asked: SessionFilters) -> Page[SessionHeader]:
    """A page of sessions, newest first. Sessions whose time is over are left out unless `expired`, and archived
    ones unless `archived`.
    """
    size = check_page(asked.limit)
    at, stream = decode_cursor(asked.after, 2) if asked.after is not None else (None, None)
    filters = filter_params(asked)
    rows = reads.query(
        Q.sessions_page, **{**filters, **between(reads, asked.since, asked.until)._asdict(), **_status_filter(filters["status"])},
        tenant=reads.tenant, current=None if asked.expired else 1, listed=None if asked.archived else 1,
        at=at, id=stream, limit=size + 1,
    )  # fmt: skip
    more = encode_cursor(rows[size - 1][4], rows[size - 1][12]) if len(rows) > size else None
    return read_rows(rows[:size], _header_of, more)


def _status_filter(status: str | None) -> dict[str, Any]:
    """A session that is over says so itself. One that is asked in, or crashed, is found by other rows than its own."""
    if status in (Status.COMPLETED.value, Status.FAILED.value):
        return {"status": status}
    found_by = {Status.CRASHED.value: "crashed", Status.WAITING.value: "asked"}.get(status or "")
    return {"state": status, "status": status if found_by is None else None} | ({found_by: 1} if found_by else {})
