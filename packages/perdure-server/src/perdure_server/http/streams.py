"""The feed as server-sent events: every event once and in order, over any number of cut connections.

`id:` is the cursor after the event, so a client that comes back with Last-Event-ID (browsers do so by themselves) misses nothing
and gets nothing twice. A cursor of before a restore is answered 410. One task for a tenant looks for news, however many
follow. Callers: `app`. Keeps P11, P15.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import msgspec
from starlette.responses import StreamingResponse

from perdure.errors import Error, Invalid
from perdure.log.feed import Position, decode_cursor, encode_cursor
from perdure.planes.conversation import feed
from perdure.planes.conversation.emitted import Names
from perdure.planes.conversation.feed import Sieve
from perdure.planes.execution import runs
from perdure.runtime.callers import stream_of
from perdure.stores.core import Reader
from perdure.verbs.declaring import Right
from perdure_server.http import ag_ui, wire
from perdure_server.http.answers import EventAnswer, event_answer
from perdure_server.http.call import HttpCall
from perdure_server.http.queries import StreamQuery
from perdure_server.http.table import route

PAGE_EVENTS = 200
COMMENT_SECONDS = 15.0
RETRY_MS = 1_000
KINDS_MAX = 50


class Following(msgspec.Struct, frozen=True):
    """The part of the feed that a client follows."""

    uid: str
    epoch: int
    sieve: Sieve
    thread: str | None = None  # for AG-UI: the session of the run
    only_news: bool = False

    def cursor(self, position: Position) -> str:
        """The cursor after a position."""
        return encode_cursor(self.uid, self.epoch, position)


@route("GET", "/v1/stream", Right.READ, EventAnswer, media_type="text/event-stream")
async def follow(call: HttpCall, query: StreamQuery) -> Any:
    """Events as they are committed, as server-sent events. After a cut, Last-Event-ID (or `after`) continues where it ended;
    without either it begins now. 410: the store was restored, start again.
    """
    call.serving.admission.check_stream(call.identity.token.tenant)
    sieve = Sieve(_kinds(query.kinds), await _stream_of(call, query))
    uid, epoch = await call.caller.read(feed.store_of)
    given = call.headers.get("last-event-id") or query.after
    thread = await _thread_of(call, query)
    if given is not None:
        start = decode_cursor(given, uid, epoch)
    else:
        start = await call.caller.read(feed.end_of) if thread is None else Position()
    return StreamingResponse(
        _events(call, Following(uid, epoch, sieve, thread, query.form == "news"), start),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _events(call: HttpCall, following: Following, start: Position) -> AsyncIterator[bytes]:
    tenant, at = call.identity.token.tenant, start
    pulse = call.serving.pulse(tenant, call.caller)
    with call.serving.admission.stream(tenant):
        yield f"retry: {RETRY_MS}\nid: {following.cursor(at)}\n\n".encode()
        while not call.serving.draining:
            try:
                page, at = await call.caller.read(partial(_page, following=following), at)
            except Error:  # the store is away, or was restored: the client comes back by itself, and is told
                return
            for body in page:
                yield body
            if not page:
                yield f": alive\nid: {following.cursor(at)}\n\n".encode()
                await pulse.wait(at, COMMENT_SECONDS)


def _page(reads: Reader, start: Position, *, following: Following) -> tuple[list[bytes], Position]:
    """The next events as they are sent, and the position after them. Stale once the store was restored."""
    uid, epoch = feed.store_of(reads)
    decode_cursor(following.cursor(start), uid, epoch)
    placed, until = feed.placed_between(reads, start, feed.end_of(reads), PAGE_EVENTS, following.sieve)
    if following.only_news:
        told = f'id: {following.cursor(until)}\ndata: {{"events": {len(placed)}}}\n\n'
        return [told.encode()] if placed else [], until
    names = Names(reads)
    sent = []
    for event, place in placed:
        record = names.record(event)
        said = [event_answer(record)] if following.thread is None else [*ag_ui.rendered(record, following.thread)]
        data = ["data: " + wire.encode(each).decode() for each in said]
        if data:  # of several, the last has the place: a cut before it gives all of them again
            sent.append("\n\n".join([*data[:-1], f"id: {following.cursor(place)}\n{data[-1]}\n\n"]).encode())
    return sent, until


async def _thread_of(call: HttpCall, query: StreamQuery) -> str | None:
    """The session that a run works in, or the run, for AG-UI; None for any other form."""
    if query.form != "ag-ui":
        return None
    if query.run is None:
        raise Invalid("AG-UI follows one run: name it", path="query.run")
    stream = await call.caller.read(runs.find, query.run)
    return (await call.caller.read(runs.run, stream)).session or stream.name


def _kinds(given: str | None) -> str | None:
    if not given:
        return None
    words = [word.strip() for word in given.split(",")]
    if len(words) > KINDS_MAX or not all(words):
        raise Invalid(f"expected at most {KINDS_MAX} kinds, separated by commas", path="query.kinds")
    return msgspec.json.encode(words).decode()


async def _stream_of(call: HttpCall, query: StreamQuery) -> int | None:
    if query.session is not None and query.run is not None:
        raise Invalid("name a session or a run, not both", path="query.run")
    if query.session is not None:
        return stream_of(await call.named_session(query.session, "query.session")).id
    return None if query.run is None else (await call.caller.read(runs.find, query.run)).id
