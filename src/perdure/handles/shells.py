"""Shells: carry out what the engine of effects asks for (`effects.commands`). In both colours by hand, like the callers.

A shell runs one generator of the engine: it does what the generator yields, and sends it the result or throws the error.
Callers: the handles of sessions, and the driving of runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from perdure.effects.acting import Acting
from perdure.effects.commands import (
    Await,
    Call,
    CallIsolated,
    Came,
    CheckLease,
    Command,
    Consult,
    Pause,
    Read,
    Steps,
    Write,
)
from perdure.handles.callers import AsyncCaller, Caller, Check
from perdure.handles.invoking import AsyncInvoker, Invoker
from perdure.handles.isolating import AsyncIsolator, Isolator
from perdure.log.change import Stream

T = TypeVar("T")


def acting_in(caller: Caller | AsyncCaller, stream: Stream) -> Acting:
    """The engine that acts in a session."""
    return Acting(caller.core, stream, caller.actor, caller.tenant)


class Shell:
    """Runs the engine from sync code.

    write: runs a verb on the stream; plainly for a session, fenced for a run. keep: `write` that waits for a store that is
    away. check: looks at the lease of a run. staying: raises when the process is about to end, so that nobody waits any longer.
    """

    __slots__ = ("_caller", "_check", "_keep", "_staying", "_stream", "_write")

    def __init__(
        self,
        caller: Caller,
        stream: Stream,
        write: Callable[..., Any],
        *,
        keep: Callable[..., Any] | None = None,
        check: Check | None = None,
        staying: Check = lambda: None,
    ) -> None:
        self._caller = caller
        self._stream = stream
        self._write = write
        self._keep = keep or self._kept
        self._check = check
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

    def _kept(self, *about: Any, **named: Any) -> Any:
        return self._trying(partial(self._write, *about, **named))

    def _trying(self, write: Callable[[], Any]) -> Any:
        return self._caller.keep_trying(write, f"{self._stream.kind} {self._stream.name}", self._staying)

    def _do(self, command: Command) -> Any:  # noqa: PLR0911 - one line a command
        match command:
            case Write(verb, args, kwargs, fenced, keep):
                if fenced:
                    return (self._keep if keep else self._write)(verb, *args, **kwargs)
                write = partial(self._caller.write, verb, self._stream, *args, **kwargs)
                return self._trying(write) if keep else write()
            case Read(verb, args):
                return self._caller.read(verb, *args)
            case CheckLease():
                return self._check() if self._check is not None else None
            case Pause(seconds, watched):
                return self._caller.pause(seconds, self._staying if watched else None)
            case Await(future):
                return self._caller.until(future, self._staying)
            case Call() | CallIsolated() | Consult():
                try:
                    return Came(self._call(command))
                except BaseException as error:  # noqa: BLE001 - the engine judges it by what its tool declared
                    return Came(None, error)

    def _call(self, command: Call | CallIsolated | Consult) -> Any:
        living = self._caller.core.living
        match command:
            case Call(function, _, seconds, late):
                if seconds is None:
                    return Invoker(living).call(function, late)
                return Invoker(living).call_within(function, seconds, self._staying, late)
            case CallIsolated(tool, args, handed):
                return Isolator(living).call(tool, args, handed, self._staying)
            case Consult(function, kwargs, is_async, seconds):
                if seconds is None:
                    return Invoker(None).read(function, (), kwargs, is_async=is_async)
                return Invoker(None).call_within(partial(function, **kwargs), seconds, self._staying)


class AsyncShell:
    """Runs the engine from async code; see `Shell`."""

    __slots__ = ("_caller", "_check", "_keep", "_staying", "_stream", "_write")

    def __init__(
        self,
        caller: AsyncCaller,
        stream: Stream,
        write: Callable[..., Awaitable[Any]],
        *,
        keep: Callable[..., Awaitable[Any]] | None = None,
        check: Callable[[], Awaitable[None]] | None = None,
        staying: Check = lambda: None,
    ) -> None:
        self._caller = caller
        self._stream = stream
        self._write = write
        self._keep = keep or self._kept
        self._check = check
        self._staying = staying

    async def run(self, steps: Steps[T]) -> T:
        """Run it to its end; returns what it returns, raises what it raises."""
        try:
            command = next(steps)
            while True:
                try:
                    result = await self._do(command)
                except BaseException as error:  # noqa: BLE001 - the engine judges it
                    command = steps.throw(error)
                else:
                    command = steps.send(result)
        except StopIteration as end:
            return end.value

    async def _kept(self, *about: Any, **named: Any) -> Any:
        return await self._trying(partial(self._write, *about, **named))

    async def _trying(self, write: Callable[[], Awaitable[Any]]) -> Any:
        return await self._caller.keep_trying(write, f"{self._stream.kind} {self._stream.name}", self._staying)

    async def _do(self, command: Command) -> Any:  # noqa: PLR0911 - as above
        match command:
            case Write(verb, args, kwargs, fenced, keep):
                if fenced:
                    return await (self._keep if keep else self._write)(verb, *args, **kwargs)
                write = partial(self._caller.write, verb, self._stream, *args, **kwargs)
                return await (self._trying(write) if keep else write())
            case Read(verb, args):
                return await self._caller.read(verb, *args)
            case CheckLease():
                return await self._check() if self._check is not None else None
            case Pause(seconds):
                return await self._caller.pause(seconds)
            case Await(future):
                return await self._caller.until(future, self._staying)
            case Call() | CallIsolated() | Consult():
                try:
                    return Came(await self._call(command))
                except BaseException as error:  # noqa: BLE001 - the engine judges it by what its tool declared
                    return Came(None, error)

    async def _call(self, command: Call | CallIsolated | Consult) -> Any:
        living = self._caller.core.living
        match command:
            case Call(function, is_async, seconds, late):
                if seconds is None:
                    return await AsyncInvoker(living).call(function, late, is_async=is_async)
                return await AsyncInvoker(living).call_within(function, seconds, self._staying, late, is_async=is_async)
            case CallIsolated(tool, args, handed):
                return await AsyncIsolator(living).call(tool, args, handed)
            case Consult(function, kwargs, is_async, seconds):
                if seconds is None:
                    return await AsyncInvoker(None).read(function, (), kwargs, is_async=is_async)
                asked = partial(function, **kwargs)
                return await AsyncInvoker(None).call_within(asked, seconds, self._staying, is_async=is_async)
