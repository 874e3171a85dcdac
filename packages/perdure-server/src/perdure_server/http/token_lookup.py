"""Looking tokens up, many at once: requests that arrive while a look is under way share the next one. Callers: `serving`.

Each request is judged by a look that began after it arrived, so a token that was revoked before opens nothing. Under load one
read serves dozens of requests, and a token that several of them show is looked up once. A glance, which takes no thread, is
shared in the same way by the requests of one turn of the event loop. Keeps P11.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from perdure.planes.access.tokens import TokenRecord

Lookup = Callable[[list[str]], Awaitable[Sequence[TokenRecord | Exception]]]

T = TypeVar("T")


class SharedGlance(Generic[T]):
    """A glance whose result holds for the rest of this turn of the event loop. glance: looks, or gives None."""

    __slots__ = ("_glance", "_seen")

    def __init__(self, glance: Callable[[], T | None]) -> None:
        self._glance = glance
        self._seen: T | None = None

    def see(self) -> T | None:
        """The result of a look that began after the caller was put into the queue of the event loop."""
        if self._seen is None:
            # First: whatever runs before `_forget` was queued before it, and so before the look.
            asyncio.get_running_loop().call_soon(self._forget)
            self._seen = self._glance()
        return self._seen

    def _forget(self) -> None:
        self._seen = None


class TokenLookup:
    """The requests that wait for their tokens. look: finds many at once."""

    __slots__ = ("_look", "_looking", "_waiting")

    def __init__(self, look: Lookup) -> None:
        self._look = look
        self._waiting: dict[str, asyncio.Future[TokenRecord]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def find(self, text: str) -> TokenRecord:
        """The token behind a text. Unauthenticated if it opens nothing."""
        waiting = self._waiting.get(text)
        if waiting is None:
            waiting = self._waiting[text] = asyncio.get_running_loop().create_future()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_all())
        return await asyncio.shield(waiting)  # a client that leaves takes nobody else's answer with it

    async def _look_all(self) -> None:
        while self._waiting:
            asked, self._waiting = self._waiting, {}
            try:
                found = await self._look([*asked])
            except Exception as error:  # noqa: BLE001 - each that waits is told
                found = [error] * len(asked)
            for waiting, each in zip(asked.values(), found, strict=True):
                if isinstance(each, Exception):
                    waiting.set_exception(each)
                    waiting.exception()  # if nobody waits any more, that is no mistake
                else:
                    waiting.set_result(each)
