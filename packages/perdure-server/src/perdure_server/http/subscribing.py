"""Named readers of the feed: the server keeps their position. One route a verb. Callers: `table`, by import."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.model.ids import new_uid
from perdure.planes.audit import subscriptions
from perdure.verbs.declaring import Right
from perdure_server.http.answers import DoneAnswer, EventAnswer, event_answer
from perdure_server.http.call import HttpCall
from perdure_server.http.inputs import BatchInput, StartInput, SubscriptionInput, TakeInput
from perdure_server.http.table import DELETE, route


class DeliveryAnswer(msgspec.Struct, frozen=True):
    """A batch. token: acknowledges it. more: asking again may bring some."""

    events: list[EventAnswer]
    token: int
    deliveries: int
    more: bool


class FeedHeldAnswer(msgspec.Struct, frozen=True):
    """The transaction that holds back the feed, in words; null if none does."""

    held_by: str | None


@route("GET", "/v1/feed/held", Right.READ, FeedHeldAnswer)
async def get_held(call: HttpCall) -> Any:
    """The transaction that holds back the feed on PostgreSQL, if one does."""
    return FeedHeldAnswer(await call.store.feed_held_by())


@route("PUT", "/v1/subscriptions/{name}", Right.WRITE, DoneAnswer)
async def put_subscription(call: HttpCall, body: SubscriptionInput) -> Any:
    """A reader of the feed under a name: one that exists continues where it was. Safe to repeat."""
    wanted = {"kinds": body.kinds, "stream": body.stream, "consumers": body.consumers}
    await call.store.subscribe(call.parts["name"], body.start, **wanted)
    return DoneAnswer()


@route("POST", "/v1/subscriptions/{name}/take", Right.WRITE, DeliveryAnswer, takes_key=True)
async def take_batch(call: HttpCall, body: TakeInput) -> Any:
    """The next batch of events, oldest first. With the same key a batch whose answer was lost comes again."""
    taker = call.key or new_uid().hex()
    found = await call.caller.write(subscriptions.take, call.parts["name"], body.limit, body.lease, taker)
    return DeliveryAnswer([event_answer(each) for each in found.events], found.token, found.deliveries, found.more)


@route("GET", "/v1/subscriptions/{name}/waiting", Right.READ, DoneAnswer)
async def is_waiting(call: HttpCall) -> Any:
    """Whether the feed has something for a reader."""
    return DoneAnswer(bool(await call.caller.read(subscriptions.waiting, call.parts["name"])))


@route("POST", "/v1/subscriptions/{name}/acknowledge", Right.WRITE, DoneAnswer)
async def acknowledge(call: HttpCall, body: BatchInput) -> Any:
    """Acknowledge a batch: the next one begins after it. Safe to repeat."""
    await call.caller.write(subscriptions.acknowledge, call.parts["name"], body.token)
    return DoneAnswer()


@route("POST", "/v1/subscriptions/{name}/return", Right.WRITE, DoneAnswer)
async def give_back(call: HttpCall, body: BatchInput) -> Any:
    """Give a batch back: it is delivered again at once. Safe to repeat."""
    await call.caller.write(subscriptions.give_back, call.parts["name"], body.token)
    return DoneAnswer()


@route("POST", "/v1/subscriptions/{name}/reset", Right.WRITE, DoneAnswer)
async def reset_subscription(call: HttpCall, body: StartInput) -> Any:
    """Let a reader go to the beginning or the end of the feed. Safe to repeat."""
    await call.caller.write(subscriptions.reset, call.parts["name"], body.start)
    return DoneAnswer()


@route(DELETE, "/v1/subscriptions/{name}", Right.WRITE, DoneAnswer)
async def unsubscribe(call: HttpCall) -> Any:
    """Forget a reader and its position. Safe to repeat."""
    await call.caller.write(subscriptions.unsubscribe, call.parts["name"])
    return DoneAnswer()
