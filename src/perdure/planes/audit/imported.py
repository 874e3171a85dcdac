"""Imported streams: which events are copies of another store's, and what their streams are called here (docs/decisions/0014).

An imported chain is the same chain, so nothing can be written into it that its original does not have. A difference here (a name,
and that nobody may continue a copy as if it were the original) is said in the tenant's own stream, and taken into account
wherever the events of the copy become rows: when they come in (`stores.replay`) and when they are verified
(`planes.audit.rebuild`). So a copy's runs are parked, and its effects are of no epoch of ours: whatever is open in them is
doubt. Events recorded here after the copied ones are our own. Callers: bundles, moves, verify, time. Keeps P3, P4, P5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from perdure.log.change import Change, Op, Stream
from perdure.log.event import Body
from perdure.log.table import Table
from perdure.model.records.runs import ENDED
from perdure.planes.execution.parked_runs import IMPORTED
from perdure.planes.execution.runs import PARKED
from perdure.planes.reading.body_reading import body_of
from perdure.planes.reading.row_reading import stored_as, stored_fields
from perdure.planes.tables import EFFECTS, RUNS, SESSIONS
from perdure.stores.replay import Seen, register_meaning
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

Q = Statements("perdure.planes.audit", "imported.sql")

NOTED = "tenant.imported"
TENANT = "tenant"  # the kind and the name of a tenant's own stream
NOTE_EVENTS = 500  # that came empty, in one note
NO_EPOCH = 0  # of no store: what was planned or dispatched elsewhere is not ours to continue


class Copied(NamedTuple):
    """A stream that came from another store: its name here, that of a run's session (None: that is not here), and which events
    are copies. emptied: those that came without a body, pruned by an event that did not come with them.
    """

    name: str
    session: str | None
    spans: tuple[tuple[int, int], ...]  # after one event, up to another
    emptied: frozenset[int] = frozenset()

    def holds(self, seq: int) -> bool:
        """Whether this event is a copy."""
        return any(after < seq <= upto for after, upto in self.spans)

    def seen(self, table: Table | None, seq: int, body: Body) -> Body:
        """The meaning of an event here."""
        if table is RUNS:
            body.set = self._named(body.set, "session", self.session) | (_parked(body.set) if self.holds(seq) else {})
        elif table is EFFECTS and "epoch" in body.set and self.holds(seq):
            body.set = body.set | {"epoch": NO_EPOCH}
        elif table is SESSIONS:
            body.set = self._named(body.set, "name", self.name)
        return body

    @staticmethod
    def _named(columns: dict[str, Any], column: str, name: str | None) -> dict[str, Any]:
        return columns | {column: name} if columns.get(column) is not None else columns


class _Note(msgspec.Struct):
    """The document of a note, as `note` makes it, and the stream that it refers to."""

    uid: str
    called: str
    after: int
    upto: int
    session: str | None = None
    emptied: tuple[int, ...] = ()


def _parked(columns: dict[str, Any]) -> dict[str, Any]:
    """The fate of a run that is not over: a person must say that it continues here."""
    epoch = {"epoch": NO_EPOCH} if "epoch" in columns else {}
    if columns.get("status") is None or columns["status"] in ENDED:
        return epoch
    return epoch | {"status": PARKED.value, "reason": IMPORTED, "holder": None, "wake_at": None}


class ImportedSpan(NamedTuple):
    """Events of a stream that come in: after one, up to another, and those of them that no prune among them emptied."""

    after: int
    upto: int
    emptied: list[int]


def spans(after: int, upto: int, emptied: Iterable[int]) -> Iterator[ImportedSpan]:
    """The spans, in pieces of which each makes a small note."""
    fresh = [seq for seq in emptied if after < seq <= upto]
    *pages, last = [fresh[at : at + NOTE_EVENTS] for at in range(0, len(fresh), NOTE_EVENTS)] or [[]]
    for page in pages:
        yield ImportedSpan(after, page[-1], page)
        after = page[-1]
    yield ImportedSpan(after, upto, last)


def note(tx: Tx, stream: Stream, session: str | None, span: ImportedSpan, bundle: str) -> None:
    """Say that these events of a stream are copies, out of which bundle they came, and what it is called here."""
    own = tx.find_stream(TENANT, TENANT) or tx.new_stream(TENANT, TENANT)
    doc = {"name": TENANT, "called": stream.name, "after": span.after, "upto": span.upto, "bundle": bundle}
    doc |= {} if session is None else {"session": session}
    doc |= {"emptied": span.emptied} if span.emptied else {}
    tx.record(Change("tenant.imported", own, None, Op.NOTE, doc=doc, refs=[stream.ref(span.upto)]))


def note_copies(tx: Tx, stream: Stream, copied: Copied, after: int) -> None:
    """Say the same of a stream that comes out of another log: which of its events after one are copies."""
    for first, upto in copied.spans:
        if upto > after:
            for span in spans(max(first, after), upto, sorted(copied.emptied)):
                note(tx, stream, copied.session, span, "")


def of_stream(reads: Reads, stream: Stream) -> Copied | None:
    """The differences here of a stream that was imported; None for any other."""
    notes = [_note(reads, *row) for row in reads.query(Q.imported_of, uid=stream.uid, tenant=stream.tenant)]
    return _copied(notes) if notes else None


def seen_of(reads: Reads, stream: Stream) -> Seen | None:
    """The meaning of the events of a stream here, for `stores.replay`; None if they mean what they say."""
    copied = of_stream(reads, stream)
    return copied.seen if copied else None


def of_tenant(reads: Reads, tenant: int) -> dict[str, Copied]:
    """The differences of every imported stream of a tenant, by uid."""
    return noted(reads, (body for (body,) in reads.query(Q.imported_all, tenant=tenant)))


def noted(reads: Reads, bodies: Iterable[bytes | None]) -> dict[str, Copied]:
    """The statements of notes, in their order, about every stream, by uid."""
    found: dict[str, list[_Note]] = {}
    for body in bodies:
        said = _note(reads, body)
        found.setdefault(said.uid, []).append(said)
    return {uid: _copied(notes) for uid, notes in found.items()}


def _note(reads: Reads, stored: bytes | None) -> _Note:
    body = body_of(reads, stored, NOTED)
    fields = stored_fields(body.doc, NOTED) | {"uid": next((ref.uid for ref in body.refs), None)}
    return stored_as(_Note, fields, "note of an import", NOTED)


def _copied(notes: list[_Note]) -> Copied:
    """All notes about one stream; the newest says what it is called."""
    emptied = frozenset(seq for each in notes for seq in each.emptied if each.after < seq <= each.upto)
    return Copied(notes[-1].called, notes[-1].session, tuple((each.after, each.upto) for each in notes), emptied)


register_meaning(seen_of)
