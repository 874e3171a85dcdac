"""The stream of a tab: it says that something was recorded, and the page reads again what it shows.

The id of each message is the place in the feed, so a tab that was cut off hears at once whether something came meanwhile.
Callers: the console's routes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse

from perdure.errors import Error
from perdure.handles.aio.store import AsyncStore

AT_ONCE = 1_000  # events that one message stands for
WAIT = "15s"  # a comment after so long without one: a proxy keeps the connection
PAUSE_SECONDS = 0.1  # between two messages: many commits are one look
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def stream(store: AsyncStore, after: str | None) -> StreamingResponse:
    """The stream from a place in the feed, or from now."""
    return StreamingResponse(_messages(store, after), media_type="text/event-stream", headers=HEADERS)


async def _messages(store: AsyncStore, after: str | None) -> AsyncIterator[str]:
    yield "retry: 1000\n\n"
    try:
        cursor = await store.feed_end()
        if after is not None and after != cursor:
            yield f"event: changed\nid: {cursor}\ndata: 1\n\n"
        while True:
            page = await store.feed(after=cursor, limit=AT_ONCE, wait=WAIT)
            if not page or page.next is None:
                yield ": still here\n\n"
                continue
            cursor = page.next
            yield f"event: changed\nid: {cursor}\ndata: {len(page)}\n\n"
            await asyncio.sleep(PAUSE_SECONDS)
    except Error:
        return  # the browser comes back, and is told then what is wrong
