"""Waiting for what others do: a verb that found nothing looks again until its time is over.

A store that lies here is looked at again after growing pauses. A server tells when something was recorded (`News`), so a store
over the network is looked at then, and now and then besides: a batch whose lease has passed is no event. News are hints; what
came is read from the store, so a hint that is lost or told twice loses and repeats nothing. Callers: the handles. Keeps P15.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from perdure.model.instants import SECOND_US, duration_us
from perdure.planes.reading.durations import Duration, pauses

if TYPE_CHECKING:
    from asyncio import Future as AsyncFuture
    from concurrent.futures import Future

    from perdure.runtime.callers import AsyncCaller, Caller

LOOK_SECONDS = 5.0  # between two looks while nothing is told


class News(Protocol):
    """Tells that something was recorded."""

    heard: int
    """How often it told so."""

    is_deaf: bool
    """Whether it never will: nobody may listen there."""

    def after(self, heard: int) -> Future[None]:
        """Done when more was heard than that."""
        ...


class _Waiting:
    """The parts of patience that sync and async share. news: counted from here on, so that none is missed before the first wait.

    monotonic: the clock, in seconds.
    """

    __slots__ = ("_heard", "_monotonic", "_news", "_pauses", "_until")

    def __init__(self, wait: Duration | None, path: str, news: News | None, monotonic: Callable[[], float]) -> None:
        seconds = 0.0 if wait is None else duration_us(wait, path) / SECOND_US
        self._monotonic = monotonic
        self._until = monotonic() + seconds
        self._pauses = pauses(wait, path)
        self._news = news
        self._heard = 0 if news is None else news.heard

    def _turn(self) -> tuple[Future[None] | None, float]:
        """The next news to wait for, if somebody tells any, and the longest wait in seconds; 0 when the time is over."""
        if self._news is None or self._news.is_deaf:
            return None, next(self._pauses, 0.0)
        left = self._until - self._monotonic()
        return (self._news.after(self._heard), min(left, LOOK_SECONDS)) if left > 0 else (None, 0.0)

    def _heed(self) -> None:
        if self._news is not None:
            self._heard = self._news.heard


class Patience(_Waiting):
    """The patience of a sync caller."""

    __slots__ = ("_caller",)

    def __init__(
        self, caller: Caller, wait: Duration | None, path: str, news: News | None, monotonic: Callable[[], float]
    ) -> None:
        super().__init__(wait, path, news, monotonic)
        self._caller = caller

    def lasts(self) -> bool:
        """Wait until it is worth looking again; False when the time is over."""
        news, seconds = self._turn()
        if news is not None:
            with suppress(TimeoutError):
                news.result(seconds)
        elif seconds:
            self._caller.pause(seconds)
        self._heed()
        return seconds > 0


class AsyncPatience(_Waiting):
    """The patience of an async caller."""

    __slots__ = ("_caller", "_future", "_wrapped")

    def __init__(
        self, caller: AsyncCaller, wait: Duration | None, path: str, news: News | None, monotonic: Callable[[], float]
    ) -> None:
        super().__init__(wait, path, news, monotonic)
        self._caller = caller
        self._future: Future[None] | None = None
        self._wrapped: AsyncFuture[None] | None = None

    async def lasts(self) -> bool:
        """Wait until it is worth looking again; False when the time is over."""
        from asyncio import wait  # noqa: PLC0415 - only async callers pay for asyncio

        news, seconds = self._turn()
        if news is not None:
            await wait([self._seen_here(news)], timeout=seconds)
        elif seconds:
            await self._caller.pause(seconds)
        self._heed()
        return seconds > 0

    def _seen_here(self, news: Future[None]) -> AsyncFuture[None]:
        """These news on this event loop; wrapped once, however often it is waited for."""
        from asyncio import wrap_future  # noqa: PLC0415 - as above

        if self._wrapped is None or self._future is not news:
            self._future, self._wrapped = news, wrap_future(news)
        return self._wrapped
