"""Driving a run here: calls the agent's function from the start, lets recorded things return what they gave, records the rest.

One `AsyncDriving` is one lease on one run: what all branches of it share. `drive` gives the run's end, or leaves it waiting,
parked or to whoever has it now. Callers: `drive`, `recover` and the worker. Keeps P2, P7, P13.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.effects import ledger
from perdure.effects.ledger import error_of
from perdure.effects.tool import Tool
from perdure.errors import Cancelled, Changed, Failed, Parked, Stale
from perdure.handles.aio.acting import AsyncActing
from perdure.handles.aio.run import AsyncRun
from perdure.handles.callers import AsyncCaller
from perdure.handles.invoking import AsyncInvoker
from perdure.log.change import Stream
from perdure.model.instants import instant_us
from perdure.model.points import reach
from perdure.model.records.effects import EffectRecord
from perdure.model.records.runs import RunRecord, RunStatus
from perdure.planes import checkpoints, runs, waits
from perdure.planes.runs import Lease
from perdure.runtime import places
from perdure.runtime.agent import Agent
from perdure.runtime.journal import Journal
from perdure.runtime.pausing import Suspended, suspension_in
from perdure.runtime.places import Branch, standing_in

LOOK_SECONDS = 0.002
QUIET_LOOKS = 3


class AsyncDriving:
    """What the branches of one driven run share: the lease, the journal, the counters, and the fenced way to write."""

    __slots__ = (
        "_errors", "acting", "agent", "begun", "busy", "caller", "cut", "cut_at_us", "done", "effects", "invoker", "journal",
        "lease", "record", "restored", "shielded", "steps", "stopped", "tools", "trunk",
    )  # fmt: skip

    def __init__(self, caller: AsyncCaller, agent: Agent, lease: Lease, record: RunRecord) -> None:
        self.caller = caller
        self.agent = agent
        self.lease = lease
        self.record = record
        self.journal = Journal()
        self.trunk = Branch()
        self.cut = record.cuts
        self.restored: Any = None
        self.invoker = AsyncInvoker(caller.core.living)
        self.acting = AsyncActing(caller, lease.stream, self.write, check=self.check_lease, token=lease.token)
        self.busy = self.begun = 0  # operations under way, and so many were begun
        self.shielded = 0  # while it is, cancelling waits
        self.done: dict[int, EffectRecord] = {}  # what can be undone, by its number
        self.tools: dict[str, Tool] = {}
        self.steps = self.effects = 0  # since the last cut
        self.cut_at_us = caller.core.clocks.now()
        self.stopped: BaseException | None = None
        self._errors: list[dict[str, Any]] = []

    @property
    def stream(self) -> Stream:
        """The run's stream."""
        return self.lease.stream

    async def load(self) -> None:
        """Read what the run did since its last cut, and the state that it left there."""
        self.journal = await self.caller.read(_journal, self.stream, self.record.cut_seq)
        if self.record.cuts:
            self.restored = await self.caller.read(checkpoints.restore, self.stream)

    # -- writing -------------------------------------------------------------------------------------------------------------

    async def write(self, verb: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a verb on the run's stream under its lease; steps that failed before it land in the same commit."""
        errors, self._errors = self._errors, []
        if errors:
            args = (errors, verb, *args)
            verb = runs.noting
        try:
            result, seq = await self.caller.write(runs.fenced, self.lease, verb, *args, **kwargs)
        except BaseException:
            self._errors = errors + self._errors
            raise
        self.lease.seq = max(self.lease.seq, seq)
        return result

    def keep_error(self, doc: dict[str, Any]) -> None:
        """A step failed. It is recorded only if the program goes on, so that a run that ends by it can try it again."""
        self._errors.append(doc)

    async def check_lease(self) -> None:
        """Stale when the lease was lost: asked right before something is sent outside."""
        if not await self.caller.read(runs.holds, self.lease):
            raise Stale(f"run {self.stream.name} is no longer this worker's", path="run")

    def begin(self) -> None:
        """An operation begins; whoever begins it counts `busy` down."""
        self.busy += 1
        self.begun += 1

    def begin_cut(self, number: int) -> None:
        """The journal begins anew: places are counted from the start."""
        self.cut = number
        self.journal = Journal()
        self.trunk.restart()
        self.done.clear()
        self.steps = self.effects = 0
        self.cut_at_us = self.caller.core.clocks.now()

    # -- going on ------------------------------------------------------------------------------------------------------------

    def check_going(self) -> None:
        """Raise what must end the program now: it is suspended, cancelled, or its time is over."""
        if self.stopped is not None:
            raise self.stopped
        if self.lease.cancelling and not self.shielded:
            raise Cancelled(f"run {self.stream.name} was cancelled", code="Cancelled", path="run")
        timeout_at = self.record.timeout_at
        if timeout_at is not None and self.caller.core.clocks.now() >= instant_us(timeout_at, 0):
            raise Failed(f"run {self.stream.name} took too long", code="TimedOut", path="run")

    # async-only
    async def idle(self) -> None:
        """Until no branch of the run does anything any more: what waits must not stop what still works."""
        from asyncio import sleep  # noqa: PLC0415 - as below

        quiet = 0
        while quiet < QUIET_LOOKS and self.stopped is None:
            before = self.begun
            await sleep(LOOK_SECONDS)
            quiet = quiet + 1 if self.busy == 0 and self.begun == before else 0

    # end


def _journal(reads: Any, stream: Stream, after: int) -> Journal:
    found: list[Any] = []
    while page := ledger.effects(reads, stream, after=found[-1].seq if found else after):
        found += page
    return Journal(runs.steps(reads, stream, after), found, waits.waits(reads, stream, after))


async def drive_claimed(caller: AsyncCaller, agent: Agent, lease: Lease) -> None:
    """Drive a run that was just claimed until it is over, waits, is parked, or is somebody else's."""
    record = await caller.read(runs.run, lease.stream)
    driving = AsyncDriving(caller, agent, lease, record)
    caller.heartbeat.hold(lease.stream.uid)
    try:
        await _drive(driving)
    except Stale:
        return  # somebody else has it: what was recorded under this lease stands, nothing else was written
    finally:
        caller.heartbeat.release(lease.stream.uid)


async def _drive(driving: AsyncDriving) -> None:
    await driving.load()
    reach("run.drive.before")
    # async-only
    from asyncio import get_running_loop  # noqa: PLC0415 - only async agents pay for asyncio

    places.number_branches(get_running_loop())
    # end
    try:
        result = await _call(driving)
        driving.journal.check_used_up()
        await driving.write(waits.end_run, RunStatus.COMPLETED, result)
    except Stale:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever ends an agent is recorded as its end
        await _ended_by(driving, error)
    reach("run.drive.after")


async def _call(driving: AsyncDriving) -> Any:
    record = driving.record
    try:
        with standing_in(driving.trunk):
            return await driving.agent.fn(AsyncRun(driving, driving.trunk), *record.args, **record.kwargs)
    finally:
        await _end_branches(driving)


async def _end_branches(driving: AsyncDriving) -> None:
    """No branch outlives its run."""
    # async-only
    from asyncio import gather  # noqa: PLC0415 - as below

    left = list(driving.trunk.tasks)
    for task in left:
        task.cancel()
    await gather(*left, return_exceptions=True)
    # end
    driving.trunk.tasks.clear()


async def _ended_by(driving: AsyncDriving, error: BaseException) -> None:
    """Record why the agent's function did not return."""
    paused = suspension_in(error) or suspension_in(driving.stopped or error)
    if paused is not None:
        await _rest(driving, paused)
    elif isinstance(error, Parked):
        facts = {name: str(value) for name, value in error.facts.items()}
        reason = "changed" if isinstance(error, Changed) else "undo"
        await driving.write(runs.park, reason, error.message, hint=error.hint, **facts)
    elif isinstance(error, Cancelled) or (driving.lease.cancelling and isinstance(error, Exception)):
        await driving.write(waits.end_run, RunStatus.CANCELLED, None, error_of(error))
    elif isinstance(error, Exception):
        await driving.write(waits.end_run, RunStatus.FAILED, None, error_of(error))
    else:  # the process is being stopped: another one goes on
        await driving.write(runs.release)
        raise error


async def _rest(driving: AsyncDriving, paused: Suspended) -> None:
    """The run waits. What came in the meantime makes it ready at once: the verb looks under the stream's lock."""
    timeout_at = driving.record.timeout_at
    limit_us = None if timeout_at is None else instant_us(timeout_at, 0)
    await driving.write(_go_to_rest, driving.lease.seq, paused.reason, paused.wake_us, limit_us)


def _go_to_rest(tx: Any, stream: Stream, seen: int, reason: str, wake_us: int | None, limit_us: int | None) -> None:
    if tx.seq(stream) != seen:
        runs.release(tx, stream)  # an answer, a signal or a settlement came: somebody must look at it
        return
    times = [at for at in (wake_us, limit_us, waits.next_expiry(tx, stream)) if at is not None]
    runs.wait(tx, stream, reason, min(times, default=None))
