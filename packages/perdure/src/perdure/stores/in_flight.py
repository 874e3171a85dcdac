"""The work of this process: the runs that it drives, the effects that it sends. So that it takes its own work for nobody else's.

One entry is one driver, or one attempt whose call has not come back. For any thread. Callers: acting and the driving of runs.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable


class InFlight:
    """Entries, each with the owner that made it: no one else ends it."""

    __slots__ = ("_announced", "_mutex", "_owners")

    def __init__(self) -> None:
        self._owners: dict[Hashable, object] = {}  # its single operations are atomic
        self._announced: dict[Hashable, set[object]] = {}  # those of this one are not
        self._mutex = threading.Lock()

    def begin(self, flight: Hashable, owner: object) -> bool:
        """Whether this owner is at it from now on; False while another is."""
        return self._owners.setdefault(flight, owner) is owner

    def take_over(self, flight: Hashable, owner: object) -> None:
        """This owner is at it from now on, whoever was before it: that one's `end` ends nothing any more."""
        self._owners[flight] = owner

    def end(self, flight: Hashable, owner: object) -> None:
        """This owner is no longer at it; nothing if it was not."""
        if self._owners.get(flight) is owner:
            self._owners.pop(flight, None)

    def __contains__(self, flight: Hashable) -> bool:
        return flight in self._owners

    def has_attempt(self, stream: int, effect: int, attempts: int) -> bool:
        """Whether any attempt of an effect, up to this one, has not come back."""
        return any((stream, effect, each) in self._owners for each in range(1, attempts + 1))

    def announce(self, stream: int, effect: str | int, caller: object) -> None:
        """A caller is about to dispatch an effect, named by its key or number: until its attempt has begun, it may be at it."""
        with self._mutex:
            self._announced.setdefault((stream, effect), set()).add(caller)

    def unannounce(self, stream: int, effect: str | int, caller: object) -> None:
        """The attempt of this caller has begun, or never will; nothing if it was not announced."""
        with self._mutex:
            callers = self._announced.get((stream, effect), set())
            callers.discard(caller)
            if not callers:
                self._announced.pop((stream, effect), None)

    def is_announced(self, stream: int, *names: str | int) -> bool:
        """Whether a caller may be between the dispatch of an effect and its attempt. names: its key and its number."""
        with self._mutex:
            return any((stream, each) in self._announced for each in names)


class Attempt:
    """One attempt of an effect, as long as it may send: until what became of it is recorded, and its call has come back."""

    __slots__ = ("_in_flight", "_name", "goes_on")

    def __init__(self, in_flight: InFlight, name: tuple[int, int, int]) -> None:
        self._in_flight = in_flight
        self._name = name
        self.goes_on = False  # nobody waits for the call any more, and it has not come back

    def begin(self) -> None:
        """From here on it may send, until `recorded` or `landed`."""
        self._in_flight.begin(self._name, self)

    def recorded(self) -> None:
        """Its sender is done with it. A call that was left behind ends its own flight."""
        if not self.goes_on:
            self.landed()

    def landed(self) -> None:
        """Nothing can come of it any more."""
        self._in_flight.end(self._name, self)
