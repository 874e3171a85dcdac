"""Whether the tasks of a program can still move: each waits for another one of them, or in a verb of the run.

A task that waits for anything else (a timer, a lock, a thread) may move, and so may one under a deadline of its own. Where that
cannot be seen, a task may move: a standstill that is not noticed costs time, and one that is none would park an unchanged run.

A program that was stopped can do nothing more in its drive, and mostly ends by that at once. One that waits for an event, a lock
or a queue of its own does not, if only a branch that is over by now would move it: a `Vigil` stops it in its first task, too.
Callers: the async shell of runs. Keeps P13.
"""

from __future__ import annotations

import gc
import logging
from asyncio import Future, Task, Timeout, TimerHandle, get_running_loop
from collections.abc import Callable, Collection, Iterator
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from perdure.model.crash_points import reach

if TYPE_CHECKING:
    from perdure.runtime.run_state import RunState

log = logging.getLogger("perdure.run")

LOOK_SECONDS = 0.25
STILL_LOOKS = 20  # in a row must see nothing move before a program that was stopped is stopped in its first task, too
SYNCHRONISERS = frozenset({"asyncio.locks", "asyncio.queues"})  # where tasks wait for what other tasks do


class Vigil:
    """Watches a program that was stopped, until it ends. first: as in `stands`. stop: called again and again while nothing of it
    can move.
    """

    def __init__(self, run: RunState, first: tuple[Task[Any], Any], stop: Callable[[], None]) -> None:
        self._run = run
        self._first = first
        self._stop = stop
        self._awaited: list[Any] | None = None  # by its tasks, at the look before
        self._still = 0  # so many looks saw the same
        self._loop = get_running_loop()
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)

    def end(self) -> None:
        """The program has ended."""
        self._timer.cancel()

    def _look(self) -> None:
        activity = self._run.activity
        at_work = activity.busy or activity.takers
        awaited = None if at_work else awaited_by_all(self._first, self._run.trunk.tasks)
        self._still = self._still + 1 if awaited is not None and awaited == self._awaited else 0
        self._awaited = awaited
        if self._still >= STILL_LOOKS:
            self._still = 0
            log.info("its program waits for itself, and is stopped", extra=self._run.about)
            reach("run.still.before")
            self._stop()
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)


def awaited_by_all(first: tuple[Task[Any], Any], branches: Collection[Task[Any]]) -> list[Any] | None:
    """The futures that the tasks of a program wait for, if each waits for another one of them, or for an event, a lock or a
    queue; None if one may move by itself. first, branches: as in `stands`.
    """
    living = [first[0], *(task for task in branches if not task.done())]
    programs = [first[1], *(task.get_coro() for task in living[1:])]
    for task, coro in zip(living, programs, strict=True):
        if _has_timer(coro) or not (_awaits_one_of(task, living) or _synchronises(task, coro)):
            return None
    return [getattr(task, "_fut_waiter", None) for task in living]


def _synchronises(task: Task[Any], coro: Any) -> bool:
    """Whether a task waits in one of asyncio's events, locks and queues, for what only other code can do there."""
    awaited = getattr(task, "_fut_waiter", None)
    if awaited is None or awaited.done():
        return False
    innermost = None
    while getattr(coro, "cr_frame", None) is not None:
        innermost, coro = coro, coro.cr_await
    return innermost is not None and innermost.cr_frame.f_globals.get("__name__") in SYNCHRONISERS


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
