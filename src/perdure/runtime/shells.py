"""Shells: carry out what the engine of effects and runs asks for (`effects.commands`). In both colours by hand, like the callers.

A shell runs one generator of the engine: it does what the generator yields, and sends it the result or throws the error. Code
that belongs to asyncio (the numbers of branches, stopping tasks, cancellation) stands in the async shells alone. Callers: the
handles
of sessions, and whoever drives runs: `store.drive`, `recover` and the worker.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar

from perdure.effects.acting import Acting
from perdure.effects.commands import (
    Await,
    CallFunction,
    CallIsolated,
    CallProgram,
    Came,
    CheckLease,
    Command,
    Consult,
    IsStopped,
    Pause,
    Read,
    Stay,
    Steps,
    StopBranches,
    Work,
    Write,
)
from perdure.effects.kept_results import Keeping
from perdure.errors import Stale, Unavailable
from perdure.log.change import Stream
from perdure.model.records.runs import RunRecord
from perdure.planes.execution import runs
from perdure.planes.recovery import leases
from perdure.planes.recovery.leases import Lease
from perdure.runtime import driver, places
from perdure.runtime.agent import Agent
from perdure.runtime.callers import AsyncCaller, Caller, Check
from perdure.runtime.course import Drive
from perdure.runtime.driving import Driving
from perdure.runtime.invoking import AsyncInvoker, Invoker, awaited
from perdure.runtime.isolating import AsyncIsolator, Isolator
from perdure.stores.lane import Job

T = TypeVar("T")
# The maker of the run that an agent's function gets, by its colour.
See: TypeAlias = Callable[[Agent], Callable[..., Any]]
READER, ASYNC_READER = Invoker(None), AsyncInvoker(None)


def acting_in(caller: Caller | AsyncCaller, stream: Stream) -> Acting:
    """The engine that acts in a session."""
    return Acting(caller.core, stream, caller.actor, caller.tenant)


class Shell:
    """Runs the engine from sync code, on a session.

    locked: whether writes are fenced by the locks that the running code is inside of. staying: raises when the process is about
    to end, so that nobody waits any longer.
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
        try:
            command = next(steps)
            while True:
                try:
                    result = self._do(command)
                except BaseException as error:  # noqa: BLE001 - the engine judges it
                    command = steps.throw(error)
                else:
                    command = steps.send(result)
        except StopIteration as end:
            return end.value

    def _do(self, command: Command) -> Any:  # noqa: PLR0911 - one line a command, the frequent ones first
        if type(command) is Write:
            return self._write(command)
        if type(command) is Consult or type(command) is CallFunction or type(command) is CallIsolated:
            try:
                return Came(self._call(command))
            except BaseException as error:  # noqa: BLE001 - the engine judges it by what its tool declared
                return Came(None, error)
        match command:
            case Read(verb, args, kwargs):
                return self.caller.read(verb, *args, **kwargs)
            case Pause(seconds, watched, check):
                return self.caller.pause(seconds, check or (self._staying if watched else None))
            case Await(future):
                return self.caller.until(future, self._staying)
            case Work(task, args):
                return self.caller.work(task, *args)
            case IsStopped():
                return False
        return None  # a session has no lease to look at, and sync code no tasks

    def _write(self, command: Write) -> Any:
        verb, args, kwargs, fenced, keep = command
        if fenced:
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
        """Record what this process alone knows, as soon as the store is back; see `effects.kept_results`."""
        keeping = Keeping(self.caller.core, f"{self._stream.kind} {self._stream.name}")
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

    def _call(self, command: CallFunction | CallIsolated | Consult) -> Any:
        living = self.caller.core.living
        match command:
            case Consult(function, kwargs, is_async, seconds, args, check):
                if seconds is None:
                    return READER.read(function, args, kwargs, is_async=is_async)
                return READER.call_within(partial(function, *args, **kwargs), seconds, check or self._staying)
            case CallFunction(function, _, seconds, late):
                if seconds is None:
                    return Invoker(living).call(function, late)
                return Invoker(living).call_within(function, seconds, self._staying, late)
            case CallIsolated(tool, args, handed):
                return Isolator(living).call(tool, args, handed, self._staying)


class RunShell(Shell):
    """Runs the engine of one driven run: what it writes is fenced by the lease. program: makes what the agent's function gets."""

    __slots__ = ("_driving", "_hold", "_program")

    def __init__(self, caller: Caller, driving: Driving, program: Callable[..., Any]) -> None:
        super().__init__(caller, driving.stream, staying=driving.hold.check_staying)
        self._driving = driving
        self._hold = driving.hold
        self._program = program

    def _do(self, command: Command) -> Any:
        if type(command) is Write and command.fenced:
            verb, args, kwargs, _, keep = command
            hold, caller = self._hold, self.caller
            verb, args, said = hold.begin_write(verb, args)
            about = (hold.lease, verb, *args)
            try:
                try:
                    job = Job(leases.fenced, about, kwargs, caller.actor, caller.tenant, "")
                    result, seq = caller.core.lane.run(job)
                except Unavailable as away:
                    if not keep:
                        raise
                    result, seq = self._keep_trying(partial(caller.run, leases.fenced, about, kwargs, ""), away)
            except BaseException as error:
                hold.not_written(said, error)
                raise
            hold.wrote(seq)
            return result
        if type(command) is Read:
            return self._read(*command)
        if type(command) is CheckLease:
            if not self._read(leases.holds, (self._hold.lease,)):
                raise self._hold.troubled(lost(self._stream))
            return None
        if type(command) is CallProgram:
            return self._call_program()
        return super()._do(command)

    def _read(self, verb: Callable[..., T], args: tuple[Any, ...] = (), kwargs: Any = {}) -> T:  # noqa: B006 - not changed
        self._hold.activity.begin()
        try:
            return self.caller.read(verb, *args, **kwargs)
        except Unavailable as trouble:
            raise self._hold.troubled(trouble) from None
        finally:
            self._hold.activity.busy -= 1

    def _call_program(self) -> Came:
        driving = self._driving
        run = self._program(self, driving, driving.trunk)
        token = places.enter(driving.trunk)
        try:
            return Came(driving.agent.fn(run, *driving.record.args, **driving.record.kwargs))
        except BaseException as error:  # noqa: BLE001 - whatever ends a program, the engine judges it
            return Came(None, error)
        finally:
            places.leave(token)


class AsyncShell:
    """Runs the engine from async code, on a session; see `Shell`."""

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
        try:
            command = next(steps)
            while True:
                try:
                    result = await self._do(command)
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

    async def _do(self, command: Command) -> Any:  # noqa: PLR0911 - as above
        if type(command) is Write:
            return await self._write(command)
        if type(command) is Consult or type(command) is CallFunction or type(command) is CallIsolated:
            try:
                return Came(await self._call(command))
            except BaseException as error:  # noqa: BLE001 - the engine judges it by what its tool declared
                return Came(None, error)
        match command:
            case Read(verb, args, kwargs):
                return await self.caller.read(verb, *args, **kwargs)
            case Pause(seconds):
                return await self.caller.pause(seconds)
            case Await(future):
                return await self.caller.until(future, self._staying)
            case Work(task, args):
                return await self.caller.work(task, *args)
        return None  # a session has no lease to look at, and no branches

    async def _write(self, command: Write) -> Any:
        verb, args, kwargs, fenced, keep = command
        if fenced:
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
        """Record what this process alone knows, as soon as the store is back; see `effects.kept_results`."""
        keeping = Keeping(self.caller.core, f"{self._stream.kind} {self._stream.name}")
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

    async def _call(self, command: CallFunction | CallIsolated | Consult) -> Any:
        living = self.caller.core.living
        match command:
            case Consult(function, kwargs, is_async, seconds, args, check):
                if seconds is None:
                    return await ASYNC_READER.read(function, args, kwargs, is_async=is_async)
                asked = partial(function, *args, **kwargs)
                return await ASYNC_READER.call_within(asked, seconds, check or self._staying, is_async=is_async)
            case CallFunction(function, is_async, seconds, late):
                if seconds is None:
                    return await AsyncInvoker(living).call(function, late, is_async=is_async)
                return await AsyncInvoker(living).call_within(function, seconds, self._staying, late, is_async=is_async)
            case CallIsolated(tool, args, handed):
                return await AsyncIsolator(living).call(tool, args, handed)


class AsyncRunShell(AsyncShell):
    """Runs the engine of one driven run whose program has tasks: see `RunShell`."""

    __slots__ = ("_driving", "_hold", "_program")

    def __init__(self, caller: AsyncCaller, driving: Driving, program: Callable[..., Any]) -> None:
        super().__init__(caller, driving.stream, staying=driving.hold.check_staying)
        self._driving = driving
        self._hold = driving.hold
        self._program = program

    async def _do(self, command: Command) -> Any:
        if type(command) is Write and command.fenced:
            verb, args, kwargs, _, keep = command
            hold, caller = self._hold, self.caller
            verb, args, said = hold.begin_write(verb, args)
            about = (hold.lease, verb, *args)
            try:
                try:
                    job = Job(leases.fenced, about, kwargs, caller.actor, caller.tenant, "")
                    result, seq = await caller.core.lane.submit(job)
                except Unavailable as away:
                    if not keep:
                        raise
                    result, seq = await self._keep_trying(partial(caller.run, leases.fenced, about, kwargs, ""), away)
            except BaseException as error:
                hold.not_written(said, error)
                raise
            hold.wrote(seq)
            return result
        if type(command) is Read:
            return await self._read(*command)
        if type(command) is CheckLease:
            if not await self._read(leases.holds, (self._hold.lease,)):
                raise self._hold.troubled(lost(self._stream))
            return None
        return await self._do_of_tasks(command)

    async def _do_of_tasks(self, command: Command) -> Any:
        match command:
            case CallProgram():
                return await self._call_program()
            case StopBranches(tasks):
                return await _stop(tasks)
            case IsStopped():
                return _is_being_cancelled()
            case Stay():
                return await _for_ever()
        return await super()._do(command)

    async def _read(self, verb: Callable[..., T], args: tuple[Any, ...] = (), kwargs: Any = {}) -> T:  # noqa: B006
        self._hold.activity.begin()
        try:
            return await self.caller.read(verb, *args, **kwargs)
        except Unavailable as trouble:
            raise self._hold.troubled(trouble) from None
        finally:
            self._hold.activity.busy -= 1

    async def _call_program(self) -> Came:
        from asyncio import get_running_loop  # noqa: PLC0415 - only async agents pay for asyncio

        driving = self._driving
        run = self._program(self, driving, driving.trunk)
        places.number_branches(get_running_loop())
        token = places.enter(driving.trunk)
        try:
            return Came(await driving.agent.fn(run, *driving.record.args, **driving.record.kwargs))
        except BaseException as error:  # noqa: BLE001 - whatever ends a program, the engine judges it
            return Came(None, error)
        finally:
            places.leave(token)


async def _stop(tasks: Any) -> None:
    from asyncio import current_task, gather  # noqa: PLC0415 - as above

    left = [task for task in tasks if task is not current_task()]
    for task in left:
        task.cancel()
    await gather(*left, return_exceptions=True)


def _is_being_cancelled() -> bool:
    from asyncio import current_task  # noqa: PLC0415 - as above

    task = current_task()
    return task is not None and task.cancelling() > 0


async def _for_ever() -> None:
    from asyncio import Event  # noqa: PLC0415 - as above

    await Event().wait()


def lost(stream: Stream) -> Stale:
    """The error of a driver whose lease is another's by now."""
    return Stale(f"run {stream.name} is no longer this worker's", path="run")


# -- driving a claimed run -------------------------------------------------------------------------------------------------------


def drive(caller: Caller, agent: Agent, lease: Lease, see: See, record: RunRecord | None = None) -> Drive:
    """Drive a claimed run from sync code. An async agent gets an event loop of its own.

    record: how it stood right before, if that is known.
    """
    if agent.is_async:
        there = AsyncCaller(caller.core, caller.actor, caller.tenant, caller.heartbeat)
        return awaited(adrive(there, agent, lease, see, record))
    if record is None or not lease.first:
        record = caller.read(runs.run, lease.stream)
    driving = Driving(
        core=caller.core,
        heartbeat=caller.heartbeat,
        actor=caller.actor,
        tenant=caller.tenant,
        agent=agent,
        lease=lease,
        record=record,
    )
    return RunShell(caller, driving, see(agent)).run(driver.drive(driving))


async def adrive(caller: AsyncCaller, agent: Agent, lease: Lease, see: See, record: RunRecord | None = None) -> Drive:
    """Drive a claimed run from async code. A sync agent gets a thread of its own: it may block."""
    if not agent.is_async:
        from asyncio import to_thread  # noqa: PLC0415 - only async callers pay for it

        there = Caller(caller.core, caller.actor, caller.tenant, caller.heartbeat)
        return await to_thread(drive, there, agent, lease, see, record)
    if record is None or not lease.first:
        record = await caller.read(runs.run, lease.stream)
    driving = Driving(
        core=caller.core,
        heartbeat=caller.heartbeat,
        actor=caller.actor,
        tenant=caller.tenant,
        agent=agent,
        lease=lease,
        record=record,
    )
    return await AsyncRunShell(caller, driving, see(agent)).run(driver.drive(driving))
