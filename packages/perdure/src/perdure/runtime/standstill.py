"""Whether the tasks of a program can still move: each waits for another one of them, or in a verb of the run.

A task that waits for anything else (a timer, a lock, a thread) may move, and so may one under a deadline of its own. Where that
cannot be seen, a task may move: a standstill that is not noticed costs time, and one that is none would park an unchanged run.
Callers: the async shell of runs. Keeps P13.
"""

from __future__ import annotations

import gc
from asyncio import Future, Task, Timeout, TimerHandle
from collections.abc import Collection, Iterator
from functools import partial
from types import FunctionType, MethodType
from typing import Any


def stands(first: tuple[Task[Any], Any], branches: Collection[Task[Any]], standing: Collection[Any]) -> bool:
    """Whether no task of a program can move by itself. first: its first task, with the coroutine of the program in it.

    branches: the tasks that it made. standing: those that wait in a verb until others move.
    """
    living = [first[0], *(task for task in branches if not task.done())]
    programs = [first[1], *(task.get_coro() for task in living[1:])]
    return all(
        (task in standing or _awaits_one_of(task, living)) and not _has_timer(coro)
        for task, coro in zip(living, programs, strict=True)
    )


def _awaits_one_of(task: Task[Any], living: list[Task[Any]]) -> bool:
    awaited = getattr(task, "_fut_waiter", None)  # None: it is about to run
    if awaited is None or awaited.done():
        return False
    parts = getattr(awaited, "_children", None)  # of a gather
    if parts is not None:
        return all(part in living for part in parts if not part.done())
    return awaited in living or any(_completes(other, awaited) for other in living)


def _completes(task: Task[Any], awaited: Future[Any]) -> bool:
    """Whether the end of a task may complete a future, as in a task group, `asyncio.wait` or `wait_for`."""
    callbacks = getattr(task, "_callbacks", None) or ()
    return any(awaited is thing for callback, _ in callbacks for thing in _within(callback))


def _within(callback: Any) -> Iterator[Any]:
    """The things that a callback holds."""
    if isinstance(callback, partial):
        yield from callback.args
    elif isinstance(callback, MethodType):
        yield from getattr(callback.__self__, "__dict__", {}).values()
    elif isinstance(callback, FunctionType):
        for cell in callback.__closure__ or ():
            yield cell.cell_contents


def _has_timer(coro: Any) -> bool:
    """Whether a coroutine that waits, or one that it awaits, is under a deadline or holds a timer."""
    while coro is not None:
        for thing in gc.get_referents(coro):
            block = getattr(thing, "__self__", None) if isinstance(thing, MethodType) else None  # whose exit it is
            if isinstance(block, Timeout) and block.when() is not None and not block.expired():
                return True
            if isinstance(thing, TimerHandle) and not thing.cancelled():
                return True
        coro = getattr(coro, "cr_await", None)
    return False
