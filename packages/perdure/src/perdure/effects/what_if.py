"""Supposing another result: a run that continues from a place of another one, as if that had given it (decision 0015).

Recorded work of the run is copied with its results, and is not done again; the result at the place is replaced. An effect under
way stays the other run's. From there on the new run is driven like any other, but a person must approve of each external call,
unless the run is allowed to act. Made of an envelope, as an adopted run is (`effects.adopting`). Callers: the
handles of runs. Keeps P2, P3, P13.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from perdure.effects import adopting, ledger
from perdure.effects.envelope import EnvelopeWitness, envelope
from perdure.errors import Conflict, Invalid, NotFound
from perdure.log.change import Stream
from perdure.model.ids import new_uid
from perdure.model.records.differences import Forecast, Repeated
from perdure.model.records.effects import EffectState, sent_key_of
from perdure.model.records.envelope import Document, EffectPart, Envelope, RunPart, StepPart, WaitPart
from perdure.model.records.runs import RunStatus, WaitKind, WaitState, WhatIf
from perdure.model.values import to_plain
from perdure.planes.audit import history
from perdure.planes.execution import runs, steps, waits
from perdure.planes.reading.snapshots import one_state
from perdure.planes.tables import EFFECTS, WAITS
from perdure.stores.store import Reads

FORKED = {"code": "Forked", "message": "it was under way when the run was forked, and is the other run's to carry on"}
_STAYS = (EffectState.PLANNED, EffectState.DISPATCHED, EffectState.IN_DOUBT)


class Target(NamedTuple):
    """The entry that is replaced: its number and place in the journal, and the event after which it was known."""

    seq: int
    place: str
    known_at: int


class Supposed(NamedTuple):
    """A what-if run before it is adopted: its envelope, and the blobs that it needs."""

    envelope: Envelope
    luggage: adopting.NeededBlobs


# -- finding -------------------------------------------------------------------------------------------------


@one_state
def target(reads: Reads, stream: Stream, at: int | str) -> Target:
    """The entry at a place, or with a number. NotFound if there is none, Conflict while it has no result to replace."""
    found = [each for each in _entries(reads, stream) if at in (each.seq, each.place)]
    if not found:
        hint = f"`perdure show run:{stream.name}` lists places and numbers"
        raise NotFound(f"run {stream.name} has no step, effect or answer at {at!r}", path="at", hint=hint)
    if not found[-1].known_at:
        raise Conflict(f"its entry at {at!r} has no result yet", path="at")
    return found[-1]


def _entries(reads: Reads, stream: Stream) -> list[Target]:
    found = [Target(each.seq, each.place, each.seq) for each in steps.steps(reads, stream)]
    for each in ledger.all_effects(reads, stream):
        over = each.state not in (*_STAYS, EffectState.WITHDRAWN)
        found.append(Target(each.seq, each.place or "", _told(reads, EFFECTS, stream, each.seq) if over else 0))
    for wait in waits.waits(reads, stream):
        answered = wait.state in (WaitState.MET, WaitState.EXPIRED) and wait.kind is not WaitKind.APPROVAL
        found.append(Target(wait.seq, wait.place or "", _told(reads, WAITS, stream, wait.seq) if answered else 0))
    return found


def _told(reads: Reads, table: Any, stream: Stream, seq: int) -> int:
    return (reads.row(table, stream, seq) or {}).get("outcome_seq") or 0


RUNS_AGAIN = "runs again"  # it changes nothing in the outside world
HELD = "held for approval"  # a person is asked before it is sent
DONE_TWICE = "done a second time"  # its key is the new run's: the other side cannot tell that it knows it
ASKED_AGAIN = "asked again"
PARKS = "parks the fork"  # a fork that only supposes starts no runs
STAYS_THERE = "stays with this run"  # it was under way at that place
_ANEW = {WaitKind.ASK: ASKED_AGAIN, WaitKind.SIGNAL: "awaited again", WaitKind.CHILD: PARKS}


@one_state
def forecast(reads: Reads, stream: Stream, at: int | str, *, acts: bool) -> Forecast:
    """The consequences of a fork at a place, if its program goes the same way: what is kept, and what is done anew.

    It cannot know another way that the program takes after another result. Changes nothing. Raises as `target` does.
    """
    wanted = target(reads, stream, at)
    known_at = {each.seq: each.known_at for each in _entries(reads, stream)}
    done = [Repeated(each.seq, each.place, "step", each.name, RUNS_AGAIN) for each in steps.steps(reads, stream)]
    for each in ledger.all_effects(reads, stream):
        if each.state is not EffectState.WITHDRAWN:
            under_way = each.seq <= wanted.known_at
            then = STAYS_THERE if under_way else DONE_TWICE if acts else HELD
            done.append(Repeated(each.seq, each.place or "", "effect", each.tool, then))
    for wait in waits.waits(reads, stream):
        if wait.kind in _ANEW:
            then = _ANEW[wait.kind] if wait.kind is not WaitKind.CHILD or not acts else DONE_TWICE
            done.append(Repeated(wait.seq, wait.place or "", wait.kind.value, wait.question or wait.name, then))
    anew = [each for each in done if not 0 < known_at.get(each.seq, 0) <= wanted.known_at]
    anew.sort(key=lambda each: each.seq)
    return Forecast(wanted.seq, wanted.place, wanted.known_at, len(done) - len(anew), tuple(anew))


# -- making --------------------------------------------------------------------------------------------------


@one_state
def suppose(
    reads: Reads, stream: Stream, wanted: Target, result: Any, witness: EnvelopeWitness, *, acts: bool
) -> Supposed:  # fmt: skip
    """The run as it was when the entry was known, with another result there. `reads`: of that past."""
    was = envelope(reads, stream, witness)
    plain = to_plain(result, "replace")
    luggage = adopting.unpack(reads, was, adopting.artifacts_of(reads, was))
    said = luggage.documents

    def replaced(part: Any) -> Any:
        return _replaced(part, plain, said) if part.seq == wanted.seq else part

    done = tuple(replaced(each) for each in was.steps)
    effects = tuple(replaced(_copied(_left(each), said, stream)) for each in was.effects)
    kept = tuple(replaced(each) for each in was.waits if _is_over(each))
    if wanted.seq not in {each.seq for each in (*done, *effects, *kept)}:
        raise Invalid("it has nothing to replace there", path="at")
    run = _run(was.run, said, WhatIf(stream.name, stream.uid.hex(), wanted.seq, wanted.place, acts))
    made = msgspec.structs.replace(
        was, sealed=True, run=run, steps=done, effects=effects, waits=kept, children=(), pending=()
    )
    return Supposed(made, luggage)


def supposed(
    reads: Reads, stream: Stream, at: int | str, replace: Any, witness: EnvelopeWitness, *, acts: bool
) -> Supposed:
    """The run that a fork makes, of everything that was known at its place."""
    found = target(reads, stream, at)
    past = history.view(reads, stream, found.known_at, None)
    return past.core.read(suppose, past.stream, found, replace, witness, acts=acts, tenant=past.tenant)


def _run(run: RunPart, said: dict[str, Any], what_if: WhatIf) -> RunPart:
    """A run of its own: another name, no key, no parent that waits for it, and all the time it needs."""
    uid = new_uid().hex()
    given = said[run.given.blob] if run.given.blob else run.given.doc
    before = given.get("what_if")  # one that supposed already draws what the first one drew
    doc = {**given, "what_if": {**msgspec.to_builtins(what_if), **({"uid": before["uid"]} if before else {})}}
    return msgspec.structs.replace(
        run, uid=uid, name=uid[: runs.ID_CHARS], key=None, parent=None, status=RunStatus.READY, ended_at=None, timeout_at=None,
        cancelling=False, pinned=False, reason=None, became=None, given=msgspec.structs.replace(run.given, doc=doc, blob=""),
    )  # fmt: skip


def _is_over(part: WaitPart) -> bool:
    """Whether a wait is known to the new run too. A run that was started and is to be waited for anew is the other run's."""
    forgotten = part.kind is WaitKind.CHILD and part.state is WaitState.WITHDRAWN
    return part.state is not WaitState.OPEN and not forgotten


def _left(part: EffectPart) -> EffectPart:
    """An effect under way is the other run's to carry on (P3); one that was being undone did happen."""
    if part.state in _STAYS:
        return msgspec.structs.replace(
            part, state=EffectState.WITHDRAWN, error="Forked", became=Document(doc={"error": FORKED})
        )
    if part.state is EffectState.UNDOING:
        return msgspec.structs.replace(part, state=EffectState.COMMITTED)
    return part


def _copied(part: EffectPart, said: dict[str, Any], stream: Stream) -> EffectPart:
    """The effect, marked as one that was not done here, with the key that was sent for it."""
    meant = said[part.meant.blob] if part.meant.blob else part.meant.doc
    sent_key = sent_key_of(stream.uid.hex(), part.key)
    doc = {"sent_key": sent_key, **meant, "what_if": part.dispatched_at or 0}
    return msgspec.structs.replace(part, meant=msgspec.structs.replace(part.meant, doc=doc, blob=""))


def _replaced(part: StepPart | EffectPart | WaitPart, plain: Any, said: dict[str, Any]) -> Any:
    match part:
        case StepPart():
            doc = said[part.meant.blob] if part.meant.blob else part.meant.doc
            kept = {name: value for name, value in doc.items() if name not in ("value", "error", "gave")}
            meant = msgspec.structs.replace(part.meant, doc={**kept, "value": plain}, blob="")
            return msgspec.structs.replace(part, meant=meant)
        case EffectPart():
            became = Document(doc={"result": plain})
            return msgspec.structs.replace(part, state=EffectState.COMMITTED, error=None, became=became)
    answer = {"status": RunStatus.COMPLETED.value, "result": plain} if part.kind is WaitKind.CHILD else plain
    return msgspec.structs.replace(part, state=WaitState.MET, became=Document(doc={"answer": answer}))
