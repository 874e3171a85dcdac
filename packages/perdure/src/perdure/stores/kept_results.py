"""Results that only this process knows are kept in memory while the store is away or full (docs/decisions/0026).

Callers: the shells, and calls that come back late. Keeps P2, P4.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from perdure.errors import Unavailable

T = TypeVar("T")
PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)  # seconds between attempts to record a result

log = logging.getLogger("perdure.effects")


class ResultKeeper(Protocol):
    """An open store that keeps results: for how long, and since when each one that it keeps now."""

    keep_seconds: float
    kept_since: list[float]


class KeptResult:
    """One result that could not be recorded at once. It is tried again for `keep_seconds` of its store, and the log says so."""

    def __init__(self, core: ResultKeeper, where: str) -> None:
        self._where = where
        self._all = core.kept_since
        self._since = time.monotonic()
        self._until = self._since + core.keep_seconds
        self._pauses = iter(PAUSES)
        self._all.append(self._since)

    def pause_after(self, error: Unavailable) -> float:
        """The seconds to wait before the next attempt. Raises the error when the time is over."""
        now = time.monotonic()
        left = self._until - now
        if left <= 0:
            raise error
        many, seconds = len(self._all), now - min(self._all)
        log.warning(
            "a result in %s cannot be recorded yet; it is kept for %.0f s more (this process keeps %d, the oldest for %.0f s)",
            self._where, left, many, seconds, extra={"why": str(error), "kept": many, "kept_seconds": round(seconds, 1)},
        )  # fmt: skip
        return min(next(self._pauses, PAUSES[-1]), left)

    def end(self, *, recorded: bool) -> None:
        """Stop keeping it, and log whether it was recorded."""
        self._all.remove(self._since)
        seconds = time.monotonic() - self._since
        if recorded:
            log.warning("a result in %s was recorded after %.0f s", self._where, seconds)
        else:
            log.error("a result in %s was not recorded within %.0f s, and is kept no longer", self._where, seconds)


def keep_trying(
    core: ResultKeeper, write: Callable[[], T], where: str, pause: Callable[[float], object] = time.sleep
) -> T:
    """Write a result that only this process knows, again and again while the store is away or full. Repeating is safe: an outcome
    of an attempt, and a step, are recorded once. Raises Unavailable when the time is over.
    """
    keeping: KeptResult | None = None
    recorded = False
    try:
        while True:
            try:
                result = write()
            except Unavailable as error:
                keeping = keeping or KeptResult(core, where)
                seconds = keeping.pause_after(error)
            else:
                recorded = True
                return result
            pause(seconds)
    finally:
        if keeping is not None:
            keeping.end(recorded=recorded)
