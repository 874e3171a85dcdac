"""The bytes of a tenant as this server knows them: counted on every few seconds, never by a request alone. Callers: `serving`.

Between two looks the sizes of the bodies that came in are added. A new count sees deletions: once an hour, or once a
minute while the tenant is over its limit. Keeps P8, P15.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.planes.access import usage
from perdure.planes.access.usage import NOTHING

LOOK_SECONDS = 5.0
PART_SECONDS = 0.1  # between two parts of a count that has not reached the end
ANEW_SECONDS = 3_600.0
ANEW_WHEN_OVER_SECONDS = 60.0


class ByteCount:
    """The count of one tenant. `known` is None until the first count has reached the end: until then nothing is refused."""

    __slots__ = ("_added", "_began", "_clock", "_looked", "_looking", "_so_far", "known")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._so_far = NOTHING
        self._began = clock()
        self._looked = -ANEW_SECONDS
        self._looking = False
        self._added = 0
        self.known: int | None = None

    async def look(self, caller: Any) -> None:
        """Count on, if it is time; one request at a time does so, and the others do not wait for it."""
        now = self._clock()
        if self._looking or now - self._looked < (LOOK_SECONDS if self._so_far.complete else PART_SECONDS):
            return
        self._looking = True
        try:
            added = self._added
            self._so_far = await caller.read(usage.count, self._so_far)
            self._looked = now
            if self._so_far.complete:
                self.known = self._so_far.bytes
                self._added -= added
        finally:
            self._looking = False
        if self._so_far.complete and now - self._began >= ANEW_SECONDS:
            self._begin_anew(now)

    def takes(self, size: int, most: int) -> bool:
        """Whether so many bytes more stay within a limit; if they do, they are added."""
        if self.known is not None and self.known + self._added + size > most:
            now = self._clock()
            if self._so_far.complete and now - self._began >= ANEW_WHEN_OVER_SECONDS:
                self._begin_anew(now)
            return False
        self._added += size
        return True

    def _begin_anew(self, now: float) -> None:
        """Count from the beginning; until that is whole, the figure before counts."""
        self._so_far, self._began = NOTHING, now
