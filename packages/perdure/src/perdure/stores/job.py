"""A job: one verb on its way through the lane, and how its caller hears of the outcome, in a thread or in an event loop.

Callers: the lane, which runs jobs; open stores and the shells of the engine, which make them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from perdure.log.change import Stream

if TYPE_CHECKING:
    import asyncio
    import threading

Verb = TypeVar("Verb", bound=Callable[..., Any])


def contended(verb: Verb) -> Verb:
    """Mark a verb that several processes call for the same stream, and only one of them gets what it asks for.

    Its jobs share no commit with other work (`Lane._gather`): a claim that is lost costs nobody else anything.
    """
    verb.contended = True  # type: ignore[attr-defined]
    return verb


class Job(msgspec.Struct, eq=False):
    """One verb to be run in a transaction of its own, though it may share a commit."""

    verb: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    actor: str
    tenant: int
    pin: str = ""
    reads: bool = False  # it writes nothing, and its verb gets the connection
    result: Any = None
    error: BaseException | None = None
    done: bool = False
    deadline: float = 0.0  # on the monotonic clock; set when the job comes to the lane
    holds: bool = False  # whether its caller has the lane
    left: bool = False  # whether its caller is gone (interrupted, timed out)
    batch: list[Job] = []  # the jobs that its caller, as holder, has to tell
    waiter: threading.Lock | None = None
    future: asyncio.Future[Any] | None = None

    @property
    def about(self) -> int:
        """The stream that it is most likely about, 0 if it does not show: a verb's first argument, or what that holds."""
        first = self.args[0] if self.args else None
        stream = getattr(first, "stream", first)
        return stream.id if isinstance(stream, Stream) else 0

    @property
    def contended(self) -> bool:
        """Whether it asks for what others ask for as well."""
        return getattr(self.verb, "contended", False)


def refuse(job: Job, error: BaseException) -> None:
    """Give a job an error as its outcome."""
    job.error, job.done = error, True


def wake(jobs: list[Job]) -> None:
    """Tell everybody: threads one by one, each event loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in jobs:
        if job.future is not None:
            by_loop.setdefault(job.future.get_loop(), []).append(job)
        elif job.waiter is not None:
            with contextlib.suppress(RuntimeError):  # told before, by a holder that was interrupted after it
                job.waiter.release()
    for loop, finished in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody is waiting any more
            loop.call_soon_threadsafe(settle, finished)


def settle(jobs: list[Job]) -> None:
    """Give async callers the outcome of their jobs. Called in their event loop."""
    for job in jobs:
        future = job.future
        if future is None or future.done():
            continue
        if isinstance(job.error, StopIteration):  # which no future takes
            future.set_exception(RuntimeError("the verb raised StopIteration"))
        elif job.error is not None:
            future.set_exception(job.error)
        else:
            future.set_result(job.result)
