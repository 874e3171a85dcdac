"""Calling users' functions: steps, tools, probes. Written by hand for sync and for async, like the callers.

A call with a deadline that is not kept raises Overdue, which says whether it is *quiet*: whether it can no longer send.
A sync function in a thread cannot be stopped: it counts as sending until it returns, and then `late` is told. Keeps P4.
"""

from __future__ import annotations

import contextlib
import contextvars
import inspect
import threading
import time
from collections.abc import Callable
from typing import Any

from perdure.effects.commands import LateOutcome, Overdue
from perdure.model.limits import CHECK_SECONDS
from perdure.runtime.callers import Check
from perdure.runtime.current_branch import enter, in_branch, leave
from perdure.stores.liveness import Liveness

GRACE_SECONDS = 5.0  # for a coroutine to finish being cancelled


class Flight:
    """One call in a thread of its own. It keeps the outcome for its caller, or tells `late` once nobody waits any more."""

    def __init__(self, call: Callable[[], Any], liveness: Liveness | None, done: Callable[[], None]) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self._call = call
        self._liveness = liveness
        self._done = done
        self._late: LateOutcome | None = None
        self._over = False
        self._mutex = threading.Lock()
        with in_branch(None):
            context = contextvars.copy_context()
        if liveness is not None:
            liveness.sending(1)
        threading.Thread(target=context.run, args=(self._fly,), name="perdure-call", daemon=True).start()

    def _fly(self) -> None:
        try:
            self.result = awaited(self._call())
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its caller's to judge
            self.error = error
        with self._mutex:
            self._over = True
            late = self._late
        if self._liveness is not None:
            self._liveness.sending(-1)
        self._done()
        if late is not None:
            late(self.result, self.error)

    def abandon(self, late: LateOutcome | None) -> bool:
        """Wait no longer: `late` hears of the outcome. Gives whether the call is still under way."""
        with self._mutex:
            self._late = late
            return not self._over

    def outcome(self) -> Any:
        """The call's result, or its exception."""
        if self.error is not None:
            raise self.error
        return self.result


def awaited(value: Any) -> Any:
    """The value, or the result of an awaitable: for async functions that sync code calls."""
    if not inspect.isawaitable(value):
        return value
    import asyncio  # noqa: PLC0415 - only async code pays for it

    async def wait() -> Any:
        return await value

    if not _in_event_loop():
        return asyncio.run(wait())
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - as above

    with ThreadPoolExecutor(1) as thread:  # sync code inside an event loop: that one waits, as it does for all of it
        return thread.submit(contextvars.copy_context().run, asyncio.run, wait()).result()


def read(fn: Callable[..., Any], args: Any, kwargs: Any, *, is_async: bool) -> Any:
    """Call a function that sends nothing, and has no deadline."""
    token = enter(None)
    try:
        return awaited(fn(*args, **kwargs)) if is_async else fn(*args, **kwargs)
    finally:
        leave(token)


def call(
    fn: Callable[[], Any],
    seconds: float | None,
    check: Check,
    late: LateOutcome | None = None,
    liveness: Liveness | None = None,
) -> Any:
    """Call a function. Raises Overdue when it does not keep its deadline. check: asked meanwhile; what it raises ends the wait,
    too.
    """
    if seconds is None:
        return read(fn, (), {}, is_async=True)  # in this thread: it cannot be left behind
    ended = threading.Event()
    flight = Flight(fn, liveness, ended.set)
    try:
        in_time = _wait(ended, seconds, check)
    except BaseException as error:
        error.quiet = not flight.abandon(late)  # type: ignore[attr-defined] - as Overdue says it
        raise
    if not in_time and flight.abandon(late):
        raise Overdue(seconds, quiet=False)
    return flight.outcome()


def _wait(ended: threading.Event, seconds: float, check: Check) -> bool:
    deadline = time.monotonic() + seconds
    while not ended.wait(min(max(deadline - time.monotonic(), 0), CHECK_SECONDS)):
        if time.monotonic() >= deadline:
            return False
        check()
    return True


async def aread(fn: Callable[..., Any], args: Any, kwargs: Any, *, is_async: bool) -> Any:
    """`read`, from async code. A sync function runs on a thread of the event loop's pool."""
    token = enter(None)
    try:
        if is_async:
            return await fn(*args, **kwargs)
        from asyncio import to_thread  # noqa: PLC0415 - only async code pays for it

        return await to_thread(lambda: awaited(fn(*args, **kwargs)))
    finally:
        leave(token)


async def acall(
    fn: Callable[[], Any], seconds: float | None, late: LateOutcome | None = None, liveness: Liveness | None = None, *,
    is_async: bool,
) -> Any:  # fmt: skip
    """Call a function from async code, which never blocks the event loop. Overdue when it does not keep its deadline."""
    if not is_async:
        return await _flown(fn, seconds, late, liveness)
    if seconds is None:
        with in_branch(None):  # in this very task: nothing else of it runs meanwhile
            return await fn()
    return await _finish(fn, seconds, late)


async def _flown(
    fn: Callable[[], Any], seconds: float | None, late: LateOutcome | None, liveness: Liveness | None
) -> Any:
    """Wait for a sync function in a thread of its own."""
    import asyncio  # noqa: PLC0415 - as above

    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def tell() -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody is waiting any more
            loop.call_soon_threadsafe(ended.set)

    flight = Flight(fn, liveness, tell)
    try:
        with in_branch(None):  # wait_for may make a task, which is no branch of the run
            await asyncio.wait_for(ended.wait(), seconds)
    except TimeoutError:
        if flight.abandon(late):
            raise Overdue(seconds or 0.0, quiet=False) from None
    except BaseException as error:  # cancelled, or dropped with its event loop: the thread goes on
        error.quiet = not flight.abandon(late)  # type: ignore[attr-defined] - as Overdue says it
        raise
    return flight.outcome()


async def _finish(fn: Callable[[], Any], seconds: float | None, late: LateOutcome | None) -> Any:
    """Await a coroutine; at the deadline cancel it and see whether it ends."""
    import asyncio  # noqa: PLC0415 - as above

    with in_branch(None):
        task = asyncio.ensure_future(fn())
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError as error:
        error.quiet = await _has_ended(task, late)  # type: ignore[attr-defined] - as above
        raise
    except GeneratorExit as error:  # dropped: nothing can be awaited any more
        error.quiet = task.done()  # type: ignore[attr-defined] - as above
        task.add_done_callback(lambda ended: _tell(ended, late))
        raise
    if done:
        return task.result()
    if not await _has_ended(task, late):
        raise Overdue(seconds or 0.0, quiet=False)
    if task.cancelled():
        raise Overdue(seconds or 0.0, quiet=True)
    return task.result()


async def _has_ended(task: Any, late: LateOutcome | None) -> bool:
    """Cancel a call. Gives whether it ended by that; `late` hears of one that does not end."""
    import asyncio  # noqa: PLC0415 - as above

    task.cancel()
    await asyncio.wait({task}, timeout=GRACE_SECONDS)
    if not task.done():
        task.add_done_callback(lambda ended: _tell(ended, late))
    return task.done()


def _tell(task: Any, late: LateOutcome | None) -> None:
    if late is None:
        return
    try:
        result, error = task.result(), None
    except BaseException as raised:  # noqa: BLE001 - whatever a tool raises is judged by its declaration
        result, error = None, raised
    late(result, error)


def _in_event_loop() -> bool:
    import asyncio  # noqa: PLC0415 - as above

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
