"""The envelope of a run: what is needed to continue it, what is recommended about its doubts, and a verdict.

Bounded (P8): it holds what came since the last cut, at most two documents of 8 KiB for each entry (larger ones are blobs, which
it names), so that a run that checkpoints has an envelope of the same size however long it runs. `hand_over` makes one and, in
the same commit, lets the run continue only where the envelope is adopted (`effects.adopting`). Callers: the handles of runs.
Keeps P3, P4, P13.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import msgspec

from perdure.effects import ledger, settling
from perdure.effects.settling import Action, Advice
from perdure.effects.tool import DECLARED
from perdure.errors import Conflict, Damaged, TooLarge
from perdure.log.change import Stream
from perdure.log.table import Row
from perdure.model.instants import instant_us, to_datetime
from perdure.model.records.effects import EffectError, EffectRecord, EffectState, ToolKind
from perdure.model.records.envelope import (
    CHILDREN_MAX_DEPTH,
    CheckpointPart,
    Cursor,
    Document,
    EffectPart,
    Envelope,
    PendingEffect,
    RunPart,
    RunVerdict,
    SignalPart,
    Standing,
    StepPart,
    WaitPart,
)
from perdure.model.records.runs import ENDED, RunRecord, RunStatus, WaitKind, WaitState
from perdure.planes import subjects
from perdure.planes.conversation import sessions
from perdure.planes.execution import parked_runs, pin_columns, runs, waits
from perdure.planes.execution.steps import bodies
from perdure.planes.reading.body_reading import doc_of, inline_body
from perdure.planes.reading.durations import store_now
from perdure.planes.reading.row_reading import stored_fields
from perdure.planes.reading.snapshots import one_state
from perdure.planes.recovery import checkpoints, presence
from perdure.planes.tables import EFFECTS, SIGNALS, WAITS
from perdure.stores.batch import EVENTS
from perdure.stores.core import Core
from perdure.stores.past_store import PastReader
from perdure.stores.statements import Statements
from perdure.stores.store import Reads, event_of
from perdure.stores.tx import LOG, Tx

Q = Statements("perdure.effects", "envelope.sql")

SEND, UNDO = "send", "undo"  # the recommendations besides the actions of settling

P = TypeVar("P", bound=msgspec.Struct)
_EFFECT = EffectPart.__struct_fields__[:-2]  # the columns: all but its two documents
_WAIT = WaitPart.__struct_fields__[:-2]


class EnvelopeWitness(NamedTuple):
    """The knowledge where the envelope is made: the store, the holders that are proved dead, the tools can be probed here."""

    store: str
    epoch: int
    dead: frozenset[str] = frozenset()
    probes: frozenset[str] = frozenset()


def witness_of(core: Core, holders: Iterable[str]) -> EnvelopeWitness:
    """The knowledge of an open store about these holders."""
    dead = frozenset(each for each in holders if core.liveness.is_dead(each))
    probes = frozenset(name for name, tool in DECLARED.items() if tool.probe is not None)
    return EnvelopeWitness(core.uid, core.epoch, dead, probes)


# -- making ----------------------------------------------------------------------------------------------------------------


@one_state
def envelope(reads: Reads, stream: Stream, witness: EnvelopeWitness) -> Envelope:
    """The envelope of a run and of the runs that it waits for. Changes nothing."""
    return _envelope(reads, stream, witness, sealed=False, depth=0)


@one_state
def verdict(reads: Reads, stream: Stream, witness: EnvelopeWitness) -> RunVerdict:
    """The verdict of a run's envelope, without reading its steps: it costs what is open, however much was done."""
    return _judged(reads, stream, witness, depth=0)


def _judged(reads: Reads, stream: Stream, witness: EnvelopeWitness, *, depth: int) -> RunVerdict:
    _check_depth(stream, depth)
    row = runs.row_of(reads, stream)
    children = [(each.name, _judged(reads, each, witness, depth=depth + 1)) for each in _children_beside(reads, stream)]
    return _verdict(
        runs.run(reads, stream),
        _all_pending(reads, stream, row, witness),
        _waits(reads, stream, row["cut_seq"]),
        children,
    )


def _check_depth(stream: Stream, depth: int) -> None:
    if depth > CHILDREN_MAX_DEPTH:
        raise TooLarge(f"runs wait for runs, more than {CHILDREN_MAX_DEPTH} deep", path=f"run {stream.name}")


def _envelope(reads: Reads, stream: Stream, witness: EnvelopeWitness, *, sealed: bool, depth: int) -> Envelope:
    _check_depth(stream, depth)
    row = runs.row_of(reads, stream)
    after, now_us = row["cut_seq"], store_now(reads)
    steps = [StepPart(seq=seq, meant=_document(body)) for seq, body in bodies(reads, stream, after)]
    effects = [_quieted(part, witness, now_us) for part in _effects(reads, stream, after)]
    found = _waits(reads, stream, after)
    signals = _signals(reads, stream)
    beside = _children_beside(reads, stream)
    children = [_envelope(reads, child, witness, sealed=sealed, depth=depth + 1) for child in beside]
    judged = [(each.run.name, each.verdict) for each in children]
    checkpoint = _checkpoint(reads, stream, row)
    pending = _all_pending(reads, stream, row, witness)
    run = _run(reads, stream, row, witness.epoch)
    made = Envelope(
        store=witness.store, epoch=witness.epoch, made_at=now_us, sealed=sealed, run=run,
        cursor=_cursor(reads, stream, row, steps, len(steps) + len(effects) + len(found)),
        verdict=_verdict(runs.run(reads, stream), pending, found, judged), pending=tuple(pending),
        pins=run.pins | _pins(reads, steps) or None, workspace=_workspace(reads, checkpoint), checkpoint=checkpoint,
        steps=tuple(steps), effects=tuple(effects),
        waits=tuple(found), signals=tuple(signals), children=tuple(children),
    )  # fmt: skip
    return msgspec.structs.replace(made, artifacts=tuple(sorted(set(_named(made)))))


def _document(stored: bytes | None) -> Document:
    body = inline_body(stored)
    named = tuple(body.subjects)
    return Document(blob=body.doc_blob, subjects=named) if body.doc_blob else Document(doc=body.doc, subjects=named)


def _part(part: type[P], fields: dict[str, Any]) -> P:
    """A row as a part. Damaged when no envelope may say so: an imported history says what it likes."""
    try:
        return msgspec.convert(fields, part, from_attributes=True)
    except msgspec.ValidationError as error:
        raise Damaged(f"the stored data has no place in an envelope: {error}", path="envelope") from None


def _parts(part: type[P], names: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> list[P]:
    """Rows with their two documents as parts."""
    found = []
    for *columns, meant, became in rows:
        fields = dict(zip(names, columns, strict=True))
        fields["meant"] = _document(meant)
        fields["became"] = None if became is None else _document(became)
        found.append(_part(part, fields))
    return found


def _waits(reads: Reads, stream: Stream, after: int) -> list[WaitPart]:
    rows = reads.query(Q.waits_kept, touches=[(WAITS, stream.id)], stream=stream.id, after=after)
    return _parts(WaitPart, _WAIT, rows)


def _all_pending(reads: Reads, stream: Stream, row: Row, witness: EnvelopeWitness) -> list[PendingEffect]:
    now_us = store_now(reads)
    return [_pending(reads, stream, row, record, witness, now_us) for record in _open_effects(reads, stream)]


def _effects(reads: Reads, stream: Stream, after: int) -> list[EffectPart]:
    rows = reads.query(Q.effects_kept, touches=[(EFFECTS, stream.id)], stream=stream.id, after=after)
    return _parts(EffectPart, _EFFECT, rows)


def _signals(reads: Reads, stream: Stream) -> list[SignalPart]:
    rows = reads.query(Q.signals_kept, touches=[(SIGNALS, stream.id)], stream=stream.id)
    return [SignalPart(seq=seq, name=name, meant=_document(body)) for seq, name, body in rows]


def _open_effects(reads: Reads, stream: Stream) -> list[EffectRecord]:
    """Effects that are not settled: a cut refuses to leave any behind it, so that they are all after the last one."""
    return ledger.all_effects(reads, stream, after=runs.row_of(reads, stream)["cut_seq"], open_only=True)


def _children_beside(reads: Reads, stream: Stream) -> list[Stream]:
    """The children of a run that lie in the same store; in the past there are none, because each is a past of its own."""
    return [] if isinstance(reads, PastReader) else _children(reads, stream)


def _children(reads: Reads, stream: Stream) -> list[Stream]:
    """The runs that a run waits for, and those that were tried again with it and that it has not come to since: left behind,
    such a one would be begun anew elsewhere, and do again what it did.
    """
    found = {each.name: runs.find(reads, each.name) for each in waits.waiting(reads, stream, kind=WaitKind.CHILD)}
    for each in waits.waits(reads, stream, runs.row_of(reads, stream)["cut_seq"]):
        if each.kind is WaitKind.CHILD and each.state is WaitState.WITHDRAWN and each.name not in found:
            child = waits.own_child(reads, stream, each.name)
            if child is not None and RunStatus(runs.row_of(reads, child)["status"]) not in ENDED:
                found[each.name] = child
    return [*found.values()]


def _quieted(part: EffectPart, witness: EnvelopeWitness, now_us: int) -> EffectPart:
    """An effect whose sender is proved dead here can say so elsewhere, where its lock file is not to be had."""
    flying = part.state in (EffectState.DISPATCHED, EffectState.IN_DOUBT)
    if flying and part.quiet_at is None and part.holder in witness.dead:
        return msgspec.structs.replace(part, quiet_at=now_us)
    return part


def _event(reads: Reads, stream: Stream, seq: int | None) -> bytes | None:
    rows = (
        [] if seq is None else reads.query(LOG.event_by_seq, touches=[(EVENTS, stream.id)], stream=stream.id, seq=seq)
    )
    return event_of(rows[0]).body if rows else None


def _run(reads: Reads, stream: Stream, row: Row, epoch: int) -> RunPart:
    became = _event(reads, stream, row["outcome_seq"])
    kept = (
        "name", "agent", "status", "digest", "creator", "created_at", "token", "program", "key", "session", "parent",
        "ended_at", "timeout_at", "reason",
    )  # fmt: skip
    pins, change = pin_columns.of_row(row)
    pinned = None if row["session"] is None else sessions.pins_by_name(reads, row["session"])
    fields = {name: row[name] for name in kept} | {
        "pins": pins, "pins_change": change, "on_change": row["on_change"], "session_pins": pin_columns.as_document(pinned),
        "cancelling": bool(row["cancelling"]), "pinned": bool(row["pinned"]),
        "restored": row["known_seq"] is not None or row["epoch"] != epoch,
    }  # fmt: skip
    documents = {
        "given": _document(_event(reads, stream, row["doc_seq"])),
        "became": None if became is None else _document(became),
    }
    return _part(RunPart, {"uid": stream.uid.hex(), "subjects": subjects.in_row(row), **fields, **documents})


def _checkpoint(reads: Reads, stream: Stream, row: Row) -> CheckpointPart | None:
    if not row["cuts"]:
        return None
    found = checkpoints.listing(reads, stream, name="default", limit=1).whole()
    if not found:
        raise Damaged("the run was cut, and has no checkpoint", path=f"run {stream.name}")
    about = _document(_event(reads, stream, row["cut_seq"]))
    named = tuple(subjects.so_far(reads, stream, row["cut_seq"]))
    return CheckpointPart(
        root=found[0].hash, size=found[0].size, at=instant_us(found[0].at, 0), about=about, subjects=named
    )


def _cursor(reads: Reads, stream: Stream, row: Row, steps: list[StepPart], done: int) -> Cursor:
    seq, digest = reads.query(LOG.stream_head, touches=[(EVENTS, stream.id)], stream=stream.id)[0]
    newest = _said(reads, steps[-1].meant) if steps else {}
    last = f"{newest.get('place')} {newest.get('name')}" if newest else ""
    return Cursor(seq=seq, hash=bytes(digest).hex(), cut=row["cuts"], cut_seq=row["cut_seq"], done=done, last=last)


def _said(reads: Reads, document: Document) -> dict[str, Any]:
    """The fields of a document, wherever it lies."""
    body = msgspec.json.encode({"op": "note", "doc": document.doc, "doc_blob": document.blob})
    return stored_fields(doc_of(reads, body), "document")


def _pins(reads: Reads, steps: list[StepPart]) -> dict[str, Any]:
    """The pins of the newest step that called a model; its answer may be long, and lie elsewhere."""
    for step in reversed(steps):
        notes = _said(reads, step.meant).get("notes")
        if isinstance(notes, dict) and isinstance(notes.get("model"), dict) and notes["model"]:
            return notes["model"]
    return {}


def _workspace(reads: Reads, checkpoint: CheckpointPart | None) -> Any:
    return None if checkpoint is None else _said(reads, checkpoint.about).get("workspace")


def documents(made: Envelope) -> Iterator[Document]:
    """Every document of an envelope, its children's left out."""
    yield made.run.given
    if made.run.became is not None:
        yield made.run.became
    if made.checkpoint is not None:
        yield made.checkpoint.about
    for part in (*made.steps, *made.signals):
        yield part.meant
    for part in (*made.effects, *made.waits):
        yield part.meant
        if part.became is not None:
            yield part.became


def _named(made: Envelope) -> Iterator[str]:
    """The blobs that an envelope names, its children's included."""
    yield from (each.blob for each in documents(made) if each.blob)
    if made.checkpoint is not None:
        yield made.checkpoint.root
    for child in made.children:
        yield from child.artifacts


# -- what is recommended -----------------------------------------------------------------------------------------------------


def _pending(
    reads: Reads, stream: Stream, row: Row, record: EffectRecord, witness: EnvelopeWitness, now_us: int
) -> PendingEffect:
    unsent = record.state is EffectState.PLANNED and record.epoch == witness.epoch
    advice = _unsent(reads, stream, record) if unsent else _advice(reads, row, record, witness, now_us)
    in_doubt = not unsent and record.state is not EffectState.UNDOING
    return PendingEffect(
        id=record.id, tool=record.tool, kind=record.kind, state=record.state, key=record.key, handed=record.sent_key,
        attempt=record.attempt, action=str(advice.action), reason=advice.reason, until=advice.until_us,
        undo=record.rule.undo, undo_idempotent=record.rule.undo_idempotent,
        undoes=f"run:{stream.name}/{record.undoes}" if record.undoes else "",
        settle=settling.ways_out(record) if in_doubt else "",
    )  # fmt: skip


class _Advised(NamedTuple):
    action: str
    reason: str
    until_us: int | None = None


def _unsent(reads: Reads, stream: Stream, record: EffectRecord) -> _Advised:
    asked = waits.for_effect(reads, stream, record.seq)
    if asked is not None and asked.state is WaitState.OPEN:
        return _Advised(Action.WAIT, f"nothing was sent; it is sent when {asked.id} is approved")
    return _Advised(SEND, "nothing was sent; it is sent when the run continues")


def _advice(reads: Reads, row: Row, record: EffectRecord, witness: EnvelopeWitness, now_us: int) -> _Advised:
    """The advice about an effect that may have been sent, by the table of settling; nothing is done."""
    holder = record.holder or ""
    if record.state is EffectState.UNDOING:
        return _Advised(UNDO, "its undo is an effect of its own, and continues with the run")
    if record.state is EffectState.DISPATCHED and holder not in witness.dead and presence.is_alive(reads, holder):
        return _Advised(Action.WAIT, f"{holder} is sending it")
    if record.quiet_at is None and holder in witness.dead:
        record = msgspec.structs.replace(record, quiet_at=to_datetime(now_us))
    can_probe = record.kind is ToolKind.PROBED or record.tool in witness.probes
    wake_us = row["wake_at"] if row["status"] == RunStatus.WAITING and row["reason"] == "doubt" else None
    if can_probe and wake_us is not None and settling.advise(record, now_us, can_probe=True).action is Action.PROBE:
        again = (
            f"its probe could not settle it; it is asked again at {to_datetime(wake_us).isoformat()}, or a person says"
        )
        return _Advised(Action.PROBE, again, wake_us)
    return _with_absent(record, settling.advise(record, now_us, can_probe=can_probe), now_us)


def _with_absent(record: EffectRecord, advice: Advice, now_us: int) -> _Advised:
    """A probe's Absent is not always final: say what would follow."""
    if advice.action is not Action.PROBE:
        return _Advised(*advice)
    then = settling.after_absent(record, now_us)
    return _Advised(advice.action, f"{advice.reason}; if it says absent: {then.action}, {then.reason}", then.until_us)


# -- the verdict -------------------------------------------------------------------------------------------------------------


def _verdict(
    record: RunRecord, pending: list[PendingEffect], found: list[WaitPart], children: list[tuple[str, RunVerdict]]
) -> RunVerdict:
    status, reason = record.status, record.reason
    asks = [f"run:{record.id}/{each.seq}" for each in found if each.kind in waits.PEOPLE and each.state == "open"]
    doubts = [each.id for each in pending if each.action == Action.PERSON]
    if status in ENDED:
        return RunVerdict(Standing.OVER, f"it is {status}")
    if status is RunStatus.PARKED:
        ways = parked_runs.ways_on(record.id, reason, record.hint)
        return RunVerdict(Standing.PARKED, f"it is parked ({reason}): {ways}")
    unsure = [each.id for each in pending if each.action == Action.PROBE and reason == "doubt"]
    if doubts or unsure:
        return RunVerdict(Standing.DOUBT, _in_doubt(doubts, unsure))
    if asks:
        return RunVerdict(Standing.PERSON, f"{_and(asks)} must be answered: `perdure answer`")
    for name, child in children:
        if child.standing not in (Standing.RESUMABLE, Standing.OVER):
            return RunVerdict(child.standing, f"it waits for run {name}: {child.says}")
    return RunVerdict(Standing.RESUMABLE, _going_on(status, pending, found))


def _in_doubt(doubts: list[str], unsure: list[str]) -> str:
    """unsure: what a probe could not settle yet, mostly because its sender, on another machine, may still send it."""
    if doubts:
        return f"only a person can say whether {_and(doubts)} happened: `perdure settle`"
    return (
        f"the probe could not settle {_and(unsure)}: it is asked again by itself; a person who knows can say (`perdure settle`, "
        "or `perdure gone` for a machine that is lost)"
    )


def _and(names: list[str]) -> str:
    return " and ".join(names)


def _going_on(status: RunStatus, pending: list[PendingEffect], found: list[WaitPart]) -> str:
    open_ones = sorted({each.kind.value for each in found if each.state is WaitState.OPEN})
    said = ["a process drives it, or did until that process died"] if status is RunStatus.RUNNING else []
    said += [f"it waits for a {kind}" for kind in open_ones]
    said += [f"{each.id}: {each.action}" for each in pending]
    return "; ".join(said) or "nothing is open"


# -- handing over --------------------------------------------------------------------------------------------------------------


def holders(reads: Reads, stream: Stream, depth: int = 0) -> set[str]:
    """The holders and senders of a run and the runs that it waits for: their deaths are worth proving."""
    found = {runs.row_of(reads, stream)["holder"], *(each.holder for each in _open_effects(reads, stream))}
    if depth <= CHILDREN_MAX_DEPTH:
        for child in _children(reads, stream):
            found |= holders(reads, child, depth + 1)
    return {each for each in found if each}


def hand_over(tx: Tx, stream: Stream, witness: EnvelopeWitness) -> Envelope:
    """The envelope of a run, which from this commit on continues only where the envelope is adopted: it is parked here,
    and so are the runs that it waits for. An effect under way is in doubt.

    Conflict when it is over, is being driven, belongs to a run that stays, or was handed over: two stores could continue it.
    """
    runs.check_here(tx, stream)
    parent = runs.row_of(tx, stream)["parent"]
    if parent is not None and RunStatus(runs.row_of(tx, runs.find(tx, parent))["status"]) not in ENDED:
        hint = f"hand over run {parent}: what it waits for goes with it"
        raise Conflict(f"run {parent} waits for run {stream.name}", path="run", hint=hint)
    family = list(_family(tx, stream))
    for each in family:
        _let_go(tx, each, witness)
    made = _envelope(tx, stream, witness, sealed=True, depth=0)
    for each in family:
        runs.park(tx, each, parked_runs.MOVED, "it was handed over and continues elsewhere", {"store": witness.store})
    return made


def _family(reads: Reads, stream: Stream, depth: int = 0) -> Iterator[Stream]:
    yield stream
    if depth <= CHILDREN_MAX_DEPTH:
        for child in _children(reads, stream):
            yield from _family(reads, child, depth + 1)


def unpark(tx: Tx, stream: Stream) -> None:
    """The verb behind `unpark`: let a parked run continue. With one that was handed over, and adopted nowhere, the runs that were
    handed over with it come back: it would wait for them for ever.
    """
    with_it = [each for each in _family(tx, stream) if each != stream] if _is_moved(tx, stream) else []
    runs.unpark(tx, stream)
    for each in with_it:
        if _is_moved(tx, each):
            runs.unpark(tx, each)


def _is_moved(reads: Reads, stream: Stream) -> bool:
    row = runs.row_of(reads, stream)
    return row["status"] == RunStatus.PARKED and row["reason"] == parked_runs.MOVED


def _let_go(tx: Tx, stream: Stream, witness: EnvelopeWitness) -> None:
    row = runs.row_of(tx, stream)
    if RunStatus(row["status"]) in ENDED:
        again = (
            "`perdure retry` it first, if it is to continue elsewhere" if row["status"] != RunStatus.COMPLETED else ""
        )
        raise Conflict(f"run {stream.name} is {row['status']}: there is nothing to hand over", path="run", hint=again)
    holder = row["holder"]
    if holder is not None and holder not in witness.dead and presence.is_alive(tx, holder):
        raise Conflict(f"run {stream.name} is being driven by {holder}", path="run", holder=holder)
    for each in _open_effects(tx, stream):
        if each.state is EffectState.DISPATCHED or (each.state is EffectState.IN_DOUBT and each.quiet_at is None):
            said = each.error or EffectError(settling.DIED, "its process was gone when the run was handed over")
            ledger.doubt(tx, stream, each.seq, each.attempt, said, quiet=each.holder in witness.dead)
