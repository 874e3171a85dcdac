"""Shells: carry out what the engine of effects and runs asks for (`effects.commands`). Written by hand for sync and for async.

A shell runs one generator of the engine: it does what the generator yields, and sends it the result or throws the error. Each
shell has a table of what it does with which command. Code that belongs to asyncio (the numbers of branches, stopping tasks,
cancellation) stands in the async shells alone. Callers: the handles of sessions, and the drivers of runs: `store.drive`,
`recover` and the worker.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

from perdure.effects.commands import (
    Await,
    AwaitCancellation,
    CallFunction,
    CallIsolated,
    CallOutcome,
    CallProgram,
    CheckLease,
    Command,
    Consult,
    DriveRun,
    Pause,
    Read,
    StandBy,
    Steps,
    StopBranches,
    StopProgram,
    Work,
    Write,
    write,
)
from perdure.effects.effect_engine import EffectEngine
from perdure.errors import Error, Stale, Unavailable
from perdure.log.change import Stream
from perdure.model.lazily import lazily
from perdure.model.records.runs import RunRecord
from perdure.planes.execution import leases, runs
from perdure.planes.execution.leases import Lease
from perdure.runtime import current_branch, driver, invoking, log_context
from perdure.runtime.agent import Agent
from perdure.runtime.callers import AsyncCaller, Caller, Check
from perdure.runtime.driver import Drive
from perdure.runtime.run_engine import RunEngine
from perdure.stores.job import Job
from perdure.stores.kept_results import KeptResult

if TYPE_CHECKING:
    from asyncio import TimerHandle

    from perdure.runtime import isolating
    from perdure.runtime.standstill import Vigil
else:
    (isolating,) = lazily("perdure.runtime", "isolating")

T = TypeVar("T")
# Gives the class of the run that an agent's function gets, sync or async (`handles.colours.run_for`).
RunMaker: TypeAlias = Callable[[Agent], Callable[..., Any]]
CommandTable: TypeAlias = dict[type, Callable[[Any, Any], Any]]  # the method of a shell for each command


def effect_engine_of(caller: Caller | AsyncCaller, stream: Stream) -> EffectEngine:
    """The engine that acts in a session."""
    return EffectEngine(caller.core, stream, caller.actor, caller.tenant)


class Shell:
    """Runs the engine of a session from sync code.

    locked: whether writes are fenced by the locks that the running code holds. staying: raises when the process is about to end,
    so that waits end, too.
    """

    __slots__ = ("_locked", "_pin", "_staying", "_stream", "caller")

    def __init__(
        self, caller: Caller, stream: Stream, pin: str = "", *, locked: bool = True, staying: Check = lambda: None
    ) -> None:
        self.caller = caller
        self._stream = stream
        self._pin = pin
        self._locked = locked
        self._staying = staying

    def run(self, steps: Steps[T]) -> T:
        """Run it to its end; returns what it returns, raises what it raises."""
        ways = self._ways
        try:  # `commands.carried`, without its two frames: every step of every run comes through here
            command = next(steps)
            while True:
                try:
                    result = ways[type(command)](self, command)
                except BaseException as error:  # noqa: BLE001 - the engine judges it
                    command = steps.throw(error)
                else:
                    command = steps.send(result)
        except StopIteration as end:
            return end.value

    def _write(self, command: Write) -> Any:
        verb, args, kwargs, keep = command.verb, command.args, command.kwargs, command.keep
        if command.fenced:
            verb = self.caller.fenced(verb) if self._locked else verb
            write = partial(self.caller.write_in, self._stream, verb, args, kwargs, self._pin)
        else:
            write = partial(self.caller.write, verb, self._stream, *args, **kwargs)
        try:
            return write()
        except Unavailable as away:
            if not keep:
                raise
            return self._keep_trying(write, away)

    def _keep_trying(self, write: Callable[[], T], away: Unavailable) -> T:
        """Record what this process alone knows, as soon as the store is back; see `stores.kept_results`."""
        keeping = KeptResult(self.caller.core, f"{self._stream.kind} {self._stream.name}")
        recorded = False
        try:
            while True:
                self.caller.pause(keeping.pause_after(away), self._staying)
                try:
                    result = write()
                except Unavailable as again:
                    away = again
                else:
                    recorded = True
                    return result
        finally:
            keeping.end(recorded=recorded)

    def _read(self, command: Read) -> Any:
        return self.caller.read(command.verb, *command.args, **command.kwargs)

    def _consult(self, command: Consult) -> CallOutcome:
        function, args, kwargs, seconds = command.function, command.args, command.kwargs, command.seconds
        try:
            if seconds is None:
                return CallOutcome(invoking.read(function, args, kwargs, is_async=command.is_async))
            return CallOutcome(
                invoking.call(partial(function, *args, **kwargs), seconds, command.check or self._staying)
            )
        except BaseException as error:  # noqa: BLE001 - the engine judges it
            return CallOutcome(None, error)

    def _call(self, command: CallFunction | CallIsolated) -> CallOutcome:
        liveness = self.caller.core.liveness
        try:
            if isinstance(command, CallIsolated):
                return CallOutcome(isolating.call(*command, liveness, self._staying))
            return CallOutcome(invoking.call(command.function, command.seconds, self._staying, command.late, liveness))
        except BaseException as error:  # noqa: BLE001 - the engine judges it by what its tool declared
            return CallOutcome(None, error)

    def _pause(self, command: Pause) -> None:
        self.caller.pause(command.seconds, command.check or (self._staying if command.watched else None))

    _ways: ClassVar[CommandTable] = {
        Write: _write,
        Read: _read,
        Consult: _consult,
        CallFunction: _call,
        CallIsolated: _call,
        Pause: _pause,
        Await: lambda self, command: self.caller.until(command.future, self._staying),
        Work: lambda self, command: self.caller.work(command.task, *command.args),
        DriveRun: lambda self, command: drive(self.caller, *command),
        CheckLease: lambda _self, _command: None,  # a session has no lease to look at
        StopBranches: lambda _self, _command: None,  # and sync code no tasks
    }


class RunShell(Shell):
    """Runs the engine of one driven run from sync code: its writes are fenced by the lease. program: the class of the agent's
    run.
    """

    __slots__ = ("_engine", "_hold", "_program", "_thread")

    def __init__(self, caller: Caller, engine: RunEngine, program: Callable[..., Any]) -> None:
        super().__init__(caller, engine.stream, staying=engine.hold.check_not_leaving)
        self._engine = engine
        self._hold = engine.hold
        self._program = program
        self._thread = get_ident()  # of the program; its named branches may have others

    def _write(self, command: Write) -> Any:
        verb, args, kwargs, keep = command.verb, command.args, command.kwargs, command.keep
        if not command.fenced:
            return super()._write(command)
        hold, caller = self._hold, self.caller
        verb, args, failed_steps = hold.begin_write(verb, args)
        about = (hold.lease, verb, *args)
        try:
            try:
                result, seq = caller.core.lane.run(Job(leases.fenced, about, kwargs, caller.actor, caller.tenant))
            except Unavailable as away:
                if not keep:
                    raise
                result, seq = self._keep_trying(partial(caller.run, leases.fenced, about, kwargs, ""), away)
        except BaseException as error:
            hold.fail_write(failed_steps, error)
            raise
        hold.end_write(seq)
        return result

    def _read(self, command: Read) -> Any:
        self._hold.activity.begin()
        try:
            return self.caller.read(command.verb, *command.args, **command.kwargs)
        except Unavailable as trouble:
            raise self._hold.stop_for_trouble(trouble) from None
        finally:
            self._hold.activity.busy -= 1

    def _check_lease(self, _command: CheckLease) -> None:
        if not self._read(Read(leases.holds, (self._hold.lease,))):
            raise self._hold.stop_for_trouble(lost(self._stream))

    def _stand_by(self, command: StandBy) -> bool:
        self.caller.pause(command.seconds, self._staying)
        return get_ident() == self._thread

    def _call_program(self, _command: CallProgram) -> CallOutcome:
        engine = self._engine
        run = self._program(self, engine, engine.trunk)
        token = current_branch.enter(engine.trunk)
        try:
            with engine.observed():
                return CallOutcome(engine.agent.fn(run, *engine.record.args, **engine.record.kwargs))
        except BaseException as error:  # noqa: BLE001 - whatever ends a program, the engine judges it
            return CallOutcome(None, error)
        finally:
            current_branch.leave(token)

    _ways: ClassVar[CommandTable] = {
        **Shell._ways,
        Write: _write,
        Read: _read,
        CheckLease: _check_lease,
        CallProgram: _call_program,
        StandBy: _stand_by,
        StopProgram: lambda _self, _command: None,  # its threads cannot be stopped: each ends at its next verb
    }


class AsyncShell:
    """Runs the engine of a session from async code; see `Shell`."""

    __slots__ = ("_locked", "_pin", "_staying", "_stream", "caller")

    def __init__(
        self, caller: AsyncCaller, stream: Stream, pin: str = "", *, locked: bool = True, staying: Check = lambda: None
    ) -> None:
        self.caller = caller
        self._stream = stream
        self._pin = pin
        self._locked = locked
        self._staying = staying

    async def run(self, steps: Steps[T]) -> T:
        """Run it to its end; returns what it returns, raises what it raises."""
        ways = self._ways
        try:
            command = next(steps)
            while True:
                try:
                    result = await ways[type(command)](self, command)
                except GeneratorExit:  # nobody awaits this any more: it leaves what a killed process leaves
                    with suppress(RuntimeError):
                        steps.close()
                    raise
                except BaseException as error:  # noqa: BLE001 - the engine judges it
                    command = steps.throw(error)
                else:
                    command = steps.send(result)
        except StopIteration as end:
            return end.value

    async def _write(self, command: Write) -> Any:
        verb, args, kwargs, keep = command.verb, command.args, command.kwargs, command.keep
        if command.fenced:
            verb = self.caller.fenced(verb) if self._locked else verb
            write = partial(self.caller.write_in, self._stream, verb, args, kwargs, self._pin)
        else:
            write = partial(self.caller.write, verb, self._stream, *args, **kwargs)
        try:
            return await write()
        except Unavailable as away:
            if not keep:
                raise
            return await self._keep_trying(write, away)

    async def _keep_trying(self, write: Callable[[], Awaitable[T]], away: Unavailable) -> T:
        """Record what this process alone knows, as soon as the store is back; see `stores.kept_results`."""
        keeping = KeptResult(self.caller.core, f"{self._stream.kind} {self._stream.name}")
        recorded = False
        try:
            while True:
                await self.caller.pause(keeping.pause_after(away))
                try:
                    result = await write()
                except Unavailable as again:
                    away = again
                else:
                    recorded = True
                    return result
        finally:
            keeping.end(recorded=recorded)

    async def _read(self, command: Read) -> Any:
        return await self.caller.read(command.verb, *command.args, **command.kwargs)

    async def _consult(self, command: Consult) -> CallOutcome:
        function, args, kwargs, seconds = command.function, command.args, command.kwargs, command.seconds
        try:
            if seconds is None:
                return CallOutcome(await invoking.aread(function, args, kwargs, is_async=command.is_async))
            asked = partial(function, *args, **kwargs)
            return CallOutcome(await invoking.acall(asked, seconds, is_async=command.is_async))
        except BaseException as error:  # noqa: BLE001 - the engine judges it
            return CallOutcome(None, error)

    async def _call(self, command: CallFunction | CallIsolated) -> CallOutcome:
        liveness = self.caller.core.liveness
        try:
            if isinstance(command, CallIsolated):
                return CallOutcome(await isolating.acall(*command, liveness))
            call = invoking.acall(command.function, command.seconds, command.late, liveness, is_async=command.is_async)
            return CallOutcome(await call)
        except BaseException as error:  # noqa: BLE001 - the engine judges it by what its tool declared
            return CallOutcome(None, error)

    async def _nothing(self, command: Command) -> None:
        """A session has no lease to look at, and no branches."""

    _ways: ClassVar[CommandTable] = {
        Write: _write,
        Read: _read,
        Consult: _consult,
        CallFunction: _call,
        CallIsolated: _call,
        Pause: lambda self, command: self.caller.pause(command.seconds),
        Await: lambda self, command: self.caller.until(command.future, self._staying),
        Work: lambda self, command: self.caller.work(command.task, *command.args),
        DriveRun: lambda self, command: adrive(self.caller, *command),
        CheckLease: _nothing,
        StopBranches: _nothing,
    }


class AsyncRunShell(AsyncShell):
    """Runs the engine of one driven run from async code, whose program may have tasks; see `RunShell`."""

    __slots__ = ("_awaiting", "_engine", "_first", "_hold", "_program", "_standing", "_stops", "_vigil")

    def __init__(self, caller: AsyncCaller, engine: RunEngine, program: Callable[..., Any]) -> None:
        super().__init__(caller, engine.stream, staying=engine.hold.check_not_leaving)
        self._engine = engine
        self._hold = engine.hold
        self._program = program
        self._first: tuple[Any, Any] | None = None  # the first task of the program, and its coroutine
        # Tasks that wait for other branches, and those that wait until their program cancels them: until they look again.
        self._standing: dict[Any, TimerHandle] = {}
        self._awaiting: dict[Any, TimerHandle] = {}
        self._stops = 0  # so often the program's first task was cancelled here
        self._vigil: Vigil | None = None  # over a program that was stopped

    async def _write(self, command: Write) -> Any:
        verb, args, kwargs, keep = command.verb, command.args, command.kwargs, command.keep
        if not command.fenced:
            return await super()._write(command)
        hold, caller = self._hold, self.caller
        verb, args, failed_steps = hold.begin_write(verb, args)
        about = (hold.lease, verb, *args)
        try:
            try:
                job = Job(leases.fenced, about, kwargs, caller.actor, caller.tenant)
                result, seq = await caller.core.lane.submit(job)
            except Unavailable as away:
                if not keep:
                    raise
                result, seq = await self._keep_trying(partial(caller.run, leases.fenced, about, kwargs, ""), away)
        except BaseException as error:
            hold.fail_write(failed_steps, error)
            raise
        hold.end_write(seq)
        return result

    async def _read(self, command: Read) -> Any:
        self._hold.activity.begin()
        try:
            return await self.caller.read(command.verb, *command.args, **command.kwargs)
        except Unavailable as trouble:
            raise self._hold.stop_for_trouble(trouble) from None
        finally:
            self._hold.activity.busy -= 1

    async def _check_lease(self, _command: CheckLease) -> None:
        if not await self._read(Read(leases.holds, (self._hold.lease,))):
            raise self._hold.stop_for_trouble(lost(self._stream))

    async def _call_program(self, _command: CallProgram) -> CallOutcome:
        from asyncio import current_task, get_running_loop  # noqa: PLC0415 - only async agents pay for asyncio

        engine = self._engine
        run = self._program(self, engine, engine.trunk)
        if engine.record.numbering == runs.BY_PYTHON:
            engine.trunk.wait_for_branches = current_branch.WaitForBranches(engine.replay.first_records)
        current_branch.number_branches(get_running_loop())
        token = current_branch.enter(engine.trunk)
        self._hold.see_out = self._see_out
        try:
            with engine.observed():
                called = engine.agent.fn(run, *engine.record.args, **engine.record.kwargs)
                self._first = (current_task(), called)
                return CallOutcome(await called)
        except BaseException as error:  # noqa: BLE001 - whatever ends a program, the engine judges it
            return CallOutcome(None, error)
        finally:
            current_branch.leave(token)
            if self._vigil is not None:
                self._vigil.end()
            if self._first is not None:
                for _ in range(self._stops):
                    self._first[0].uncancel()
            self._first = None

    async def _stand_by(self, command: StandBy) -> bool:
        return await self._stand(command.seconds, self._standing, [self._standing] if command.judges else [])

    async def _await_cancellation(self, command: AwaitCancellation) -> bool:
        return await self._stand(command.seconds, self._awaiting, [self._standing, self._awaiting])

    async def _stand(self, seconds: float, among: dict[Any, TimerHandle], judged: list[dict[Any, TimerHandle]]) -> bool:
        """Wait among such tasks for some seconds. Gives whether no task can move by itself, if those in these cannot."""
        from asyncio import current_task, get_running_loop  # noqa: PLC0415 - as above

        from perdure.runtime.standstill import stands  # noqa: PLC0415 - which needs asyncio

        def look() -> None:  # while this task waits, too
            first = self._first if judged else None
            if not woken.done():
                standing = {task for each in judged for task in each}
                woken.set_result(first is not None and stands(first, self._engine.trunk.tasks, standing))

        loop, task = get_running_loop(), current_task()
        woken = loop.create_future()
        # Not kept in this frame, where `stands` looks for timers of the program's own.
        among[task] = loop.call_later(seconds, look)
        try:
            return await woken
        finally:
            among.pop(task).cancel()

    async def _stop_program(self, _command: StopProgram) -> None:
        from asyncio import current_task  # noqa: PLC0415 - as above

        self._stop_but(current_task())

    def _stop_but(self, here: Any) -> None:
        """Cancel all tasks of the program but this one."""
        for task in [task for task in self._engine.trunk.tasks if task is not here and not task.done()]:
            task.cancel()
        if self._first is not None and self._first[0] is not here:
            self._stops += 1
            self._first[0].cancel()

    def _see_out(self) -> None:
        """Watch the program, which can do nothing more in this drive, until it ends."""
        from perdure.runtime.standstill import Vigil  # noqa: PLC0415 - which needs asyncio

        if self._first is not None and self._vigil is None:
            self._vigil = Vigil(self._engine, self._first, partial(self._stop_but, None))

    async def _stop_branches(self, command: StopBranches) -> None:
        from asyncio import current_task, gather  # noqa: PLC0415 - as above

        left = [task for task in command.tasks if task is not current_task()]
        for task in left:
            task.cancel()
        await gather(*left, return_exceptions=True)

    _ways: ClassVar[CommandTable] = {
        **AsyncShell._ways,
        Write: _write,
        Read: _read,
        CheckLease: _check_lease,
        CallProgram: _call_program,
        StopBranches: _stop_branches,
        AwaitCancellation: _await_cancellation,
        StandBy: _stand_by,
        StopProgram: _stop_program,
    }


def lost(stream: Stream) -> Stale:
    """The error of a driver whose lease is another's by now."""
    return Stale(f"run {stream.name} is no longer this worker's", path="run")


# -- driving a claimed run -------------------------------------------------------------------------------------------------------


def drive(caller: Caller, agent: Agent, lease: Lease, run_for: RunMaker, record: RunRecord | None = None) -> Drive:
    """Drive a claimed run from sync code. An async agent gets an event loop of its own.

    record: the run as it was right before the claim, if that is known.
    """
    if agent.is_async:
        there = AsyncCaller(caller.core, caller.actor, caller.tenant, caller.heartbeat)
        return invoking.awaited(adrive(there, agent, lease, run_for, record))
    if record is None or not lease.first:
        record = caller.read(runs.run, lease.stream)
    engine = RunEngine(
        core=caller.core,
        heartbeat=caller.heartbeat,
        actor=caller.actor,
        tenant=caller.tenant,
        agent=agent,
        lease=lease,
        record=record,
    )
    return RunShell(caller, engine, run_for(agent)).run(driver.drive_run(engine))


def _drive_to_its_end(caller: Caller, agent: Agent, lease: Lease, *given: Any) -> Drive:
    """Drive for async code that may be cancelled meanwhile: this thread cannot be, so the run is its own until it is done."""
    in_flight, driven, owner = caller.core.in_flight, (lease.stream.id, 0), object()
    in_flight.take_over(driven, owner)
    try:
        return drive(caller, agent, lease, *given)
    finally:
        in_flight.end(driven, owner)


async def adrive(
    caller: AsyncCaller, agent: Agent, lease: Lease, run_for: RunMaker, record: RunRecord | None = None
) -> Drive:
    """Drive a claimed run from async code. A sync agent gets a thread of its own: it may block."""
    if not agent.is_async:
        from asyncio import to_thread  # noqa: PLC0415 - only async callers pay for it

        there = Caller(caller.core, caller.actor, caller.tenant, caller.heartbeat)
        return await to_thread(_drive_to_its_end, there, agent, lease, run_for, record)
    if record is None or not lease.first:
        record = await caller.read(runs.run, lease.stream)
    engine = RunEngine(
        core=caller.core,
        heartbeat=caller.heartbeat,
        actor=caller.actor,
        tenant=caller.tenant,
        agent=agent,
        lease=lease,
        record=record,
    )
    return await _apart(engine, AsyncRunShell(caller, engine, run_for(agent)))


async def _apart(engine: RunEngine, shell: AsyncRunShell) -> Drive:
    """Drive in a task of its own: a cancellation of the caller's comes from outside, and any other is the program's own."""
    from asyncio import CancelledError, current_task, get_running_loop, wait  # noqa: PLC0415 - only async agents need it

    async def drive() -> CallOutcome:
        try:
            return CallOutcome(await shell.run(driver.drive_run(engine)))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the caller's: a task would end the loop by some
            return CallOutcome(None, error)

    loop, caller = get_running_loop(), current_task()
    assert caller is not None
    before = caller.cancelling()  # a caller may drive while it is being cancelled
    engine.hold.cancellation = lambda: CancelledError() if caller.cancelling() > before else None
    with current_branch.in_branch(None):  # the task is no branch of a run that its caller may be inside of
        task = loop.create_task(drive())
    log_context.note(task)
    while not task.done():
        try:
            await wait({task})
        except CancelledError as cancellation:
            loop.call_soon(task.cancel, *cancellation.args)  # once it has begun
    if task.cancelled():  # before it began, with all others of its loop
        with suppress(Error):
            await shell._write(write(runs.release))
        raise CancelledError
    came = task.result()
    if came.error is not None:
        raise came.error
    if caller.cancelling() > before:  # it came when the run had come to its rest, which is recorded
        raise CancelledError
    return came.result
