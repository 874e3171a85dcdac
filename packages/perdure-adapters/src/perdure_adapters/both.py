"""Sync and async on one object: frameworks call both twins of one saver or store.

The logic of an adapter is written once, as generators that yield `Read`, `Write` and `WriteIn`. `Both` carries them out in the
colour of the caller, over one open store. A generator gets the result of each, or its error.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

from perdure.effects.commands import Read, Write
from perdure.handles.sync.store import Store
from perdure.log.change import Stream
from perdure.planes.conversation import sessions
from perdure.planes.memory import values
from perdure.runtime.callers import AsyncCaller, Caller, caller_of
from perdure_adapters.shared_store import SharedStore

T = TypeVar("T")


class WriteIn(NamedTuple):
    """Run a write verb on a stream; done when it is durable."""

    stream: Stream
    verb: Callable[..., Any]
    args: tuple[Any, ...] = ()


__all__ = ["Asked", "Both", "Read", "Write", "WriteIn", "find_session", "open_scope", "open_session"]

Asked = Generator[Read | Write | WriteIn, Any, T]


class Both:
    """An open store, by its URL or as it is, that carries out what generators ask for."""

    __slots__ = ("_async", "_opened", "_sync")

    def __init__(self, store: Any) -> None:
        self._opened = SharedStore(store)
        self._sync: Caller = caller_of(self._opened.sync)
        self._async: AsyncCaller = caller_of(self._opened.aio)

    @property
    def store(self) -> Store:
        """The store, for sync code."""
        return self._opened.sync

    @property
    def caller(self) -> Caller:
        """The road of verbs, for verbs that take one."""
        return self._sync

    def run(self, steps: Asked[T]) -> T:
        """Carry it out here, and wait."""
        caller = self._sync
        result: Any = None
        error: BaseException | None = None
        while True:
            try:
                step = steps.send(result) if error is None else steps.throw(error)
            except StopIteration as end:
                return end.value
            result, error = None, None
            try:
                if isinstance(step, Read):
                    result = caller.read(step.verb, *step.args, **step.kwargs)
                elif isinstance(step, WriteIn):
                    result = caller.write_in(step.stream, step.verb, step.args, {})
                else:
                    result = caller.write(step.verb, *step.args, **step.kwargs)
            except Exception as raised:  # noqa: BLE001 - the generator decides
                error = raised

    async def arun(self, steps: Asked[T]) -> T:
        """Carry it out without blocking the event loop."""
        caller = self._async
        result: Any = None
        error: BaseException | None = None
        while True:
            try:
                step = steps.send(result) if error is None else steps.throw(error)
            except StopIteration as end:
                return end.value
            result, error = None, None
            try:
                if isinstance(step, Read):
                    result = await caller.read(step.verb, *step.args, **step.kwargs)
                elif isinstance(step, WriteIn):
                    result = await caller.write_in(step.stream, step.verb, step.args, {})
                else:
                    result = await caller.write(step.verb, *step.args, **step.kwargs)
            except Exception as raised:  # noqa: BLE001 - the generator decides
                error = raised

    def close(self) -> None:
        """Close the store if it was opened here, and nothing else uses it."""
        self._opened.close()


def find_session(name: str) -> Asked[Stream | None]:
    """The stream of a session; None if there is none."""
    session = yield Read(sessions.find_session, (name,))
    return session[0] if session else None


def open_session(name: str) -> Asked[Stream]:
    """The stream of a session, which is made if it is new."""
    existing = yield from find_session(name)
    if existing is not None:
        return existing
    stream, _ = yield Write(sessions.open_session, (name,))
    return stream


def open_scope(name: str) -> Asked[Stream]:
    """The stream of a scope, which is made if it is new."""
    stream = yield Read(values.find_scope, (name,))
    return stream or (yield Write(values.open_scope, (name,)))
