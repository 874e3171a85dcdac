"""Instants and durations: integer microseconds since 1970 UTC. The only module that reads the system clock.

Time is data, never order. A clock is a callable that is passed in; `system_clock` is the default.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from reprlib import repr as brief
from typing import TypeAlias

from perdure.errors import Invalid

Clock = Callable[[], int]
Instant: TypeAlias = str | int | datetime | timedelta

SECOND_US = 1_000_000
_UNITS_US = {
    "ms": 1_000,
    "s": SECOND_US,
    "m": 60 * SECOND_US,
    "h": 3_600 * SECOND_US,
    "d": 86_400 * SECOND_US,
    "w": 604_800 * SECOND_US,
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
FIRST_US = (_FIRST - _EPOCH) // timedelta(microseconds=1)
LAST_US = (_LAST - _EPOCH) // timedelta(microseconds=1)


def system_clock() -> int:
    """Now, in microseconds since 1970 UTC."""
    return time.time_ns() // 1_000


def duration_us(value: str | float | timedelta, path: str = "duration") -> int:
    """Microseconds of "90s", "1h30m", "2d", a number of seconds, or a timedelta; must be positive."""
    if isinstance(value, timedelta):
        us = round(value.total_seconds() * SECOND_US)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        us = _seconds_us(value, path)
    elif isinstance(value, str):
        us = _spelled_us(value, path)
    else:
        raise Invalid(f"expected a duration such as '90s' or '2h', got {type(value).__name__}", path=path)
    if not 0 < us < 2**62:
        raise Invalid(f"a duration must be positive and finite, got {brief(value)}", path=path)
    return us


def _seconds_us(value: float, path: str) -> int:
    try:
        return round(value * SECOND_US)
    except (OverflowError, ValueError):
        raise Invalid(f"a duration must be positive and finite, got {brief(value)}", path=path) from None


def _spelled_us(value: str, path: str) -> int:
    parts = _DURATION.findall(value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise Invalid(f"expected a duration such as '90s', '1h30m' or '2d', got {value[:40]!r}", path=path)
    us = sum(float(number) * _UNITS_US[unit] for number, unit in parts)
    if not math.isfinite(us):
        raise Invalid("a duration must be finite", path=path)
    return round(us)


def to_datetime(instant_us: int) -> datetime:
    """The instant as an aware datetime in UTC; one that no calendar has is shown as the first or last that it has.

    A row that an older version let in, or that somebody altered, must not end the listing in which it stands.
    """
    try:
        return _EPOCH + timedelta(0, 0, instant_us)  # by position: half the cost, and every record that is read has one
    except OverflowError:
        return _LAST if instant_us > 0 else _FIRST


def instant_us(value: str | int | datetime | timedelta, now_us: int, path: str = "instant") -> int:
    """Microseconds of an instant given as a datetime, an ISO 8601 text, an age before now ("7d"), or microseconds.

    Invalid when it is none, or lies outside the years 1 to 9999.
    """
    us = _instant_us(value, now_us, path)
    if not FIRST_US <= us <= LAST_US:
        raise Invalid("this instant is out of range: years go from 1 to 9999", path=path)
    return us


def is_age(value: object) -> bool:
    """Whether an instant is given as an age before now, so that now must be known."""
    if isinstance(value, str):
        return bool(_DURATION.match(value)) and not value[:5].count("-")
    return isinstance(value, timedelta)


def _instant_us(value: str | int | datetime | timedelta, now_us: int, path: str) -> int:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise Invalid("a datetime without a time zone is ambiguous", path=path, hint="use datetime.now(UTC)")
        return (value - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, timedelta):
        return now_us - duration_us(value, path)
    if isinstance(value, str) and is_age(value):
        return now_us - _spelled_us(value, path)
    return _iso_us(value, path)


def _iso_us(value: object, path: str) -> int:
    try:
        parsed = datetime.fromisoformat(value)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        raise Invalid(
            f"expected an instant such as '2026-01-31', '2026-01-31T12:00Z' or an age such as '7d', got {brief(value)}",
            path=path,
        ) from None
    return ((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)
