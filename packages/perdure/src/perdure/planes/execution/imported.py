"""Imported streams: which events are copies of another store's, and what their streams are called here (docs/decisions/0014).

An imported chain is the same chain, so nothing can be written into it that its original does not have. A difference here (a name,
and that nobody may continue a copy as if it were the original) is said in the tenant's own stream, and taken into account
wherever the events of the copy become rows: when they come in (`stores.replay`) and when they are verified
(`planes.audit.rebuild`). So a copy's runs are parked, and its effects are of no epoch of ours: whatever is open in them is
doubt. Events recorded here after the copied ones are our own.

A key that a copy holds is no answer to a caller here: nothing was done for that caller. It raises Imported until a person takes
the stream over (`unpark`), or the copy gives its keys up. Callers: bundles, moves, verify, time; every lookup by a key. Keeps P3,
P4, P5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from perdure.errors import Conflict, Imported
from perdure.log.change import Change, Op, Stream
from perdure.log.event import Body
from perdure.log.table import Table
from perdure.model.limits import KEY_MAX_CHARS
from perdure.model.records.runs import ENDED, RunStatus
from perdure.planes.execution.parked_runs import IMPORTED
from perdure.planes.reading.body_reading import body_of
from perdure.planes.reading.row_reading import stored_as, stored_fields
from perdure.planes.tables import EFFECTS, ENTRIES, RUNS, SESSIONS, TASKS
from perdure.stores.batch import EVENTS
from perdure.stores.replay import Seen, register_meaning
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

Q = Statements("perdure.planes.execution", "imported.sql")

NOTED = "tenant.imported"
TENANT = "tenant"  # the kind and the name of a tenant's own stream
NOTE_EVENTS = 500  # that came empty, in one note
NO_EPOCH = 0  # of no store: what was planned or dispatched elsewhere is not ours to continue
REQUESTS = "requests/"  # begins the name of the scope with the marks of a session's or run's requests
GIVEN_UP = "copy "  # begins the key of an effect whose own was given up; a row of this table has a key
KEYED = frozenset({RUNS, EFFECTS, TASKS})  # tables whose keys keep a caller from doing something anew


class Copied(NamedTuple):
    """A stream that came from another store: its name here, that of a run's session (None: that is not here), and which events
    are copies. emptied: those that came without a body, pruned by an event that did not come with them. apart: the spans whose
    keys are not held here. outcomes: those in which what became of a run or an effect that was begun here is of no epoch, too.
    """

    name: str
    session: str | None
    spans: tuple[tuple[int, int], ...]  # after one event, up to another
    emptied: frozenset[int] = frozenset()
    apart: tuple[tuple[int, int], ...] = ()
    outcomes: tuple[tuple[int, int], ...] = ()

    def holds(self, seq: int) -> bool:
        """Whether this event is a copy."""
        return _is_in(self.spans, seq)

    def _keyless(self, table: Table | None, seq: int, columns: dict[str, Any]) -> dict[str, Any]:
        """The columns of a row whose key was given up on the way in."""
        if table not in KEYED or columns.get("key") is None or not _is_in(self.apart, seq):
            return columns
        return columns | {"key": _given_up(table, seq, columns)}

    def translate(self, table: Table | None, seq: int, body: Body) -> Body:
        """The meaning of an event here."""
        if self.apart:
            body.set = self._keyless(table, seq, body.set)
        if table is RUNS:
            columns = self._with_name(body.set, "session", self.session)
            body.set = columns | (
                self._of_no_epoch("status", seq, columns) | _parked(columns) if self.holds(seq) else {}
            )
        elif table is EFFECTS and self.holds(seq):
            body.set = body.set | self._of_no_epoch("state", seq, body.set)
        elif table is SESSIONS:
            body.set = self._with_name(body.set, "name", self.name)
        return body

    def _of_no_epoch(self, state: str, seq: int, columns: dict[str, Any]) -> dict[str, Any]:
        is_told = "epoch" in columns or (state in columns and _is_in(self.outcomes, seq))
        return {"epoch": NO_EPOCH} if is_told else {}

    @staticmethod
    def _with_name(columns: dict[str, Any], column: str, name: str | None) -> dict[str, Any]:
        return columns | {column: name} if columns.get(column) is not None else columns


class _Note(msgspec.Struct):
    """The document of a note, as `note` makes it, and the stream that it refers to."""

    uid: str
    called: str
    after: int
    upto: int
    session: str | None = None
    emptied: tuple[int, ...] = ()
    apart: bool = False
    outcomes: bool = False


def _is_in(spans: tuple[tuple[int, int], ...], seq: int) -> bool:
    return any(after < seq <= upto for after, upto in spans)


def _given_up(table: Table | None, seq: int, row: Mapping[str, Any]) -> str | None:
    """The key of a row that gave its own up. An effect of a run keeps its own: the run's replay finds it there, and no other
    caller looks for it.
    """
    if table is not EFFECTS:
        return None
    return row["key"] if row["place"] is not None else f"{GIVEN_UP}{seq}: {row['key']}"[:KEY_MAX_CHARS]


def _parked(columns: dict[str, Any]) -> dict[str, Any]:
    """The fate of a run that is not over: a person must say that it continues here."""
    if columns.get("status") is None or columns["status"] in ENDED:
        return {}
    return {"status": RunStatus.PARKED.value, "reason": IMPORTED, "holder": None, "wake_at": None}


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


def note(
    tx: Tx,
    stream: Stream,
    session: str | None,
    span: ImportedSpan,
    bundle: str,
    *,
    apart: bool = False,
    outcomes: bool = True,
) -> None:
    """Say that these events of a stream are copies, out of which bundle they came, and what it is called here."""
    own = tx.find_stream(TENANT, TENANT) or tx.new_stream(TENANT, TENANT)
    doc = {"name": TENANT, "called": stream.name, "after": span.after, "upto": span.upto, "bundle": bundle}
    doc |= {} if session is None else {"session": session}
    doc |= {"emptied": span.emptied} if span.emptied else {}
    doc |= ({"apart": True} if apart else {}) | ({"outcomes": True} if outcomes else {})
    tx.record(Change("tenant.imported", own, None, Op.NOTE, doc=doc, refs=[stream.ref(span.upto), stream.ref(0)]))


def note_copies(tx: Tx, stream: Stream, copied: Copied, after: int) -> None:
    """Say the same of a stream that comes out of another log: which of its events after one are copies."""
    for first, upto in copied.spans:
        if upto > after:
            for span in spans(max(first, after), upto, sorted(copied.emptied)):
                facts = {"apart": (first, upto) in copied.apart, "outcomes": (first, upto) in copied.outcomes}
                note(tx, stream, copied.session, span, "", **facts)


def of_stream(reads: Reads, stream: Stream) -> Copied | None:
    """The differences here of a stream that was imported; None for any other."""
    notes = [_note(reads, body) for _, body in reads.query(Q.imported_of, uid=stream.uid, tenant=stream.tenant)]
    return _copied(notes) if notes else None


def translation_of(reads: Reads, stream: Stream) -> Seen | None:
    """The meaning of the events of a stream here, for `stores.replay`; None if they mean what they say."""
    copied = of_stream(reads, stream)
    return copied.translate if copied else None


def of_tenant(reads: Reads, tenant: int) -> dict[str, Copied]:
    """The differences of every imported stream of a tenant, by uid."""
    return noted(reads, (body for (body,) in reads.query(Q.imported_all, tenant=tenant)))


def noted(reads: Reads, bodies: Iterable[bytes | None]) -> dict[str, Copied]:
    """The statements of notes, in their order, about every stream, by uid."""
    by_uid: dict[str, list[_Note]] = {}
    for body in bodies:
        note = _note(reads, body)
        by_uid.setdefault(note.uid, []).append(note)
    return {uid: _copied(notes) for uid, notes in by_uid.items()}


def _note(reads: Reads, stored: bytes | None) -> _Note:
    body = body_of(reads, stored, NOTED)
    fields = stored_fields(body.doc, NOTED) | {"uid": next((ref.uid for ref in body.refs), None)}
    return stored_as(_Note, fields, "note of an import", NOTED)


def _copied(notes: list[_Note]) -> Copied:
    """All notes about one stream; the newest says what it is called."""
    emptied = frozenset(seq for note in notes for seq in note.emptied if note.after < seq <= note.upto)
    spans = tuple((note.after, note.upto) for note in notes)
    apart = tuple((note.after, note.upto) for note in notes if note.apart)
    outcomes = tuple((note.after, note.upto) for note in notes if note.outcomes)
    return Copied(notes[-1].called, notes[-1].session, spans, emptied, apart, outcomes)


# -- keys, and taking over -----------------------------------------------------------------------------------------------


def is_copy(reads: Reads, stream: Stream, *seqs: int | None) -> bool:
    """Whether one of these events came by import, and nobody took its stream over since."""
    copied = of_stream(reads, stream)
    newest = max((seq for seq in seqs if seq is not None and copied and copied.holds(seq)), default=None)
    return newest is not None and not _is_taken_over(reads, stream, newest)


def _is_taken_over(reads: Reads, stream: Stream, after: int) -> bool:
    touches = [(EVENTS, stream.id)]
    return bool(reads.query(Q.taken_over, touches=touches, stream=stream.id, after=after))


def is_apart(reads: Reads, stream: Stream, seq: int | None) -> bool:
    """Whether an event came by import without its keys."""
    copied = of_stream(reads, stream)
    return seq is not None and copied is not None and _is_in(copied.apart, seq)


def held_marks(reads: Reads, stream: Stream, marks: Stream) -> list[str]:
    """The keys of requests of a session or run whose answers came by import, and are held here. marks: their scope."""
    copied = of_stream(reads, marks)
    if copied is None or _is_taken_over(reads, stream, 0):
        return []
    rows = reads.query(Q.marks_keyed, touches=[(ENTRIES, marks.id)], stream=marks.id)
    return [name for name, seq in rows if copied.holds(seq) and not _is_in(copied.apart, seq)]


def check_own(reads: Reads, stream: Stream, key: str, *seqs: int | None) -> None:
    """Imported if what stands under a key is a copy. seqs: the events that gave it, and its outcome."""
    if is_copy(reads, stream, *seqs):
        raise _held(stream, key)


def check_taken_over(reads: Reads, stream: Stream, key: str) -> None:
    """Imported unless a person took the stream over for which a key stands elsewhere, in what came by import."""
    if not _is_taken_over(reads, stream, 0):
        raise _held(stream, key)


def _held(stream: Stream, key: str) -> Imported:
    which = {"run" if stream.kind == "run" else "session": stream.name}
    return Imported(
        f"the key {key!r} is held by {stream.kind} {stream.name}, a copy that came by import: nothing was done here",
        path="key",
        hint=f"`perdure unpark {stream.name}` lets its record answer here from now on; `perdure import --keys-apart` of its "
        "bundle, or `perdure delete` of its session, makes it give its keys up",
        key=key,
        **which,
    )


def take_over(tx: Tx, stream: Stream) -> None:
    """Say that a copy that does not continue (a session, a run that is over) answers here from now on. Once is enough."""
    if not _is_taken_over(tx, stream, 0):
        kind = "run.taken_over" if stream.kind == "run" else "session.taken_over"
        tx.record(Change(kind, stream, None, Op.NOTE))


def unpark_session(tx: Tx, stream: Stream) -> None:
    """The verb behind `session.unpark`. Conflict for a session that did not come by import."""
    requests = tx.find_stream("scope", f"{REQUESTS}{stream.uid.hex()}")
    if of_stream(tx, stream) is None and (requests is None or of_stream(tx, requests) is None):
        raise Conflict(f"session {stream.name} did not come by import", path="session")
    take_over(tx, stream)


def give_keys_up(tx: Tx, stream: Stream) -> None:
    """Free the keys of a copy that nobody took over. Nothing for any other stream. It can no longer grow with its original."""
    for table, statement, kind in (
        (RUNS, Q.run_keyed, "run.key_given_up"),
        (EFFECTS, Q.effects_keyed, "effect.key_given_up"),
        (TASKS, Q.tasks_keyed, "task.key_given_up"),
    ):
        for seq, key, place in tx.query(statement, touches=[(table, stream.id)], stream=stream.id):
            given_up = _given_up(table, seq, {"key": key, "place": place})
            if given_up != key and not key.startswith(GIVEN_UP) and is_copy(tx, stream, seq):
                at = {"seq": seq} if table is not RUNS else {}
                tx.record(Change(kind, stream, table, Op.SET, at, {"key": given_up}))


def runs_of(reads: Reads, session: Stream) -> list[Stream]:
    """The runs of a session."""
    return [Stream(*row) for row in reads.query(Q.runs_of_session, tenant=session.tenant, session=session.name)]


register_meaning(translation_of)
