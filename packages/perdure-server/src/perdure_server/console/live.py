"""The stream of a tab: it says that something was recorded, and the page reads again what it shows.

The id of each message is the place in the feed, so a tab that was cut off hears at once whether something came meanwhile. Nothing
of the events is sent: pages read through the ordinary routes. Callers: the console's routes. Keeps P11, P15.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse

from perdure.errors import Error
from perdure.log.feed import Position, encode_cursor
from perdure.planes.conversation import feed
from perdure.planes.conversation.feed import Sieve
from perdure.stores.store import Reads
from perdure_server.http.call import HttpCall
from perdure_server.http.streams import COMMENT_SECONDS, PAGE_EVENTS, RETRY_MS

PAUSE_SECONDS = 0.1  # between two messages: many commits are one look
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_ALL = Sieve(None, None)


def stream(call: HttpCall) -> StreamingResponse:
    """The stream from now; a tab that comes back is told at once if something was recorded meanwhile."""
    call.serving.admission.check_stream(call.identity.token.tenant)
    return StreamingResponse(_messages(call), media_type="text/event-stream", headers=HEADERS)


async def _messages(call: HttpCall) -> AsyncIterator[str]:
    tenant, last_id = call.identity.token.tenant, call.headers.get("last-event-id")
    pulse = call.serving.pulse(tenant, call.caller)
    try:
        uid, epoch = await call.caller.read(feed.store_of)
        at = await call.caller.read(feed.end_of)
        here = encode_cursor(uid, epoch, at)
        yield f"retry: {RETRY_MS}\nid: {here}\n\n"
        if last_id is not None and last_id != here:
            yield f"event: changed\nid: {here}\ndata: 1\n\n"
        with call.serving.admission.stream(tenant):
            while not call.serving.draining:
                came, at = await call.caller.read(_came, at)
                if came:
                    yield f"event: changed\nid: {encode_cursor(uid, epoch, at)}\ndata: {came}\n\n"
                    await asyncio.sleep(PAUSE_SECONDS)
                else:
                    yield ": alive\n\n"
                    await pulse.wait(at, COMMENT_SECONDS)
    except Error:
        return  # the browser comes back, and is told then what is wrong


def _came(reads: Reads, start: Position) -> tuple[int, Position]:
    """How many events of this tenant came after a position, at most a page of them, and the position after those."""
    placed, until = feed.placed_between(reads, start, feed.end_of(reads), PAGE_EVENTS, _ALL)
    return len(placed), until
