"""The verbs of a run whose program is on the other side of a wire. Each is one transaction, fenced and safe to repeat.

    claim ─▶ step | effect ─▶ (call) ─▶ outcome | ask, sleep, wait, child | checkpoint ─▶ finish, fail, park, rest, release

They run the engine's own generators (`remote`); none decides anything that the engine decides. Callers: the routes of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from perdure.effects.commands import CallOutcome, Overdue, Read, Steps, Write, write
from perdure.effects.effect_engine import EffectEngine
from perdure.effects.ending import end_run
from perdure.effects.ledger import effect, find
from perdure.effects.outcomes import backoff_seconds
from perdure.effects.tool import Tool, digest_of
from perdure.errors import Conflict, Failed, InDoubt, Invalid, Stale, Unavailable
from perdure.log.change import Stream
from perdure.model.instants import instant_us
from perdure.model.limits import check_name
from perdure.model.records.effects import EffectError, EffectRecord, EffectState, ToolKind, Verdict
from perdure.model.records.runs import RunRecord, RunStatus, StepRecord, WaitKind, WaitRecord, WaitState
from perdure.model.usage import usage_of
from perdure.planes.access import limits
from perdure.planes.execution import model_inputs, parked_runs, runs, steps, waits
from perdure.planes.reading.durations import Duration, store_now
from perdure.runtime.driver import go_to_rest
from perdure.runtime.journal import Branch
from perdure.runtime.remote import (
    BACKOFF_SECONDS,
    KnownPlaces,
    Next,
    RemoteAgent,
    RemoteClaim,
    RemoteRequest,
    RemoteSender,
    RequestResult,
    TransactionShell,
    remote_tool,
    was_given_up,
)
from perdure.runtime.run_engine import DOUBT, RunEngine
from perdure.stores.core import Core
from perdure.stores.tx import Tx

Verb = Callable[..., Any]
SAYS = {"happened": EffectState.COMMITTED, "failed": EffectState.FAILED}  # the outcome that a state repeats


class StepSaid(NamedTuple):
    """A step that a worker did: its value or its error. model: the pins of a model's call, whose input is kept with it."""

    name: str
    digest: str
    value: Any = None
    error: EffectError | None = None
    shape: str = ""
    model: dict[str, Any] | None = None
    input: tuple[list[Any], dict[str, Any]] = ([], {})


class CallSaid(NamedTuple):
    """The outcome of a call, as its worker says it. over: whether the call has come back, so that it sends nothing more."""

    outcome: str
    result: Any = None
    code: str = ""
    message: str = ""
    over: bool = True


class RestSaid(NamedTuple):
    """The reason of a rest: the waits and the effects in doubt that the program is at, and when it is woken at the latest."""

    reason: str
    awaited: tuple[int, ...] = ()
    doubts: tuple[int, ...] = ()
    wake_us: int | None = None
    knows_cancelled: bool = False


class WireError(Exception):
    """An error of a remote tool of which its worker cannot say whether it happened."""


# -- steps -----------------------------------------------------------------------------------------------------------


def keep_step(request: RemoteRequest, said: StepSaid) -> RequestResult:
    """Record a step, or give the one that is recorded at its place. A run that is cancelled keeps what was done."""
    return request.reach(_keep_step(request.engine, request.branch, said))


def _keep_step(engine: RunEngine, branch: Branch, said: StepSaid) -> Steps[StepRecord]:
    check_name(said.name, "name")
    place, record = engine.take_place(branch, "step", said.name, said.digest, None)
    if record is not None:
        return msgspec.structs.replace(record, input=None)  # the answer of the first time
    notes: dict[str, Any] = {}
    given = None
    if said.model is not None:
        notes = {"model": said.model, "usage": usage_of(said.value)}
        given = yield Read(model_inputs.prepare, (engine.stream, model_inputs.freeze(*said.input)))
    doc = steps.document(place, said.name, said.digest, said.value, said.error, notes, shape=said.shape)
    seq = yield Write(steps.done, (doc, given))
    return StepRecord(
        seq=seq, place=place, name=said.name, digest=said.digest, value=said.value, error=said.error, notes=notes,
        input=None, gave=None, shape=said.shape,
    )  # fmt: skip


# -- effects ---------------------------------------------------------------------------------------------------------


def begin_effect(
    request: RemoteRequest,
    tool: Tool,
    args: dict[str, Any],
    question: str | None,
    within: Duration | None,
    about: tuple[str, ...] = (),
) -> RequestResult:
    """Carry an effect as far as it comes without its worker: to the call (its dispatch is durable by then), or to its end."""
    record = request.unsent_effect
    if record is not None and (record.tool, record.digest) == (tool.name, digest_of(tool.name, args)):
        return request.reached(Next.SEND, record)
    key = request.engine.effect_key(request.branch.next_place(0), tool.name, digest_of(tool.name, args))
    steps_of_effect = request.engine.do_effect(request.branch, tool, args, question, within, about)
    return request.reach(steps_of_effect, lambda: find(request.tx, request.stream, key))


def own_effect(request: RemoteRequest, seq: int, attempt: int) -> EffectRecord:
    """An effect of this run. Conflict if it was never sent so often, or another worker is sending it."""
    found = effect(request.tx, request.stream, seq)
    if found.attempt < attempt or not found.attempt:
        raise Conflict(f"{found.id} is at attempt {found.attempt}", path="attempt", state=found.state.value)
    if found.state is EffectState.DISPATCHED and found.holder != request.lease.holder:
        raise Conflict(f"{found.id} was sent by another worker", path="effect", hint="begin it again at its place")
    return found


def tell_outcome(request: RemoteRequest, seq: int, attempt: int, said: CallSaid) -> RequestResult:
    """Record what came of a call. It may leave the effect in doubt, or planned for another attempt: begin it again then."""
    found = own_effect(request, seq, attempt)
    if found.attempt != attempt or found.state in (EffectState.PLANNED, SAYS.get(said.outcome)):
        return _pausing(request.reached(Next.GIVEN, found))  # this was said before, or it has moved on since
    tool = remote_tool(found.tool, found.kind, found.rule)
    return _pausing(request.reach(request.engine.effects.record_outcome(tool, found, _came(said))))


def _pausing(reached: RequestResult) -> RequestResult:
    """With the time that another attempt should wait for, as our own workers wait."""
    found: EffectRecord = reached.value
    pause = 0.0 if found.settled else backoff_seconds(BACKOFF_SECONDS, found.failures)
    return reached._replace(pause_seconds=pause)


def tell_outcome_late(
    tx: Tx, stream: Stream, core: Core, hold: RemoteClaim, seq: int, attempt: int, said: CallSaid
) -> EffectRecord:
    """Record what came of a call whose worker has lost its lease: a fact all the same, which settles its own doubt."""
    found = effect(tx, stream, seq)
    if found.holder != hold.holder or found.attempt != attempt:
        raise Stale(f"attempt {attempt} of {found.id} is not this worker's", path="attempt", state=found.state.value)
    engine = EffectEngine(RemoteSender(core, hold.holder), stream, tx.actor, tx.tenant, in_run=True, token=hold.token)
    tool = remote_tool(found.tool, found.kind, found.rule)
    TransactionShell(tx, stream).run(engine.record_late(tool, found, _came(said)))
    return effect(tx, stream, seq)


def _came(said: CallSaid) -> CallOutcome:
    if said.outcome == "happened":
        return CallOutcome(said.result)
    error: Exception
    if said.outcome == "failed":
        error = Failed(said.message, code=said.code or "Failed")
    elif said.outcome == "unsent":
        error = Unavailable(said.message)
    elif said.code == "Overdue":
        error = Overdue(0, quiet=said.over)
        error.args = (said.message or "it took too long",)
    else:
        error = WireError(f"{said.code}: {said.message}" if said.code else said.message)
        error.quiet = said.over  # type: ignore[attr-defined] - `outcomes.is_quiet` reads it
    return CallOutcome(None, error)


def tell_probe(request: RemoteRequest, seq: int, attempt: int, verdict: Verdict, asked_us: int) -> RequestResult:
    """Record what the other side said about an effect in doubt. asked_us: the store's time before it was asked."""
    found = own_effect(request, seq, attempt)
    if found.attempt != attempt or found.state is not EffectState.IN_DOUBT:
        return request.reached(Next.GIVEN, found)
    asked_us = min(asked_us, store_now(request.tx))
    try:
        return request.reach(request.engine.effects.apply_probe_answer(found, verdict, asked_us))
    except InDoubt as doubt:
        reached = request.reached(Next.REST, effect(request.tx, request.stream, seq))
        return reached._replace(why=DOUBT, wake_us=doubt.facts.get("until"))


# -- waits -----------------------------------------------------------------------------------------------------------


def ask(
    request: RemoteRequest, question: str, choices: Any, default: Any, detail: Any, timeout: Duration | None,
    about: tuple[str, ...],
) -> RequestResult:  # fmt: skip
    """Ask a person; the wait as it stands."""
    doc = waits.ask_document(question, choices, default, detail)
    return _awaited(request, request.engine.ask_person(request.branch, doc, timeout, about))


def sleep(request: RemoteRequest, duration: str) -> RequestResult:
    """Wait for some time, on the store's clock."""
    return _awaited(request, request.engine.sleep(request.branch, duration))


def wait(request: RemoteRequest, name: str, timeout: Duration | None) -> RequestResult:
    """Wait for a signal."""
    check_name(name, "name")
    return _awaited(request, request.engine.await_signal(request.branch, name, timeout))


def start_child(
    request: RemoteRequest, agent: str, args: list[Any], kwargs: dict[str, Any], timeout: Duration | None,
    about: tuple[str, ...], most: int | None = None,
) -> RequestResult:  # fmt: skip
    """Start a run of one's own, and wait for its end. most: Limited if it is new and so many runs are not over."""
    check_name(agent, "agent")
    if most is not None and not request.engine.replay.journal.entries:
        limits.check_runs(request.tx, most)
    return _awaited(request, _child(request, RemoteAgent(agent, "", timeout), tuple(args), kwargs, about))


def _child(
    request: RemoteRequest, agent: RemoteAgent, args: tuple[Any, ...], kwargs: dict[str, Any], about: tuple[str, ...]
) -> Steps[WaitRecord]:
    found = yield from request.engine.start_child(request.branch, agent, args, kwargs, about)
    request.engine.activity.awaited.add(found.seq)
    return (yield from request.engine.wait_until_over(request.branch, found))


def _awaited(request: RemoteRequest, made: Steps[WaitRecord]) -> RequestResult:
    """A wait as it stands, over or not."""

    def look() -> WaitRecord | None:
        seqs = request.engine.activity.awaited
        return waits.wait(request.tx, request.stream, max(seqs)) if seqs else None

    return request.reach(made, look)


# -- checkpoints -----------------------------------------------------------------------------------------------------


def cut(request: RemoteRequest, state: Any, number: int, about: tuple[str, ...]) -> RequestResult:
    """Save a state to continue from. number: the cut that the worker is at; if it is one more by now, this was done before."""
    record = request.record
    if record.cuts == number + 1 and record.cut_seq > runs.row_of(request.tx, request.stream)["claimed_seq"]:
        return request.reached(Next.GIVEN, record)
    if record.cuts != number:
        raise Conflict(f"the run is at cut {record.cuts}", path="cut", cut=record.cuts)
    reached = request.reach(request.engine.save_checkpoint(request.branch, state, now=True, about=about))
    return reached._replace(value=runs.run(request.tx, request.stream), news={}, seq=request.tx.seq(request.stream))


# -- how it ends -----------------------------------------------------------------------------------------------------


def finish(request: RemoteRequest, result: Any) -> RunRecord:
    """The program returned. A run that left an effect without an outcome waits for that to be settled."""
    return _end(request, RunStatus.COMPLETED, result)


def fail(request: RemoteRequest, error: EffectError, blamed: int | str | None) -> RunRecord:
    """The program raised. A run that was told to end is cancelled by it."""
    status = RunStatus.CANCELLED if request.lease.cancelling else RunStatus.FAILED
    return _end(request, status, None, error, blamed)


def _end(request: RemoteRequest, status: RunStatus, *said: Any) -> RunRecord:
    engine = request.engine
    engine.activity.interrupted = True  # look for what was left under way

    def ending() -> Steps[None]:
        yield from engine.settle_open_effects(completes=status is RunStatus.COMPLETED)
        yield write(end_run, engine.core.epoch, status, *said)

    reached = request.reach(ending())
    if reached.next is Next.REST:
        go_to_rest(
            request.tx, request.stream, _undisturbed(request), reached.why, reached.wake_us, _limit_us(request), ()
        )
    return runs.run(request.tx, request.stream)


def park(request: RemoteRequest, reason: str, message: str, hint: str) -> RunRecord:
    """The machine must not continue by itself: the program changed, or a person must look."""
    changed = reason == parked_runs.CHANGED
    runs.park(request.tx, request.stream, reason, message, {"hint": hint}, request.record.program if changed else None)
    return runs.run(request.tx, request.stream)


def release(request: RemoteRequest) -> RunRecord:
    """Give the run back: it continues elsewhere at once."""
    runs.release(request.tx, request.stream)
    return runs.run(request.tx, request.stream)


def rest(request: RemoteRequest, said: RestSaid) -> RunRecord:
    """Let the run wait; nobody holds it. It is ready at once if something that it waits for has come meanwhile."""
    if not (said.awaited or said.doubts or said.wake_us):
        raise Invalid("a run that waits for nothing would never be woken", path="awaited", hint="release it instead")
    lease = _undisturbed(request)
    lease.disturbed = (request.lease.cancelling and not said.knows_cancelled) or _has_come(request, said)
    go_to_rest(request.tx, request.stream, lease, said.reason, said.wake_us, _limit_us(request), said.awaited)
    return runs.run(request.tx, request.stream)


def _undisturbed(request: RemoteRequest) -> Any:
    request.lease.disturbed = False
    return request.lease


def _has_come(request: RemoteRequest, said: RestSaid) -> bool:
    """Whether something that the program waits for is there by now."""
    tx, stream = request.tx, request.stream
    for seq in said.awaited:
        found = waits.wait(tx, stream, seq)
        if found.state is not WaitState.OPEN or waits.is_over(tx, found):
            return True
        if found.kind is WaitKind.SIGNAL and waits.has_signal(tx, stream, found.name):
            return True
    return any(effect(tx, stream, seq).state is not EffectState.IN_DOUBT for seq in said.doubts)


def _limit_us(request: RemoteRequest) -> int | None:
    """The end of the run's time, if that is ahead: a run that waits is woken then."""
    if request.record.timeout_at is None:
        return None
    at_us = instant_us(request.record.timeout_at, 0)
    return at_us if at_us > store_now(request.tx) else None


def within(
    tx: Tx, stream: Stream, core: Core, heartbeat: Any, hold: RemoteClaim, known: KnownPlaces, place: str, verb: Verb,
    *args: Any,
) -> Any:  # fmt: skip
    """A verb as one request: fenced, at its place."""
    request = RemoteRequest(tx=tx, stream=stream, core=core, heartbeat=heartbeat, hold=hold, known=known, place=place)
    return verb(request, *args)


def giving_up(
    tx: Tx,
    stream: Stream,
    core: Core,
    heartbeat: Any,
    hold: RemoteClaim,
    known: KnownPlaces,
    verb: Verb,
    args: Sequence[Any],
) -> RunRecord:
    """A verb after which the run is nobody's. Again: the run as it stands, if it was given up under this very token."""
    return was_given_up(tx, stream, hold) or within(tx, stream, core, heartbeat, hold, known, "", verb, *args)


def kind_of(name: str) -> ToolKind:
    """The kind of a remote tool. Invalid for one that only reads: that is a step."""
    kind = ToolKind(name)
    if kind is ToolKind.READ:
        raise Invalid("a tool that only reads is a step", path="kind", hint="POST /v1/runs/{run}/steps")
    return kind
