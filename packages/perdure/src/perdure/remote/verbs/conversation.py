"""Sessions, turns, summaries, emitted events and artifacts: the routes that answer their verbs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from perdure.artifacts.local import pieces_from
from perdure.errors import Damaged, Invalid, NotFound
from perdure.log.change import Stream
from perdure.model.functions import plain as function
from perdure.model.limits import check_name
from perdure.model.records.artifacts import ArtifactRecord
from perdure.model.records.conversation import (
    Cover,
    Pins,
    SessionRecord,
    Turn,
)
from perdure.model.records.emitted import EventRecord, FoldState
from perdure.planes import subjects
from perdure.planes.conversation import artifacts, emitted, sessions, summaries, turns
from perdure.planes.conversation.transcript import Transcript, format_of
from perdure.planes.reading.paging import Page
from perdure.remote.asking import (
    AlreadyKnown,
    Asking,
    RouteRequest,
    address,
    answers,
    get,
    number,
    patch,
    path_of,
    post,
    put,
    several,
    span,
)

UPLOAD_MAX_BYTES = 64 * 1024 * 1024


class SessionFound(SessionRecord, frozen=True, kw_only=True):
    """A session with its identity."""

    uid: str


class ScopeFound(msgspec.Struct, frozen=True):
    """A scope with its identity."""

    name: str
    uid: str


class Counted(msgspec.Struct, frozen=True):
    """How many there were."""

    count: int


def stream_of(kind: str, name: str, uid: str) -> Stream:
    """A stream of the server. Its numbers there are nobody's business here."""
    return Stream(0, bytes.fromhex(uid), 0, kind, name)


def _opened(found: SessionFound) -> tuple[Stream, str]:
    return stream_of("session", found.name, found.uid), found.pins.digest if found.pins else ""


def _info(found: SessionFound) -> SessionRecord:
    return SessionRecord(*(getattr(found, name) for name in SessionRecord.__struct_fields__))


# -- sessions --------------------------------------------------------------------------------------------------------


@answers(sessions.find_session)
def find_session(name: str) -> Asking:
    try:
        return _opened((yield get(address("sessions", check_name(name, "name")), SessionFound)))
    except NotFound:
        return None


@answers(sessions.open_session)
def open_session(
    name: str,
    *,
    title: str = "",
    labels: Any = (),
    goal: Any = None,
    ttl: Any = None,
    pins: Any = None,
    about: Any = (),
) -> Asking:
    made = put(
        address("sessions", check_name(name, "name")), SessionFound, title=title, labels=several(labels, "labels"),
        goal=goal, ttl=span(ttl, "ttl"), pins=pins, about=subjects.named(about),
    )  # fmt: skip
    return _opened((yield made._replace(key=None)))


@answers(sessions.info)
def info(stream: Stream) -> Asking:
    return _info((yield get(path_of(stream), SessionFound)))


@answers(sessions.get_status)
def get_status(stream: Stream) -> Asking:
    return (yield get(path_of(stream), SessionFound)).status


@answers(sessions.get_goal)
def get_goal(stream: Stream) -> Asking:
    return (yield get(path_of(stream), SessionFound)).goal


@answers(sessions.get_pins)
def get_pins(stream: Stream) -> Asking:
    return (yield get(path_of(stream), SessionFound)).pins


def _moved(stream: Stream, move: Any) -> Asking:
    yield post(path_of(stream, "moves"), SessionFound, move=move)


@answers(sessions.mark_waiting)
def mark_waiting(stream: Stream) -> Asking:
    return _moved(stream, "mark_waiting")


@answers(sessions.mark_active)
def mark_active(stream: Stream) -> Asking:
    return _moved(stream, "mark_active")


@answers(sessions.close_session)
def close_session(stream: Stream, status: str, _holder: str) -> Asking:
    if status not in ("completed", "failed"):
        raise Invalid(f"a session is closed as completed or failed, not {str(status)[:40]!r}", path="status")
    return _moved(stream, status)


@answers(sessions.reopen)
def reopen(stream: Stream) -> Asking:
    return _moved(stream, "reopen")


@answers(sessions.archive)
def archive(stream: Stream) -> Asking:
    return _moved(stream, "archive")


@answers(sessions.unarchive)
def unarchive(stream: Stream) -> Asking:
    return _moved(stream, "unarchive")


@answers(sessions.set_goal)
def set_goal(stream: Stream, goal: str | None, *, about: Any = ()) -> Asking:
    yield patch(path_of(stream), SessionFound, goal=goal, about=subjects.named(about))


@answers(sessions.set_title)
def set_title(stream: Stream, title: str, *, about: Any = ()) -> Asking:
    yield patch(path_of(stream), SessionFound, title=title, about=subjects.named(about))


@answers(sessions.label)
def label(stream: Stream, labels: Any) -> RouteRequest:
    return post(path_of(stream, "labels"), tuple[str, ...], add=several(labels, "labels"))


@answers(sessions.unlabel)
def unlabel(stream: Stream, labels: Any) -> RouteRequest:
    return post(path_of(stream, "labels"), tuple[str, ...], remove=several(labels, "labels"))


@answers(sessions.pin)
def pin(
    stream: Stream, *, model: Any = None, prompt: Any = None, tools: Any = None, commit: Any = None
) -> RouteRequest:
    return put(path_of(stream, "pins"), Pins, model=model, prompt=prompt, tools=tools, commit=commit)


@answers(subjects.add_to_session, subjects.add_to_scope, subjects.add_to_run)
def add_subjects(stream: Stream, about: Any) -> RouteRequest:
    return post(path_of(stream, "subjects"), tuple[str, ...], subjects=subjects.named(about, "subjects"))


# -- turns -----------------------------------------------------------------------------------------------------------


@answers(turns.retract)
def retract(stream: Stream, turns_: Any, because: str | None = None, *, about: Any = ()) -> Asking:
    found = [number(each, f"turns[{i}]") for i, each in enumerate(turns_)]
    asked = post(path_of(stream, "retractions"), Counted, turns=found, because=because, about=subjects.named(about))
    return (yield asked).count


@answers(turns.shown)
def show_turns(stream: Stream, **asked: Any) -> RouteRequest:
    return get(path_of(stream, "turns"), Page[Turn], **asked)


@answers(turns.turns)
def list_turns(stream: Stream, **asked: Any) -> Asking:
    page: Page[Turn] = yield show_turns(stream, **asked)
    return page.whole()


@answers(turns.said)
def said(stream: Stream, key: str) -> RouteRequest:
    return get(path_of(stream, "said", check_name(key, "key")), Turn | None)


@answers(turns.durable)
def durable(stream: Stream, position: Any) -> Asking:
    if isinstance(position, str):
        found = yield said(stream, position)
        return None if found is None else found.seq
    seq = number(position, "position")
    return seq if seq <= (yield get(path_of(stream), SessionFound)).last_seq else None


# -- summaries -------------------------------------------------------------------------------------------------------


@answers(summaries.keys_of)
def keys_of(_stream: Stream, _upto: int, _text: str, *, from_: int | None = None) -> AlreadyKnown:  # noqa: ARG001 - the server does
    return AlreadyKnown(None)


@answers(summaries.lacking)
def lacking(stream: Stream, cover: Cover) -> RouteRequest:
    return get(path_of(stream, "summaries", cover.seq, "lacking"), list[str])


@answers(summaries.transcript)
def transcript(stream: Stream, shape: str, *, full: bool = False, last: int | None = None) -> Asking:
    found = yield get(path_of(stream, "transcript"), Any, format=format_of(shape).value, full=full, last=last)
    return Transcript(found["messages"], found["system"])


# -- events ----------------------------------------------------------------------------------------------------------


@answers(emitted.events)
def events(stream: Stream, **asked: Any) -> RouteRequest:
    return get(path_of(stream, "events"), Page[EventRecord], **asked)


@answers(emitted.fold)
def fold(stream: Stream, reducer: Any, initial: Any, *, upto: int, name: str | None = None) -> Asking:  # noqa: ARG001 - no snapshots
    state, after, folded = initial, 0, 0
    change = function(reducer, "reducer")
    while True:
        page = yield get(path_of(stream, "events"), Page[EventRecord], after=after, emitted=True, limit=1_000)
        for event in page:
            if event.seq > upto:
                return FoldState(state, upto, folded)
            state, folded = change(state, event), folded + 1
        if page.next is None:
            return FoldState(state, upto, 0)
        after = page.next


# -- artifacts -------------------------------------------------------------------------------------------------------


@answers(artifacts.address_ahead)
def address_ahead(_blobs: None, _data: Any) -> AlreadyKnown:
    return AlreadyKnown(None)


@answers(artifacts.take_in)
def take_in(_blobs: None, _tenant: int, data: Any) -> AlreadyKnown:
    return AlreadyKnown(b"".join(pieces_from(data)))


@answers(artifacts.attach)
def attach(stream: Stream, details: artifacts.Details, content: bytes, _holder: str) -> RouteRequest:
    told = {"about": details.about or None, "media_type": details.media_type}
    path, headers = path_of(stream, "artifacts", details.name), {"Content-Type": "application/octet-stream"}
    return RouteRequest("PUT", path, ArtifactRecord, told, headers=headers, data=content)


@answers(artifacts.newest)
def newest(stream: Stream, name: str) -> Asking:
    found = yield get(path_of(stream, "artifacts"), Page[ArtifactRecord], name=check_name(name, "name"), limit=1)
    if not found:
        raise NotFound(f"session {stream.name!r} has no artifact {name!r}", path="name")
    return found[0]


@answers(artifacts.content)
def content(digest: str) -> Asking:
    data = yield RouteRequest("GET", address("artifacts", digest, "content"), bytes)
    if hashlib.sha256(data).hexdigest() != digest:
        raise Damaged("the content is not what its address says", path=digest)
    return data


@answers(artifacts.pieces)
def pieces(digest: str) -> Asking:
    def given() -> Iterator[bytes]:
        yield data

    data = yield from content(digest)
    return given()
