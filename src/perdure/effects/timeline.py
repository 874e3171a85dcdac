"""The timeline of a run: its newest events with what each was about, for people. Costs what is shown (P8). Caller: handles."""

from __future__ import annotations

from typing import Any

from perdure.log.change import Stream
from perdure.log.event import Body
from perdure.model.limits import check_page
from perdure.model.records.timeline import TimelineRecord
from perdure.planes.documents import inline_body
from perdure.planes.lineage import MAX_SEQ
from perdure.planes.origins import check_seq
from perdure.planes.snapshots import one_state
from perdure.planes.stored import stored_instant
from perdure.planes.tables import EFFECTS, WAITS
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import EVENTS

Q = Statements("perdure.effects", "timeline.sql")

_NAMES = {EFFECTS.name: (EFFECTS, "tool"), WAITS.name: (WAITS, "kind")}


@one_state
def timeline(reads: Reads, stream: Stream, *, last: int = 100, before: int | None = None) -> list[TimelineRecord]:
    """The newest events of a run, oldest first; `before` is a sequence number."""
    upto = MAX_SEQ if before is None else check_seq(before, "before")
    rows = reads.query(
        Q.timeline, touches=[(EVENTS, stream.id)], stream=stream.id, before=upto, limit=check_page(last, "last")
    )
    return [_record(reads, stream, row) for row in reversed(rows)]


def _record(reads: Reads, stream: Stream, row: tuple[Any, ...]) -> TimelineRecord:
    seq, at, kind, table, actor, stored = row
    where = f"run {stream.name} seq {seq}"
    body = inline_body(stored, where)
    doc = body.doc if isinstance(body.doc, dict) else {}
    of = body.key.get("seq") or doc.get("effect")
    about = doc.get("name") or _about(reads, stream, table, body) or ""
    place = doc.get("place") or body.set.get("place") or ""
    return TimelineRecord(seq, stored_instant(at, where), kind, actor, str(about), str(place), of, body.doc)


def _about(reads: Reads, stream: Stream, table: str, body: Body) -> Any:
    """What the row of an event is about: the event that made it says so, later ones name the row."""
    if table not in _NAMES:
        return body.set.get("name") or body.set.get("reason")
    declared, column = _NAMES[table]
    if column in body.set:
        return body.set[column]
    found = reads.row(declared, stream, body.key.get("seq"))
    return found[column] if found else None
