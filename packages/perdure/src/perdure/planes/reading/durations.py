"""Spans of time that verbs are given: how long something lasts, which range a list covers, how long to wait.

Planes that take `ttl=`, `since=`, `until=` or `wait=` call these. Keeps P15: what is no time is refused here.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple, TypeAlias

from perdure.errors import Invalid
from perdure.model.instants import LAST_US, SECOND_US, Instant, duration_us, instant_us, is_age
from perdure.stores.store import Reads
from perdure.stores.tx import LOG

Duration: TypeAlias = "str | float | timedelta"

_FIRST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.5


def store_now(reads: Reads) -> int:
    """Now on the store's clock, which decides expiry."""
    return reads.query(LOG.store_clock)[0][0]


def deadline(reads: Reads, ttl: Duration | None, path: str = "ttl") -> int | None:
    """When something ends that lasts for `ttl` from now; None when it has no end."""
    if ttl is None:
        return None
    ends_at = store_now(reads) + duration_us(ttl, path)
    if ends_at > LAST_US:
        raise Invalid(f"{ttl!r} from now is past the year 9999", path=path)
    return ends_at


class Span(NamedTuple):
    """The range `since <= at < until`; None is no bound."""

    since: int | None
    until: int | None


def between(reads: Reads, since: Instant | None, until: Instant | None) -> Span:
    """The range that a listing covers."""
    if since is None and until is None:
        return Span(None, None)
    now = store_now(reads) if is_age(since) or is_age(until) else 0
    return Span(_bound(since, now, "since"), _bound(until, now, "until"))


def _bound(value: Instant | None, now_us: int, path: str) -> int | None:
    if value is None:
        return None
    return instant_us(value, now_us, path)


def pauses(wait: Duration | None, path: str = "wait") -> Iterator[float]:
    """Seconds to pause between attempts, growing; together they last as long as `wait`."""
    seconds_left = 0.0 if wait is None else duration_us(wait, path) / SECOND_US
    pause = _FIRST_PAUSE_SECONDS
    while seconds_left > 0:
        yield min(pause, seconds_left)
        seconds_left -= pause
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
