"""The claim protocol: workers in any language take runs and drive them, one request a verb (docs/decisions/0057).

A request names the holder and the token of its lease. Each is fenced (a stale token is 409, and says what happened) and safe to
repeat: by its place, or because the run was given up under this very token. A holder belongs to the token of the door that it
came with, so nobody renews or uses the lease of another. Keeps P3, P7, P11.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from starlette.responses import Response

from perdure.errors import Damaged, Parked, Stale
from perdure.log.change import Stream
from perdure.model.instants import SECOND_US, duration_us
from perdure.model.pins import OnChange, versions_of
from perdure.model.records.effects import Absent, Declined, EffectError, EffectRecord, Happened, Rule, Unknown, Verdict
from perdure.model.records.runs import RunRecord, StepRecord, WaitRecord
from perdure.model.records.workers import About
from perdure.planes.execution import leases, runs, workers
from perdure.planes.execution.leases import Company, Lease
from perdure.planes.execution.workers import FoundRun, Look
from perdure.planes.reading.durations import store_now
from perdure.planes.recovery import checkpoints, presence
from perdure.planes.subjects import named
from perdure.runtime import remote, remote_verbs
from perdure.runtime.remote import RemoteClaim, RequestResult
from perdure.runtime.remote_verbs import CallSaid, RestSaid, StepSaid
from perdure.verbs.declaring import Right
from perdure_server.http import wire
from perdure_server.http.answers import RunAnswer, ask_answer, effect_answer, run_answer
from perdure_server.http.call import HttpCall
from perdure_server.http.table import route
from perdure_server.http.wire import value_from
from perdure_server.http.work_inputs import (
    ChildInput,
    CutAnswer,
    CutInput,
    FailInput,
    FinishInput,
    HeartbeatAnswer,
    HeldAnswer,
    HolderInput,
    HoldInput,
    JournalAnswer,
    JournalItem,
    JournalQuery,
    ParkInput,
    ProbeInput,
    ReachedAnswer,
    RestInput,
    RunAskInput,
    RunEffectInput,
    RunOutcomeInput,
    SleepInput,
    StepInput,
    WaitInput,
    WorkClaimAnswer,
    WorkClaimInput,
)

FOUND_MAX = 20
HOLDERS_MAX = 256  # workers of one token that live at once
LOOK_SECONDS = 0.25
PAGE_BYTES = 4 * 1024 * 1024
WORK = Right.WORK


def holder_of(call: HttpCall, holder: str) -> str:
    """The name of a holder in the store: with the id of the door's token, so that it is nobody else's."""
    return f"{_prefix(call)}{holder}"


def _prefix(call: HttpCall) -> str:
    return f"remote-{call.identity.token.id}-"


# -- taking runs -----------------------------------------------------------------------------------------------------


@route("POST", "/v1/work/claim", WORK, WorkClaimAnswer)
async def claim_work(call: HttpCall, body: WorkClaimInput) -> Any:
    """Take a run that is ready, due, or left by a dead worker, with its recorded work; 204 if none came in time.

    Safe to repeat: a run that this worker holds and does not name in `held` is given again, under a new token.
    """
    await call.check_bytes()  # runs that were begun can end, and no other begins
    for agent, pins in body.pins.items():
        versions_of(pins, f"body.pins.{agent}")
    deadline = time.monotonic() + body.wait
    while True:
        seen = await _look(call, body)
        claimed = await _take(call, body, seen)
        left = deadline - time.monotonic()
        if claimed is not None or left <= 0 or call.serving.draining:
            return claimed or Response(status_code=204)
        due = LOOK_SECONDS if seen.wake_left_us is None else seen.wake_left_us / SECOND_US
        await asyncio.sleep(max(0.01, min(left, LOOK_SECONDS, due)))


async def _look(call: HttpCall, body: WorkClaimInput) -> Look:
    """The runs that it can take. It introduces itself first, if the store does not know it."""
    holder, core = holder_of(call, body.holder), call.caller.core
    wanted = workers.drivable(body.agents, body.agents.values())
    seen = await call.caller.read(workers.look, wanted, FOUND_MAX, core.liveness.is_dead, holder)
    if not seen.introduced:
        about = About(0, tuple(body.agents), body.concurrency, programs=tuple(body.agents.values()))
        await call.caller.write(_with_room, _prefix(call), workers.introduce, holder, about)
    return seen


def _with_room(tx: Any, prefix: str, verb: Any, holder: str, *about: Any) -> None:
    """A sign of life of a worker, as long as its token has not too many."""
    presence.make_room(tx, holder, prefix, HOLDERS_MAX)
    verb(tx, holder, *about)


async def _take(call: HttpCall, body: WorkClaimInput, seen: Look) -> WorkClaimAnswer | None:
    """The first run that is to be had. One whose process died is driven alone."""
    holder = holder_of(call, body.holder)
    mine = await call.caller.read(workers.held_by, holder) if seen.held else []
    for lost in (each for each in mine if each.stream.name not in body.held):
        if (again := await _claim(call, body, lost, Company.NOBODY, lost=True)) is not None:
            return again
    suspects = [each for each in seen.suspects if _can_drive(body, each)]
    if mine and (suspects or any(each.suspect for each in mine)):
        return None  # as our own workers: a suspect is driven alone, so nothing else is taken until it is
    company = Company.ANY if mine else Company.NOBODY
    for found in (*suspects, *(each for each in seen.takeable if _can_drive(body, each))):
        if (taken := await _claim(call, body, found, company)) is not None:
            return taken
    return None


def _can_drive(body: WorkClaimInput, found: FoundRun) -> bool:
    return found.agent in body.agents and found.pinned in (None, body.agents[found.agent])


async def _claim(
    call: HttpCall, body: WorkClaimInput, found: FoundRun, company: Company, *, lost: bool = False
) -> WorkClaimAnswer | None:
    """Claim a run. lost: it is this worker's own, and was never heard of: the next token, and nobody died."""
    core, holder = call.caller.core, holder_of(call, body.holder)
    gone = {holder} if lost else {found.holder} if found.holder and core.liveness.is_dead(found.holder) else ()
    program, on_change = body.agents.get(found.agent, ""), body.on_change.get(found.agent)
    lease = await call.caller.write(
        leases.claim,
        found.stream,
        holder=holder,
        program=program,
        epoch=core.epoch,
        dead=gone,
        company=company,
        pins=versions_of(body.pins.get(found.agent, {}), f"body.pins.{found.agent}"),
        on_change=None if on_change is None else OnChange(on_change),
    )
    return None if lease is None else await _claimed(call, lease)


async def _claimed(call: HttpCall, lease: Lease) -> WorkClaimAnswer | None:
    """A claimed run with its journal; parked, as by our own workers, if that cannot be read."""
    stream = lease.stream
    try:
        record, restored, journal = await call.caller.read(_loaded, stream)
    except (Damaged, Parked) as error:
        reason = error.facts.get("reason", "damaged") if isinstance(error, Parked) else "damaged"
        hint = error.hint or f"`perdure verify`, restore what is damaged, then `perdure resume {stream.name}`"
        await call.caller.write(leases.fenced, lease, runs.park, reason, str(error), {"hint": hint})
        return None
    known = call.serving.known_places(stream.uid, lease.token, record.cut_seq)
    known.marks = {place: remote.PlaceMark(entry.kind, entry.record.seq) for place, entry in journal}
    known.seq = max([record.cut_seq, *(mark.seq for mark in known.marks.values())])
    return WorkClaimAnswer(
        run=record.id, token=lease.token, agent=record.agent, args=record.args, kwargs=record.kwargs,
        session=record.session, cut=record.cuts, has_checkpoint=bool(record.cuts), restored=restored,
        cancelling=lease.cancelling, timeout_at=record.timeout_at, lease_seconds=_lease_seconds(call),
        journal=_page(journal, JournalQuery()),
    )  # fmt: skip


def _loaded(reads: Any, stream: Stream) -> tuple[RunRecord, Any, list[tuple[str, Any]]]:
    """A run, the state of its last checkpoint, and its journal since."""
    record = runs.run(reads, stream)
    restored = checkpoints.restore(reads, stream) if record.cuts else None
    return record, restored, remote.recorded(reads, stream, record, 0)


def _lease_seconds(call: HttpCall) -> float:
    return call.caller.core.clocks.lease_us / SECOND_US


@route("POST", "/v1/work/heartbeat", WORK, HeartbeatAnswer)
async def heartbeat(call: HttpCall, body: HolderInput) -> Any:
    """Send a worker's sign of life, for all its runs. Safe to repeat."""
    holder = holder_of(call, body.holder)
    await call.caller.write(_with_room, _prefix(call), presence.beat, holder, ())
    found = await call.caller.read(_held, holder)
    return HeartbeatAnswer(runs=found, draining=call.serving.draining, lease_seconds=_lease_seconds(call))


def _held(reads: Any, holder: str) -> list[HeldAnswer]:
    rows = [(each.stream.name, runs.row_of(reads, each.stream)) for each in workers.held_by(reads, holder)]
    return [HeldAnswer(run=name, token=row["token"], cancelling=bool(row["cancelling"])) for name, row in rows]


@route("POST", "/v1/work/leave", WORK, HeartbeatAnswer)
async def leave_work(call: HttpCall, body: HolderInput) -> Any:
    """End a worker cleanly: it is forgotten, and its leases are free at once. Safe to repeat."""
    holder = holder_of(call, body.holder)
    await call.caller.write(_leave, holder)
    return HeartbeatAnswer(runs=[], draining=call.serving.draining, lease_seconds=_lease_seconds(call))


def _leave(tx: Any, holder: str) -> None:
    for found in workers.held_by(tx, holder):
        workers.give_back(tx, found.stream, holder)
    workers.leave(tx, holder)
    presence.leave(tx, holder, ())


@route("GET", "/v1/runs/{run}/journal", WORK, JournalAnswer)
async def read_journal(call: HttpCall, query: JournalQuery) -> Any:
    """The work of a run since its last checkpoint: what stands at each place, so that nothing is done again."""
    stream = await _stream(call)
    record = await call.caller.read(runs.run, stream)
    return _page(await call.caller.read(remote.recorded, stream, record, query.after), query)


def _page(journal: list[tuple[str, Any]], query: JournalQuery) -> JournalAnswer:
    items: list[JournalItem] = []
    size = 0
    for place, entry in journal[: query.limit]:
        made = _item(place, entry)
        size += len(wire.encode(made))
        if items and size > PAGE_BYTES:
            break
        items.append(made)
    more = len(items) < len(journal)
    return JournalAnswer(items=items, next=items[-1].seq if more and items else None)


def _item(place: str, entry: Any) -> JournalItem:
    record = entry.record
    about = {"place": place, "what": entry.kind, "name": entry.name, "digest": entry.digest, "seq": record.seq}
    return JournalItem(**about, **_shown(record))


def _shown(record: Any) -> dict[str, Any]:
    match record:
        case StepRecord():
            return {"step": record}
        case EffectRecord():
            return {"effect": effect_answer(record)}
        case WaitRecord():
            return {"wait": ask_answer(record)}
    return {}


# -- one verb of a run -----------------------------------------------------------------------------------------------


async def _stream(call: HttpCall) -> Stream:
    return await call.caller.read(runs.find, call.parts["run"])


def _hold(call: HttpCall, body: HoldInput) -> RemoteClaim:
    return RemoteClaim(holder_of(call, body.holder), body.token)


async def _reach(call: HttpCall, body: Any, verb: Any, *args: Any, place: str = "") -> RequestResult:
    """Run a verb at its place, in one transaction."""
    stream, core = await _stream(call), call.caller.core
    known = call.serving.known_places(stream.uid, body.token, 0)
    heartbeat = call.caller.heartbeat
    about = (stream, core, heartbeat, _hold(call, body), known, place or getattr(body, "place", ""))
    reached: RequestResult = await call.caller.write(remote_verbs.within, *about, verb, *args)
    known.learn(reached)
    return reached


async def _answer(call: HttpCall, body: Any, verb: Any, *args: Any) -> ReachedAnswer:
    reached = await _reach(call, body, verb, *args)
    now_us = await call.caller.read(store_now) if reached.next is remote.Next.PROBE else 0
    return ReachedAnswer(
        next=reached.next, cancelling=reached.cancelling, why=reached.why, awaited=list(reached.awaited),
        wake_at=reached.wake_us, pause_seconds=reached.pause_seconds, now=now_us, **_shown(reached.value),
    )  # fmt: skip


@route("POST", "/v1/runs/{run}/steps", WORK, ReachedAnswer)
async def record_step(call: HttpCall, body: StepInput) -> Any:
    """Record a step that was done. At the same place again: the one that is recorded; another step there is a conflict."""
    said = StepSaid(
        name=body.name, digest=body.digest, value=value_from(body.value, "body.value"), error=body.error,
        shape=body.shape, model=body.model,
        input=(value_from(body.args, "body.args"), value_from(body.kwargs, "body.kwargs")),
    )  # fmt: skip
    return await _answer(call, body, remote_verbs.keep_step, said)


@route("POST", "/v1/runs/{run}/effects", WORK, ReachedAnswer)
async def begin_run_effect(call: HttpCall, body: RunEffectInput) -> Any:
    """Begin an effect at its place, or carry it on. Only after `next: send` may the tool be called: its intent is durable then.

    At the same place again: what stands there; `send` once more only if it was this very lease that dispatched it.
    """
    rule = Rule(
        timeout=None if body.timeout is None else duration_us(body.timeout, "body.timeout"),
        lands_within=duration_us(body.lands_within or "60s", "body.lands_within"),
        keeps_keys=None if body.keeps_keys is None else duration_us(body.keeps_keys, "body.keeps_keys"),
        retries=body.retries,
    )
    tool = remote.remote_tool(body.tool, remote_verbs.kind_of(body.kind), rule, can_probe=body.can_probe)
    args = value_from(body.args, "body.args")
    approve = (body.approve, body.approve_within)
    return await _answer(call, body, remote_verbs.begin_effect, tool, args, *approve, named(body.about))


@route("POST", "/v1/runs/{run}/effects/{seq}/outcome", WORK, ReachedAnswer)
async def tell_outcome(call: HttpCall, body: RunOutcomeInput) -> Any:
    """Record the outcome of a call. Safe to repeat. If that does not settle the effect, begin it again at its place.

    Without the lease it is recorded as a late word, which settles its own doubt; the answer is 409 all the same.
    """
    seq = call.number("seq")
    said = CallSaid(
        outcome=body.outcome, result=value_from(body.result, "body.result"), code=body.code, message=body.message,
        over=body.over,
    )  # fmt: skip
    try:
        return await _answer(call, body, remote_verbs.tell_outcome, seq, body.attempt, said)
    except Stale as lost:
        about = (await _stream(call), call.caller.core, _hold(call, body), seq, body.attempt, said)
        late = await call.caller.write(remote_verbs.tell_outcome_late, *about)
        said_so = f"{lost.message}; the outcome was recorded as a late word: {late.id} is {late.state}"
        raise Stale(said_so, path=lost.path, hint=lost.hint, **lost.facts) from None


@route("POST", "/v1/runs/{run}/effects/{seq}/probe", WORK, ReachedAnswer)
async def tell_probe(call: HttpCall, body: ProbeInput) -> Any:
    """Record the other side's answer about an effect in doubt. Safe to repeat. Then begin the effect again at its place."""
    verdicts: dict[str, Verdict] = {
        "happened": Happened(value_from(body.result, "body.result")),
        "absent": Absent(body.reason),
        "declined": Declined(body.reason),
        "unknown": Unknown(body.reason),
    }
    asked = (call.number("seq"), body.attempt, verdicts[body.verdict], body.asked_at)
    return await _answer(call, body, remote_verbs.tell_probe, *asked)


@route("POST", "/v1/runs/{run}/asks", WORK, ReachedAnswer)
async def open_run_ask(call: HttpCall, body: RunAskInput) -> Any:
    """Ask a person at a place. At the same place again: the question as it stands, answered or not."""
    about = (
        body.question,
        body.choices,
        value_from(body.default, "body.default"),
        value_from(body.detail, "body.detail"),
    )
    return await _answer(call, body, remote_verbs.ask, *about, body.timeout, named(body.about))


@route("POST", "/v1/runs/{run}/sleeps", WORK, ReachedAnswer)
async def open_sleep(call: HttpCall, body: SleepInput) -> Any:
    """Wait for some time at a place. At the same place again: the wait as it stands."""
    return await _answer(call, body, remote_verbs.sleep, body.duration)


@route("POST", "/v1/runs/{run}/waits", WORK, ReachedAnswer)
async def open_wait(call: HttpCall, body: WaitInput) -> Any:
    """Wait for a signal at a place. At the same place again: the wait as it stands."""
    return await _answer(call, body, remote_verbs.wait, body.name, body.timeout)


@route("POST", "/v1/runs/{run}/children", WORK, ReachedAnswer)
async def start_child(call: HttpCall, body: ChildInput) -> Any:
    """Start another run at a place and wait for its end. At the same place again: that same run's end, if it came."""
    args, kwargs = value_from(body.args, "body.args"), value_from(body.kwargs, "body.kwargs")
    most = call.serving.admission.runs_limit(call.identity.token.tenant)
    given = (body.agent, args, kwargs, body.timeout, named(body.about), most)
    return await _answer(call, body, remote_verbs.start_child, *given)


@route("POST", "/v1/runs/{run}/checkpoints", WORK, CutAnswer)
async def cut_run(call: HttpCall, body: CutInput) -> Any:
    """Save a state to continue from; the journal begins anew. Safe to repeat: `cut` says from where."""
    state = value_from(body.state, "body.state")
    reached = await _reach(call, body, remote_verbs.cut, state, body.cut, named(body.about))
    call.serving.forget_places((await _stream(call)).uid, body.token)
    return CutAnswer(next=reached.next, cut=reached.value.cuts, cancelling=reached.cancelling)


# -- how it ends -----------------------------------------------------------------------------------------------------


async def _give_up(call: HttpCall, body: HoldInput, verb: Any, *args: Any) -> RunAnswer:
    stream, core = await _stream(call), call.caller.core
    known = call.serving.known_places(stream.uid, body.token, 0)
    about = (stream, core, call.caller.heartbeat, _hold(call, body), known, verb, args)
    record: RunRecord = await call.caller.write(remote_verbs.giving_up, *about)
    call.serving.forget_places(stream.uid, body.token)
    return run_answer(record)


@route("POST", "/v1/runs/{run}/finish", WORK, RunAnswer)
async def finish_run(call: HttpCall, body: FinishInput) -> Any:
    """The program returned: the run is completed. Safe to repeat."""
    return await _give_up(call, body, remote_verbs.finish, value_from(body.result, "body.result"))


@route("POST", "/v1/runs/{run}/fail", WORK, RunAnswer)
async def fail_run(call: HttpCall, body: FailInput) -> Any:
    """The program ended by an error: the run failed, or is cancelled if it was told to end. Safe to repeat."""
    blamed = body.effect if body.effect is not None else body.step
    return await _give_up(call, body, remote_verbs.fail, EffectError(body.code, body.message), blamed)


@route("POST", "/v1/runs/{run}/park", WORK, RunAnswer)
async def park_run(call: HttpCall, body: ParkInput) -> Any:
    """Leave a run to people: its program changed, or must not continue by itself. Safe to repeat."""
    return await _give_up(call, body, remote_verbs.park, body.reason, body.message, body.hint)


@route("POST", "/v1/runs/{run}/rest", WORK, RunAnswer)
async def rest_run(call: HttpCall, body: RestInput) -> Any:
    """Let a run wait; nobody holds it. If what it waits for has come meanwhile, it is ready at once. Safe to repeat."""
    said = RestSaid(
        reason=body.reason, awaited=tuple(body.awaited), doubts=tuple(body.doubts), wake_us=body.wake_at,
        knows_cancelled=body.cancelling,
    )  # fmt: skip
    return await _give_up(call, body, remote_verbs.rest, said)


@route("POST", "/v1/runs/{run}/release", WORK, RunAnswer)
async def release_run(call: HttpCall, body: HoldInput) -> Any:
    """Give a run back: it continues elsewhere at once. Safe to repeat."""
    return await _give_up(call, body, remote_verbs.release)
