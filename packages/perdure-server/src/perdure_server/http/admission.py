"""Letting requests in, tenant by tenant: so many in a second, streams at once, and bytes. A request beyond that is Limited (429).

A tenant that asks too often waits; the others notice nothing. Counts are of this server alone. Callers: `serving`, `streams`.
Keeps P15.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from perdure.errors import Limited
from perdure.planes.access import limits
from perdure.planes.access.limits import DEFAULT, TenantLimits
from perdure.runtime.callers import AsyncCaller
from perdure_server.http.byte_counts import ByteCount

BURST_SECONDS = 2.0  # of quiet that may be made up for at once


class Bucket:
    """Requests that may still come: it fills up with time, at a rate, to a bound."""

    __slots__ = ("_at", "_left", "rate")

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate
        self._at = now
        self._left = rate * BURST_SECONDS

    def take(self, now: float) -> float:
        """Take one; gives 0, or after how many seconds there is one."""
        self._left = min(self.rate * BURST_SECONDS, self._left + (now - self._at) * self.rate)
        self._at = now
        if self._left >= 1:
            self._left -= 1
            return 0.0
        return (1 - self._left) / self.rate if self.rate else 60.0


class Admission:
    """The counts of a server. clock: seconds that only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._limits: dict[str, TenantLimits] = {}
        self._buckets: dict[str, Bucket] = {}
        self.streams: dict[str, int] = {}
        self._bytes: dict[str, ByteCount] = {}
        self.refused = 0
        self.answers: dict[str, int] = {}  # by the first digit of their status

    def enter(self, tenant: str, given: TenantLimits) -> None:
        """A request of a tenant. Limited if it has asked too often."""
        self._limits[tenant] = given
        if given.requests is None:
            return
        bucket = self._buckets.get(tenant)
        if bucket is None or bucket.rate != given.requests:
            bucket = self._buckets[tenant] = Bucket(given.requests, self._clock())
        wait = bucket.take(self._clock())
        if wait:
            raise self._limited(f"more than {given.requests} requests in a second", "requests", wait)

    def answered(self, status: int) -> None:
        """Count an answer."""
        kind = f"{status // 100}xx"
        self.answers[kind] = self.answers.get(kind, 0) + 1

    def check_stream(self, tenant: str) -> None:
        """Limited if a tenant has as many streams as it may have."""
        most = self._limits.get(tenant, DEFAULT).streams
        if most is not None and self.streams.get(tenant, 0) >= most:
            raise self._limited(f"more than {most} streams at once", "streams", 5)

    @contextmanager
    def stream(self, tenant: str) -> Iterator[None]:
        """A stream of a tenant, while it is open."""
        self.streams[tenant] = self.streams.get(tenant, 0) + 1
        try:
            yield
        finally:
            self.streams[tenant] -= 1

    async def check_bytes(self, tenant: str, caller: AsyncCaller, size: int) -> None:
        """Limited if a tenant has stored as many bytes as it may, or would with so many more."""
        most = self._limits.get(tenant, DEFAULT).bytes
        if most is None:
            return
        count = self._bytes.get(tenant) or self._bytes.setdefault(tenant, ByteCount(self._clock))
        await count.look(caller)
        if not count.takes(size, most):
            hint = "`perdure retain` and `perdure delete` make room, which shows within a minute"
            raise self._limited(f"{count.known} bytes are stored, at most {most} may be", "bytes", 60, hint)

    def runs_limit(self, tenant: str) -> int | None:
        """The number of runs that may be open at once; None: any."""
        return self._limits.get(tenant, DEFAULT).runs

    def _limited(self, says: str, limit: str, seconds: float, hint: str = "come back later") -> Limited:
        self.refused += 1
        return limits.limited(says, limit, seconds, hint)
