"""Runs that nobody drives now: which of them can be driven here, and the obstacle of one that cannot. Keeps P13, P15.

Read verbs and checks. Callers: `store.drive` and `store.recover`.
"""

from __future__ import annotations

from collections.abc import Mapping

from perdure.effects import ledger
from perdure.effects.outcomes import in_doubt_about
from perdure.effects.settling import settle_with
from perdure.errors import Changed, TimedOut, Waiting
from perdure.log.change import Stream
from perdure.model.records.effects import EffectRecord, EffectState
from perdure.model.records.runs import RunRecord, RunStatus, WaitKind, WaitRecord
from perdure.planes.execution import waits, workers
from perdure.runtime.agent import Agent
from perdure.runtime.run_engine import DOUBT
from perdure.stores.core import Core
from perdure.stores.store import Reads

CLAIMED_AT_ONCE = 50  # runs that one recovery looks at


def left_runs(reads: Reads, known: Mapping[str, Agent], core: Core) -> list[Stream]:
    """Runs of these agents that can be taken here: as a worker looks for them, and those that this store dropped."""
    wanted = workers.drivable(known, {each.program for each in known.values()})
    seen = workers.look(reads, wanted, CLAIMED_AT_ONCE, core.liveness.is_dead, core.holder)
    dropped = [each for each in workers.held_by(reads, core.holder) if (each.stream.id, 0) not in core.in_flight]
    found = [each for each in (*seen.takeable, *seen.suspects, *dropped) if each.agent in known]
    return [*{each.stream.name: each.stream for each in found}.values()]


def check_pin(record: RunRecord, agent: Agent) -> None:
    """Changed when a run is pinned to another program than the one of this process."""
    if record.pinned and record.program != agent.program and not record.ended:
        raise Changed(
            f"run {record.id} is pinned to the program {record.program}; here is {agent.program}", path="run",
            hint="drive it where that program is, or `perdure pin` it anew", expected=record.program, found=agent.program,
        )  # fmt: skip


def not_over(record: RunRecord) -> TimedOut:
    """The error for a caller that waited for the end of a run."""
    idle = "nobody has taken it: `perdure worker MODULE` drives it, or store.drive does here"
    hint = idle if record.status is RunStatus.READY else "wait longer, or look at `perdure show`"
    return TimedOut(f"run {record.id} is {record.status}", path="run", hint=hint)


def waiting_for(reads: Reads, stream: Stream, record: RunRecord) -> Waiting:
    """The error that says what a run waits for, and which command lets it continue."""
    unsettled = ledger.all_effects(reads, stream, after=record.cut_seq, open_only=True)
    return waiting_on(record, waits.waiting(reads, stream), unsettled)


def waiting_on(record: RunRecord, open_ones: list[WaitRecord], unsettled: list[EffectRecord]) -> Waiting:
    """The error of `waiting_for`, made of what was read."""
    asked = [each for each in open_ones if each.kind in waits.PEOPLE]
    signals = [each.name for each in open_ones if each.kind is WaitKind.SIGNAL]
    doubts = [each for each in unsettled if each.state is EffectState.IN_DOUBT]
    ways = [waits.answer_with(each) for each in asked] + [f"check, then run {settle_with(each.id)}" for each in doubts]
    ways += [f"`store.signal({record.id!r}, {name!r})`" for name in signals]
    said = [each.question for each in asked] + [in_doubt_about(each) for each in doubts]
    said += [f"the signal {name!r}" for name in signals]
    until = record.wake_at.isoformat() if record.wake_at is not None else None
    if record.reason == DOUBT and until:
        ways.append(f"the next check is at {until}")
    elif until and not said:
        ways.append(f"it can continue at {until}, and store.drive(…, wait=True) waits for that")
    return Waiting(
        f"waiting: {'; '.join(said) or record.reason}", path=f"run {record.id}",
        hint="; ".join([*ways, "then drive it again, if no worker does"]), run=record.id,
        asks=[each.id for each in asked], doubts=[each.id for each in doubts], until=until,
    )  # fmt: skip
