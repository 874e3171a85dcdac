"""Emitted: events that the user emits, events as people read them, and folds over them.

An emitted event belongs to no table: it changes no row, it is only said (op note). Kinds that
`model.kinds` reserves are our own. Callers: the handles. Keeps P5 (one door), P8 (a named fold starts at its snapshot), P15.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple, TypeVar

import msgspec

from perdure.errors import Conflict, Invalid, NotFound
from perdure.log.actors import FORGOTTEN, NAMED, is_random
from perdure.log.change import Change, Op, Stream
from perdure.log.event import Body, Event
from perdure.model import values
from perdure.model.filters import EventFilters, filter_params
from perdure.model.functions import plain
from perdure.model.kinds import is_reserved
from perdure.model.limits import check_name, check_page
from perdure.model.records.emitted import EventContent, EventRecord, FoldState, stored_content
from perdure.model.refs import Ref
from perdure.planes import subjects
from perdure.planes.reading.body_reading import body_of, inline_body, stored_value
from perdure.planes.reading.durations import between
from perdure.planes.reading.lineage import MAX_SEQ, Segment, segments
from perdure.planes.reading.origins import to_refs
from perdure.planes.reading.paging import Page, decode_cursor, encode_cursor, read_rows, seq_or_cursor
from perdure.planes.reading.snapshots import one_state
from perdure.planes.tables import FOLD_SNAPSHOTS
from perdure.stores.batch import EVENTS
from perdure.stores.statements import Statements
from perdure.stores.store import Reads, event_of
from perdure.stores.tx import LOG, Tx

Q = Statements("perdure.planes.conversation", "emitted.sql")
S = TypeVar("S")

SNAPSHOT_AFTER_EVENTS = 500
_PAGE = 500
_WORD = r"[A-Za-z0-9_-]+"
_KIND = re.compile(rf"{_WORD}(\.{_WORD})+")
_GLOB = re.compile(rf"{_WORD}(\.{_WORD})*\.\*")
_LAST_KIND = chr(0x10FFFF)


def emit(
    tx: Tx,
    stream: Stream,
    kind: str,
    data: Any = None,
    *,
    expect: int | None = None,
    about: Iterable[str] = (),
    refs: Iterable[object] = (),
) -> EventRecord:
    """Append an event that changes no row. Conflict (with the current `seq`) when the stream is past
    `expect`.
    """
    _check_emitted_kind(kind)
    _check_expected(tx, stream, expect)
    doc = values.to_plain(data, "data")
    targets = to_refs(tx, stream, refs)
    subject_names = sorted({*subjects.named(about), *subjects.of_refs(tx, targets)})
    body = Body(op=Op.NOTE, doc=doc, refs=targets, subjects=subject_names, pin=tx.pin)
    change = Change(kind, stream, op=Op.NOTE, doc=doc, refs=body.refs, subjects=body.subjects)
    seq = tx.record(change)
    content = _content(body, f"{stream.name} seq {seq}")
    return EventRecord(
        seq=seq, kind=kind, table="", actor=tx.actor, _at_us=tx.now, session=stream.name, uid=stream.uid.hex(),
        emptied=False, _stored=content, _read=stored_content,
    )  # fmt: skip


def _check_emitted_kind(kind: object) -> None:
    name = check_name(kind, "kind")
    if not _KIND.fullmatch(name):
        raise Invalid(
            "expected a kind such as 'deploy.finished': words of letters, digits, _ and -, joined by dots",
            path="kind",
        )
    if is_reserved(name):
        raise Invalid(
            f"kinds that begin with {name.partition('.')[0]!r} are Perdure's own",
            path="kind",
            hint=f"begin with a word of yours: app.{name}",
        )


def _check_expected(tx: Tx, stream: Stream, expect: object) -> None:
    if expect is None:
        return
    if type(expect) is not int or expect < 0:
        raise Invalid(f"expected a sequence number, got {expect!r}", path="expect")
    current = tx.seq(stream)
    if current != expect:
        raise Conflict(f"{stream.kind} {stream.name!r} is at {current}, not at {expect}", path="expect", seq=current)


# --- reading --------------------------------------------------------------------------------------


def events(
    reads: Reads,
    stream: Stream,
    *,
    after: int | str = 0,
    kind: str | None = None,
    emitted: bool | None = None,
    about: str | None = None,
    limit: int = 100,
) -> Page[EventRecord]:
    """Events of a session after a sequence number or the cursor of a page, in order, those of a fork's parents included."""
    first = _checked_after(after)
    limit = check_page(limit)
    filters = {**_kind_filter(kind), "emitted": _flag(emitted), "about": subjects.wanted(about)}
    page: list[Event] = []
    for segment in reversed(segments(reads, stream)):
        if len(page) < limit:
            page += _segment_page(reads, segment, first, limit - len(page), filters)
    names = Names(reads, stream)
    # Nothing beyond it is looked at: what is good before a damaged page can be read to its end.
    full = len(page) == limit
    return Page([names.record(event) for event in page], encode_cursor(page[-1].seq) if full else None)


def _segment_page(reads: Reads, segment: Segment, after: int, limit: int, filters: dict[str, Any]) -> list[Event]:
    if after >= segment.last:
        return []
    rows = reads.query(
        Q.events_of_stream,
        touches=[(EVENTS, segment.stream)],
        stream=segment.stream,
        after=max(after, segment.first),
        upto=segment.last,
        limit=limit,
        **{**filters, "about": subjects.wanted_here(reads, segment.stream, filters.get("about"))},
    )
    return [event_of(row) for row in rows]


def _checked_after(position: int | str) -> int:
    after = seq_or_cursor(position)
    if type(after) is not int or not 0 <= after <= MAX_SEQ:
        raise Invalid(f"expected a sequence number, got {after!r}", path="after")
    return after


def _flag(emitted: bool | None) -> int | None:
    if emitted is False:
        raise Invalid(
            "emitted=False is not possible: events are all or only the emitted ones",
            path="emitted",
            hint="leave it out",
        )
    return 1 if emitted else None


def _kind_filter(kind: str | None) -> dict[str, str | None]:
    """A kind is exact, or ends in `.*`; nothing in it is a pattern of the database's."""
    if kind is None:
        return {"kind": None, "low": None, "high": None}
    name = check_kind(kind, "kind")
    if name.endswith("*"):
        return {"kind": None, "low": name[:-1], "high": name[:-2] + "/"}  # "/" follows "."
    return {"kind": name, "low": None, "high": None}


def check_kind(kind: object, path: str) -> str:
    """Accept one kind, or all below a word: `deploy.*`."""
    name = check_name(kind, path)
    if "*" in name and not _GLOB.fullmatch(name):
        raise Invalid("only 'word.*' at the end is understood", path=path)
    return name


class EventFilter(NamedTuple):
    """The shown parts of an event, as its statement gives it; newest first is the order of the first two."""

    at: int
    position: int
    stream: int
    seq: int
    kind: str
    table: str
    actor: str
    body: bytes | None  # None once it was emptied


def _filter_row(event: Event) -> EventFilter:
    return EventFilter(
        at=event.at,
        position=event.position,
        stream=event.stream,
        seq=event.seq,
        kind=event.kind,
        table=event.table,
        actor=event.actor,
        body=event.body,
    )


class Names:
    """Streams by their number and actors by their random names, so that a page asks once for each."""

    def __init__(self, reads: Reads, *streams: Stream) -> None:
        self._reads = reads
        self._actors: dict[str, str] = {}
        self._streams = {stream.id: (stream.name, stream.uid.hex(), stream.kind) for stream in streams}

    def _of(self, number: int) -> tuple[str, str, str]:
        """The name, the identity and the kind of the stream of this number."""
        if number not in self._streams:
            stream = Stream(*self._reads.query(LOG.stream_by_id, id=number)[0])
            self._streams[number] = (stream.name, stream.uid.hex(), stream.kind)
        return self._streams[number]

    def who(self, actor: str) -> str:
        """An actor as people know it; the random name itself once the directory has forgotten it."""
        if actor not in self._actors:
            rows = (
                self._reads.query(LOG.actor_named, tenant=self._reads.tenant, actor=actor) if is_random(actor) else ()
            )
            self._actors[actor] = rows[0][0] if rows else actor
        return self._actors[actor]

    def record(self, event: Event) -> EventRecord:
        """An event as people read it."""
        return self.record_of_row(_filter_row(event))

    def record_of_row(self, row: tuple[Any, ...]) -> EventRecord:
        """An event from a row of `Shown`. Its document is fetched if it lies in a blob, while there is a connection."""
        at, _, number, seq, kind, table, actor, body = row
        name, uid, of = self._streams.get(number) or self._of(number)
        actor = self._actors.get(actor) or self.who(actor)
        if body is None or body.find(b'"doc_blob"') < 0:  # not `in`, which first looks whether that is a number
            return EventRecord(
                seq=seq, kind=kind, table=table, actor=actor, _at_us=at, session=name, uid=uid,
                emptied=body is None, _stored=body, _read=_inline, stream_kind=of,
            )  # fmt: skip
        path = f"{name} seq {seq}"
        content = _content(body_of(self._reads, body, path), path)
        return EventRecord(
            seq=seq, kind=kind, table=table, actor=actor, _at_us=at, session=name, uid=uid, emptied=False,
            _stored=content, _read=stored_content, stream_kind=of,
        )  # fmt: skip


def _inline(event: EventRecord) -> EventContent:
    path = f"{event.session} seq {event.seq}"
    return _content(inline_body(event._stored, path), path)


def _content(body: Body, path: str) -> EventContent:
    data = stored_value(body.doc, path)
    return EventContent(data, tuple(body.subjects), tuple(body.refs), msgspec.to_builtins(body))


@one_state
def referred(reads: Reads, ref: Ref) -> EventRecord | None:
    """The event that a reference names, if it is of this tenant and here."""
    streams = reads.query(LOG.stream_by_uid, uid=bytes.fromhex(ref.uid), tenant=reads.tenant)
    if not streams:
        return None
    stream = Stream(*streams[0])
    rows = reads.query(LOG.event_by_seq, touches=[(EVENTS, stream.id)], stream=stream.id, seq=ref.seq)
    return Names(reads, stream).record(event_of(rows[0])) if rows else None


# --- across the store -----------------------------------------------------------------------------


@one_state
def events_across(reads: Reads, asked: EventFilters) -> Page[EventRecord]:
    """Events of the tenant, newest first, as a page. Those of a session or a run come in the order of their sequence."""
    filters = filter_params(asked)
    session, run = filters.pop("session"), filters.pop("run")
    if session is not None and run is not None:
        raise Invalid("an event is of a session or of a run", path="run", hint="give one of session= and run=")
    limit = check_page(asked.limit)
    filters |= {"emitted": _flag(asked.emitted), **_kind_filter(asked.kind)}
    filters |= between(reads, asked.since, asked.until)._asdict()
    of_one = session is not None or run is not None
    if of_one:
        rows = _of_stream(reads, "session" if run is None else "run", session or run, filters, asked.after, limit)
    else:
        rows = _of_all(reads, filters, asked.after, limit)
    more = None
    if len(rows) > limit:
        last = EventFilter(*rows[limit - 1])
        more = encode_cursor(last.seq) if of_one else encode_cursor(last.at, last.position)
    return read_rows(rows[:limit], Names(reads).record_of_row, more)


def _of_stream(
    reads: Reads, kind: str, name: str | None, filters: dict[str, Any], after: str | None, limit: int
) -> Sequence[tuple[Any, ...]]:
    rows = reads.query(LOG.stream_by_name, tenant=reads.tenant, kind=kind, name=name)
    upto = MAX_SEQ if after is None else decode_cursor(after, 1)[0] - 1
    entries: list[EventFilter] = []
    for segment in segments(reads, Stream(*rows[0]), upto) if rows else ():
        page = reads.query(
            Q.events_of_stream_back,
            stream=segment.stream,
            tenant=reads.tenant,
            after=segment.first,
            upto=segment.last,
            limit=limit + 1 - len(entries),
            **{**filters, "about": subjects.wanted_here(reads, segment.stream, filters.get("about"))},
        )
        entries += [_filter_row(event_of(row)) for row in page]
        if len(entries) > limit:
            break
    return entries


def _of_all(reads: Reads, filters: dict[str, Any], after: str | None, limit: int) -> Sequence[tuple[Any, ...]]:
    """One range of an index for each kind, merged: no more than a page of each is read, however many events
    there are.
    """
    last_at, last_pos = (None, None) if after is None else decode_cursor(after, 2)
    low, high, kind = filters.pop("low"), filters.pop("high"), filters.pop("kind")
    kinds = [kind] if kind is not None else _kinds(reads, low or "", high or _LAST_KIND, filters)
    if kind is None and low is None:  # the directory is shown to whoever asks for it
        kinds = [event_kind for event_kind in kinds if event_kind not in (NAMED, FORGOTTEN)]
    if filters["emitted"]:
        kinds = [event_kind for event_kind in kinds if not is_reserved(event_kind)]
    newest: list[tuple[Any, ...]] = []
    for event_kind, actor in product(kinds, _known_as(reads, filters.pop("actor"))):
        rows = reads.query(
            Q.events_across,
            tenant=reads.tenant,
            kind=event_kind,
            actor=actor,
            last_at=last_at,
            last_pos=last_pos,
            limit=limit + 1,
            **filters,
        )
        newest = sorted([*newest, *rows], reverse=True)[: limit + 1] if newest else rows  # no two have one position
        if len(newest) > limit:
            filters["since"] = EventFilter(*newest[-1]).at  # nothing older can be on this page
    return newest


def _kinds(reads: Reads, low: str, high: str, filters: dict[str, Any]) -> list[str]:
    emitted = filters["emitted"]
    # The index of emitted events does not know actors.
    actors = [None] if emitted else _known_as(reads, filters["actor"])
    params = {"tenant": reads.tenant, "low": low, "high": high, "emitted": emitted}
    return sorted({kind for actor in actors for (kind,) in reads.query(Q.kinds_across, actor=actor, **params)})


def _known_as(reads: Reads, actor: str | None) -> list[str | None]:
    """The names that headers have for an actor: random ones, and in chains of before the given one. [None]: any actor."""
    if actor is None:
        return [None]
    return [*(header_name for (header_name,) in reads.query(LOG.actor_of, tenant=reads.tenant, name=actor)), actor]


# --- folding --------------------------------------------------------------------------------------


def fold(
    reads: Reads,
    stream: Stream,
    reducer: Callable[[S, EventRecord], S],
    initial: S,
    *,
    upto: int,
    name: str | None = None,
) -> FoldState:
    """Fold the emitted events up to a sequence number; from a snapshot of that name, if one is before it."""
    add = plain(reducer, "reducer")
    state, after = _snapshot(reads, stream, name, upto) or (initial, 0)
    folded, last = 0, after
    for event in _emitted(reads, stream, after, upto):
        if event.emptied:
            hint = "events() returns those that are left"
            raise NotFound(f"the event {event.seq} was pruned by retention", path="at", hint=hint)
        state = add(state, event)
        folded, last = folded + 1, event.seq
    return FoldState(state, last, folded)


def _emitted(reads: Reads, stream: Stream, after: int, upto: int) -> Iterator[EventRecord]:
    names = Names(reads, stream)
    filters = {"emitted": 1}
    for segment in reversed(segments(reads, stream, upto)):
        page = _segment_page(reads, segment, after, _PAGE, filters)
        while page:
            yield from map(names.record, page)
            page = _segment_page(reads, segment, page[-1].seq, _PAGE, filters) if len(page) == _PAGE else []


def _snapshot(reads: Reads, stream: Stream, name: str | None, upto: int) -> tuple[Any, int] | None:
    if name is None:
        return None
    rows = reads.query(
        Q.snapshot_of_fold,
        touches=[(FOLD_SNAPSHOTS, stream.id)],
        stream=stream.id,
        reducer=check_name(name, "name"),
        upto=upto,
    )
    return (values.decode(bytes(rows[0][1])), rows[0][0]) if rows else None


def keep_snapshot(tx: Tx, stream: Stream, name: str, result: FoldState) -> None:
    """Keep what a named fold has come to, unless a later one is kept already. Ephemeral: losing it costs time
    only.
    """
    row = tx.row(FOLD_SNAPSHOTS, stream, name)
    if row is None or row["seq"] < result.seq:
        state = values.encode(result.state, "state")
        tx.touch(FOLD_SNAPSHOTS, {"reducer": name}, {"seq": result.seq, "state": state}, stream)
