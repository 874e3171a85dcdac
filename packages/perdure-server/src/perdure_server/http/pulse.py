"""News of a store: one task looks for it, however many follow. Callers: `streams`, through `serving`."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from perdure.errors import Error
from perdure.log.feed import Position
from perdure.planes.conversation import feed
from perdure.runtime.callers import AsyncCaller

LOOK_SECONDS = 0.25


class Pulse:
    """Looks for news of one store, for everybody who follows it: one query each time, whatever their number."""

    def __init__(self, caller: AsyncCaller) -> None:
        self.caller = caller
        self._news = asyncio.Event()
        self._followers = 0
        self._task: asyncio.Task[None] | None = None
        self.end = Position()

    async def wait(self, after: Position, seconds: float) -> None:
        """Return when the feed may have something after a position, or the time is over."""
        self._followers += 1
        try:
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._look())
            if self.end <= after:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._news.wait(), seconds)
        finally:
            self._followers -= 1

    def wake(self) -> None:
        """Let everybody look again at once: the server is about to end."""
        self._news.set()

    async def _look(self) -> None:
        while self._followers:
            with suppress(Error):  # a store that is away for a while: those who follow read it themselves
                found = await self.caller.read(feed.end_of)
                if found > self.end:
                    self.end = found
                    self._news.set()
                    self._news = asyncio.Event()
            await asyncio.sleep(LOOK_SECONDS)
