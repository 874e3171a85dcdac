"""Carrying a verb out: reads and verbs with a key of their own as they are, all other writes in one transaction.

A write with an Idempotency-Key is a request of `planes.execution.requests`: its answer is recorded in the commit of the work,
so that a client that lost it gets the same one, also from a server that was killed in between. Keeps P1, P5.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from perdure.errors import Conflict
from perdure.handles.aio.requests import AsyncRequests
from perdure.handles.atomic import Atomic
from perdure.log.change import Stream
from perdure.stores.tx import Tx
from perdure_server.http import wire
from perdure_server.http.call import HttpCall
from perdure_server.http.operating import dispatch_effect, still_dispatched
from perdure_server.http.table import Route


async def carry_out(route: Route, call: HttpCall, given: dict[str, Any]) -> Any:
    """Carry a verb out; gives its answer."""
    if route.target is None:
        return await route.verb(call, **given)
    stream = await call.stream_of(route.target)
    work = partial(_inside, route, call, given, stream)
    if call.key is None:
        return await call.store.atomic(work)
    asked = call.request(route.name, given.get("body"), given.get("query"))
    answered = await AsyncRequests(call.caller, stream).once(call.key, work, asked=asked)
    return await still_dispatched(call, answered) if route.verb is dispatch_effect else answered


def _inside(route: Route, call: HttpCall, given: dict[str, Any], stream: Stream, tx: Atomic) -> Any:
    """The answer as builtins, so that it can be kept under the key and given again as it was."""
    if call.head is not None:
        tx.inside(_check_head, stream, call.head)
    return wire.encoded(route.verb(tx, call, **given))


def _check_head(tx: Tx, stream: Stream, expected: int) -> None:
    current = tx.seq(stream)
    if current != expected:
        raise Conflict(f"{stream.kind} {stream.name!r} is at {current}", path="header.if-match", seq=current)
