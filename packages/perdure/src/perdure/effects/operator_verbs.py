"""The decisions of people about effects and runs: settling, approving, trying again. Verbs, each one commit.

Callers: the handles, and through them the doors. Keeps P4, P13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.effects import commits, ledger
from perdure.effects.ledger import Outcome
from perdure.errors import Conflict, Invalid, NotFound, Refused
from perdure.log.change import Stream
from perdure.model.lazily import lazily
from perdure.model.limits import check_name
from perdure.model.records.effects import (
    Absent,
    Declined,
    EffectError,
    EffectRecord,
    EffectState,
    Happened,
    Verdict,
)
from perdure.model.records.runs import CALLED_OFF, RunStatus, WaitKind, WaitState
from perdure.planes.conversation import sessions
from perdure.planes.execution import imported, runs, steps, waits
from perdure.planes.recovery import presence
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

if TYPE_CHECKING:
    from perdure.effects import envelope
    from perdure.effects.effect_engine import SendingStore
else:
    (envelope,) = lazily("perdure.effects", "envelope")

GONE = EffectError("Gone", "a person says that its sender will not send it")


def split_name(name: str, path: str) -> tuple[str, str, int]:
    """The parts of `kind:stream/number`, the name of an ask or an effect."""
    place, _, number = check_name(name, path, 500).rpartition("/")
    kind, _, of = place.partition(":")
    if kind not in ("run", "session") or not of or not number.isdecimal() or len(number) > 18:
        hint = f"`perdure {path}s` lists them"
        raise Invalid(f"expected run:NAME/NUMBER or session:NAME/NUMBER, got {name!r}", path=path, hint=hint)
    return kind, of, int(number)


def locate(reads: Reads, name: str, path: str) -> tuple[Stream, int]:
    """The stream and number that `kind:stream/number` names."""
    kind, of, number = split_name(name, path)
    found = runs.find(reads, of) if kind == "run" else (sessions.find_session(reads, of) or (None,))[0]
    if found is None:
        raise NotFound(f"there is no session {of!r}", path=path, hint=f"`perdure {path}s` lists them")
    return found, number


def check_quiet(record: EffectRecord, stream: Stream, store: SendingStore) -> None:
    """Raise Conflict while the sender is proved to live: an effect that is settled as absent would be sent twice."""
    # A call of this very store that was left behind at its deadline; over a network the server looks.
    here = store.acts and store.in_flight.has_attempt(stream.id, record.seq, record.attempt)
    if record.quiet_at is None and (here or store.liveness.is_held(presence.server_of(record.holder or ""))):
        raise Conflict(
            f"the process that sent {record.id} lives, perhaps stopped: it may still send it", path="effect",
            hint="end it first, or say so with --force (force=True)", holder=record.holder,
        )  # fmt: skip


def check_own(record: EffectRecord) -> None:
    """Raise Refused for an effect of a run. The run carries it out itself, and would never hear of an outcome that is recorded
    past it.
    """
    if record.stream_kind == "run":
        raise Refused(
            f"effect {record.id} is carried out by its run", path="effect",
            hint="if it is in doubt, `settle` says what became of it, and the run continues",
        )  # fmt: skip


def settle(
    tx: Tx, stream: Stream, seq: int, verdict: Verdict, by: str, about: tuple[str, ...] = (), *, force: bool = False,
) -> EffectRecord:  # fmt: skip
    """The verb behind `settle`: a person's word about doubt, once; a run that waits may continue.

    force: the sender was not looked for. An effect that a session's own loop dispatched is doubted first: a loop on another
    machine may be gone, and nobody can prove it.
    """
    found = ledger.effect(tx, stream, seq)
    if stream.kind == "run":
        runs.check_here(tx, stream)
    elif force and found.state is EffectState.DISPATCHED:
        found = ledger.doubt(tx, stream, seq, found.attempt, GONE, quiet=True, by=by)
    if found.state is not EffectState.IN_DOUBT:
        raise _not_in_doubt(found)
    check_verdict(verdict)
    outcome, absent = _outcome(verdict, by)._replace(about=about), isinstance(verdict, Absent)
    return commits.settle_and_wake(tx, stream, seq, found.attempt, outcome, absent=absent)


def check_in_doubt(found: EffectRecord) -> None:
    """Raise Conflict, as `settle` does, for an effect that cannot be in doubt. A dispatched one can."""
    if found.state not in (EffectState.DISPATCHED, EffectState.IN_DOUBT):
        raise _not_in_doubt(found)


def _not_in_doubt(found: EffectRecord) -> Conflict:
    first = f": settled by {found.settled_by}" if found.settled_by else ""
    return Conflict(
        f"effect {found.id} is {found.state}, not in doubt{first}", path="effect", state=found.state.value,
        settled_by=found.settled_by, hint="`perdure effects --in-doubt` lists those that are",
    )  # fmt: skip


def check_verdict(verdict: object) -> None:
    """Raise Invalid for a verdict that settles nothing."""
    if not isinstance(verdict, (Happened, Absent, Declined)):
        raise Invalid(
            f"expected Happened(result), Absent() or Declined(reason), got {verdict!r}", path="verdict",
            hint="Unknown settles nothing",
        )  # fmt: skip


def _outcome(verdict: Verdict, by: str) -> Outcome:
    if isinstance(verdict, Happened):
        return Outcome(verdict.result, by=by)
    code = "Absent" if isinstance(verdict, Absent) else "Declined"
    return Outcome(error=EffectError(code, getattr(verdict, "reason", "")), by=by)


def resume(tx: Tx, stream: Stream, vouched: int | None) -> None:
    """The verb behind `resume`: `runs.resume`, and an undo that failed is planned anew."""
    failed = _failed_undo(tx, stream)
    runs.resume(tx, stream, vouched)
    _undo_anew(tx, stream, failed)


def unpark(tx: Tx, stream: Stream) -> None:
    """The verb behind `unpark`: `envelope.unpark`, and an undo that failed is planned anew; of a session: it is taken over."""
    if stream.kind == "session":
        imported.unpark_session(tx, stream)
        return
    failed = _failed_undo(tx, stream)
    envelope.unpark(tx, stream)
    _undo_anew(tx, stream, failed)


def _failed_undo(tx: Tx, stream: Stream) -> int | None:
    """The undo by whose failure a run is parked, by its number."""
    blamed, run = runs.blamed(tx, stream), runs.run(tx, stream)
    is_undo = run.status is RunStatus.PARKED and run.reason == runs.UNDO_FAILED
    return blamed if is_undo and isinstance(blamed, int) else None


def _undo_anew(tx: Tx, stream: Stream, failed: int | None) -> None:
    if failed is not None:
        ledger.revive(tx, stream, failed)


def retry(tx: Tx, stream: Stream) -> None:
    """The verb behind `retry`: the effect or step by whose failure it ended is done anew, and approved anew if need be.

    So is the run that it had started, if it ended by that one's failure; those that were cancelled with it, too. Interruptions
    that it waits to repeat are taken back.
    Conflict when it undid what it did: that is not done anew.
    """
    blamed, since = runs.blamed(tx, stream), runs.run(tx, stream).cut_seq
    interrupted = runs.interrupted(tx, stream)
    runs.retry(tx, stream)
    if interrupted:
        steps.redo_interrupted(tx, stream, since, interrupted)
    _ask_anew(tx, stream, since)
    if isinstance(blamed, str):
        steps.redo(tx, stream, blamed)
        _redo_child(tx, stream, blamed, since)
    elif blamed is not None:
        _do_anew(tx, stream, blamed)
    for child in _left_with_it(tx, stream, since):
        if runs.run(tx, child).status is RunStatus.CANCELLED:
            retry(tx, child)


def _do_anew(tx: Tx, stream: Stream, blamed: int) -> None:
    if ledger.effect(tx, stream, blamed).state in (EffectState.UNDOING, EffectState.UNDONE):
        raise Conflict(
            f"run {stream.name} has undone what it did: it cannot continue from there", path="run",
            hint="start it anew, under another key",
        )  # fmt: skip
    if ledger.revive(tx, stream, blamed) is not None:
        waits.spend(tx, stream, blamed)
        steps.redo_interrupted(tx, stream, blamed)


def _redo_child(tx: Tx, stream: Stream, place: str, since: int) -> None:
    """A run that was started at a place and failed is tried again, and waited for anew."""
    for ended in waits.waits(tx, stream, since):
        if ended.kind is WaitKind.CHILD and ended.place == place and ended.state is WaitState.MET:
            waits.forget(tx, stream, ended.seq)
            child = _child(tx, stream, ended.name)
            if runs.run(tx, child).status in (RunStatus.FAILED, RunStatus.CANCELLED):
                retry(tx, child)


def _child(tx: Tx, stream: Stream, name: str) -> Stream:
    """A run that this run had started. Conflict if there is none here to try again: begun anew, it would do again what it did."""
    child = waits.own_child(tx, stream, name)
    if child is not None:
        return child
    what_if = runs.run(tx, stream).what_if
    if what_if is not None:
        hint = "fork that run anew, with another result at the place where it started it"
        raise Conflict(f"run {name}, by which it ended, is not its own", path="run", hint=hint)
    hint = (
        f"adopt the envelope of run {name} from where it ran (lost=True, as it is over there), then try this one again"
    )
    raise Conflict(f"run {name}, by which it ended, ran elsewhere and is not in this store", path="run", hint=hint)


def _ask_anew(tx: Tx, stream: Stream, since: int) -> None:
    """An effect that was only meant when a run ended is meant again; nobody has answered what was asked about it."""
    for meant in ledger.all_effects(tx, stream, after=since):
        if meant.state is EffectState.WITHDRAWN and meant.error is not None and meant.error.code == CALLED_OFF:
            ledger.revive(tx, stream, meant.seq)
    for asked in waits.waits(tx, stream, since):
        if asked.kind is WaitKind.APPROVAL and asked.state is WaitState.WITHDRAWN and asked.effect is not None:
            waits.spend(tx, stream, asked.effect)


def _left_with_it(tx: Tx, stream: Stream, since: int) -> list[Stream]:
    """The runs that a run had started and still waited for when it ended."""
    left = {
        each.name
        for each in waits.waits(tx, stream, since)
        if each.kind is WaitKind.CHILD and each.state is WaitState.WITHDRAWN
    }
    return [_child(tx, stream, name) for name in sorted(left)]
