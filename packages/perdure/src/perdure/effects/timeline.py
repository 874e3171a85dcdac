"""The work of a run, for people: its newest events with what each was about (costs what is shown, P8), and its state, to be
compared with another. Caller: handles.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from perdure.effects import ledger
from perdure.errors import Damaged, NewerSchema
from perdure.log.change import Stream
from perdure.log.event import Body
from perdure.model.limits import PAGE_MAX_ROWS, check_page
from perdure.model.records.differences import RunDiff
from perdure.model.records.timeline import TimelineRecord
from perdure.planes.audit.diff import RunStand, diff_runs
from perdure.planes.execution import runs, steps, waits
from perdure.planes.reading.body_reading import inline_body
from perdure.planes.reading.lineage import MAX_SEQ
from perdure.planes.reading.origins import check_seq
from perdure.planes.reading.paging import Page, page_by_seq, read_rows, seq_or_cursor
from perdure.planes.reading.row_reading import stored_instant
from perdure.planes.reading.sides import OtherSide
from perdure.planes.reading.snapshots import one_state
from perdure.planes.tables import EFFECTS, WAITS
from perdure.stores.batch import EVENTS
from perdure.stores.statements import Statements
from perdure.stores.store import Reads

Q = Statements("perdure.effects", "timeline.sql")

DAMAGED = "damaged"  # the subject of an event that cannot be read
_NAMES = {EFFECTS.name: (EFFECTS, "tool"), WAITS.name: (WAITS, "kind")}


@one_state
def timeline(reads: Reads, stream: Stream, *, last: int = 100, before: int | str | None = None) -> Page[TimelineRecord]:
    """The newest events of a run, oldest first; before a sequence number or the cursor of a page."""
    count = check_page(last, "last")
    upto = MAX_SEQ if before is None else check_seq(seq_or_cursor(before, "before"), "before")
    rows = reads.query(Q.timeline, touches=[(EVENTS, stream.id)], stream=stream.id, before=upto, limit=count + 1)
    page = page_by_seq(rows, count, lambda row: row[0])
    return read_rows(reversed(page), partial(_record, reads, stream), page.next)


class OutlineEntry(NamedTuple):
    """One event of a run without what it says. about, place: of the entry that it changes, if it changes one (`of`)."""

    seq: int
    at_us: int
    kind: str
    about: str
    place: str
    of: int | None


class RunOutline(NamedTuple):
    """The newest events of a run, oldest first. complete: whether there are no older ones."""

    entries: list[OutlineEntry]
    complete: bool


@one_state
def outline(reads: Reads, stream: Stream, *, most: int) -> RunOutline:
    """The newest events of a run without what they say, so many at most. Costs what is shown, in few queries."""
    rows: list[tuple[Any, ...]] = []
    complete = False
    while not complete and len(rows) < most:
        upto, limit = rows[-1][0] if rows else MAX_SEQ, min(PAGE_MAX_ROWS, most - len(rows))
        page = reads.query(Q.outline, touches=[(EVENTS, stream.id)], stream=stream.id, before=upto, limit=limit)
        rows += page
        complete = len(page) < limit or rows[-1][0] == 1
    return RunOutline([*_entries(reads, stream, rows)], complete)


def _entries(reads: Reads, stream: Stream, rows: list[tuple[Any, ...]]) -> Iterator[OutlineEntry]:
    known: dict[int | None, OutlineEntry] = {}
    for row in reversed(rows):
        seq, at, kind = row[:3]
        if type(at) is not int:
            raise Damaged(f"an instant was expected, and there is {at!r}", path=f"run {stream.name} seq {seq}")
        try:
            yield _entry(reads, stream, row, known)
        except (Damaged, NewerSchema):
            yield OutlineEntry(seq, at, kind, DAMAGED, "", None)


def _entry(reads: Reads, stream: Stream, row: tuple[Any, ...], known: dict[int | None, OutlineEntry]) -> OutlineEntry:
    seq, at, kind, table, stored = row
    body = inline_body(stored, f"run {stream.name} seq {seq}")
    doc = body.doc if isinstance(body.doc, dict) else {}
    of = body.key.get("seq") or doc.get("effect")
    place = doc.get("place") or body.set.get("place")
    if (first := known.get(of)) is not None and not place:
        return OutlineEntry(seq, at, kind, first.about, first.place, of)
    about = doc.get("name") or _child(table, body, doc) or _about(reads, stream, table, body)
    entry = OutlineEntry(seq, at, kind, str(about or ""), str(place or ""), of)
    if place:
        known[seq] = entry
    return entry


def _child(table: str, body: Body, doc: dict[str, Any]) -> Any:
    """The agent of a run that is waited for."""
    return doc.get("question") if table == WAITS.name and body.set.get("kind") == "child" else None


def between(reads: Reads, stream: Stream, other: OtherSide) -> RunDiff:
    """The differences from one run to another, or from one point of it to another."""
    return diff_runs(stand(reads, stream), other.read(reads, stand))


@one_state
def stand(reads: Reads, stream: Stream) -> RunStand:
    """The state of a run and all that it did. Costs what it did."""
    return RunStand(
        runs.run(reads, stream),
        steps.left(reads, stream),
        ledger.all_effects(reads, stream),
        waits.waits(reads, stream),
    )


def _record(reads: Reads, stream: Stream, row: tuple[Any, ...]) -> TimelineRecord:
    seq, at, kind, table, actor, stored = row
    where = f"run {stream.name} seq {seq}"
    body = inline_body(stored, where)
    doc = body.doc if isinstance(body.doc, dict) else {}
    of = body.key.get("seq") or doc.get("effect")
    about = doc.get("name") or _about(reads, stream, table, body) or ""
    place = doc.get("place") or body.set.get("place") or ""
    return TimelineRecord(
        seq=seq,
        at=stored_instant(at, where),
        kind=kind,
        actor=actor,
        about=str(about),
        place=str(place),
        of=of,
        said=body.doc,
    )


def _about(reads: Reads, stream: Stream, table: str, body: Body) -> Any:
    """The subject of the row of an event: the event that made it says so, later ones name the row."""
    if table not in _NAMES:
        return body.set.get("name") or body.set.get("reason")
    declared, column = _NAMES[table]
    if column in body.set:
        return body.set[column]
    found = reads.row(declared, stream, body.key.get("seq"))
    return found[column] if found else None
