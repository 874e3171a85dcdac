"""The feed, actors, subjects and verifying: the routes that answer their verbs."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.errors import Invalid
from perdure.model.limits import check_name
from perdure.model.records.emitted import EventRecord
from perdure.model.records.integrity import Report
from perdure.planes.audit import subscriptions, verify
from perdure.planes.conversation import feed
from perdure.planes.reading.paging import Page
from perdure.remote.asking import Asking, RouteRequest, address, answers, get, post, put, span
from perdure.remote.elsewhere import elsewhere
from perdure.remote.verbs.memory import DELETE


@answers(feed.read)
def read(after: str | None = None, limit: int = 100) -> RouteRequest:
    return get(address("feed"), Page[EventRecord], after=after, limit=limit)


@answers(feed.end)
def end() -> Asking:
    return (yield get(address("feed"), Page[EventRecord], after="end", limit=1)).next


class HeldFound(msgspec.Struct, frozen=True):
    """The transaction that holds back the feed."""

    held_by: str | None


@answers(feed.held_by)
def held_by() -> Asking:
    return (yield get(address("feed", "held"), HeldFound)).held_by


@answers(subscriptions.subscribe)
def subscribe(
    name: str, start: str = "beginning", *, kinds: Any = None, stream: Any = None, consumers: Any = None
) -> Asking:
    if kinds is not None and not isinstance(kinds, (list, tuple, set, frozenset)):
        raise Invalid("expected a list of kinds", path="kinds", hint='kinds=["turn.*", "deploy.finished"]')
    told = {"start": start, "kinds": None if kinds is None else list(kinds), "stream": stream, "consumers": consumers}
    yield put(_named(name), Any, **told)._replace(key=None)


def _named(name: str, *parts: str) -> str:
    return address("subscriptions", check_name(name, "name"), *parts)


@answers(subscriptions.take)
def take(name: str, limit: int = 100, lease: Any = "30s", taker: str = "") -> RouteRequest:
    asked = post(_named(name, "take"), subscriptions.Delivery, limit=limit, lease=span(lease, "lease"))
    return asked._replace(key=taker)


@answers(subscriptions.waiting)
def waiting(name: str) -> Asking:
    return (yield get(_named(name, "waiting"), Any))["changed"]


@answers(subscriptions.acknowledge)
def acknowledge(name: str, token: int) -> Asking:
    yield post(_named(name, "acknowledge"), Any, token=token)._replace(key=None)


@answers(subscriptions.give_back)
def give_back(name: str, token: int) -> Asking:
    yield post(_named(name, "return"), Any, token=token)._replace(key=None)


@answers(subscriptions.reset)
def reset(name: str, start: str) -> Asking:
    yield post(_named(name, "reset"), Any, start=start)._replace(key=None)


@answers(subscriptions.unsubscribe)
def unsubscribe(name: str) -> Asking:
    yield RouteRequest(DELETE, _named(name), Any, key=None)


@answers(verify.verify_store)
def verify_tenant(
    _core: Any, *, anchor: Any = None, public_key: Any = None, progress: Any = None, blobs: bool = True
) -> RouteRequest:
    if anchor is not None or public_key is not None or progress is not None:
        raise elsewhere("anchor_store")
    return get(address("verify"), Report, blobs=blobs)
