"""The world outside of a simulation: what really arrived, also late, whatever its sender believes.

Tools call `send`. The dice decide whether it is refused before it is sent, declined, arrives and is answered, arrives without an
answer, or is under way for a while. With a key it arrives once, as at services that know keys. Probes call `arrived`.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from perdure.errors import Failed, Unavailable
from perdure_testing.clock import FakeClock
from perdure_testing.simulation.scheduler import Scheduler

LATE = ("1s", "15s", "50s")


class Moods(NamedTuple):
    """How often the other side does something else than to answer."""

    refuses: float = 0.05
    declines: float = 0.05
    is_mute: float = 0.1
    is_slow: float = 0.15


class Letter(NamedTuple):
    """Something under way."""

    due_us: int
    what: str
    key: str | None


class World:
    """The arrivals, in order. One for a history."""

    def __init__(self, scheduler: Scheduler, clock: FakeClock) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self.moods = Moods()
        self.under_way: list[Letter] = []
        self.arrivals: list[str] = []
        self._keys: set[str] = set()

    @property
    def counts(self) -> Counter[str]:
        """How often each thing arrived."""
        return Counter(self.arrivals)

    def arrived(self, what: str) -> bool:
        """Whether this has arrived by now: what a probe asks."""
        self.land()
        return what in self.arrivals

    def send(self, what: str, key: str | None = None) -> str:
        """Send something, and give what the other side answers."""
        scheduler, moods = self._scheduler, self.moods
        scheduler.reach("world.send")
        mood = scheduler.chance.random()
        for name, share in moods._asdict().items():
            if mood < share:
                return getattr(self, f"_{name}")(what, key)
            mood -= share
        self._arrive(what, key)
        scheduler.reach("world.arrived")
        return f"got {what}"

    def _refuses(self, what: str, key: str | None) -> str:
        if self._scheduler.happens(f"nobody is there to take {what}"):
            raise Unavailable(f"cannot send {what}", path="world")
        return self._answer(what, key)

    def _declines(self, what: str, key: str | None) -> str:
        if key is None and self._scheduler.happens(f"{what} is declined"):
            raise Failed(f"{what} is not wanted")
        return self._answer(what, key)

    def _is_mute(self, what: str, key: str | None) -> str:
        answer = self._answer(what, key)
        if self._scheduler.happens(f"no answer to {what}"):
            raise ConnectionError("the answer was lost")
        return answer

    def _is_slow(self, what: str, key: str | None) -> str:
        if not self._scheduler.happens(f"{what} is under way for a while"):
            return self._answer(what, key)
        late = FakeClock(self._clock.now_us)
        late.advance(self._scheduler.chance.choice(LATE))
        self.under_way.append(Letter(late.now_us, what, key))
        self._scheduler.reach("world.under_way")
        if self.arrived(what):
            return f"got {what}"
        raise TimeoutError("no answer yet")

    def _answer(self, what: str, key: str | None) -> str:
        self._arrive(what, key)
        self._scheduler.reach("world.arrived")
        return f"got {what}"

    def land(self) -> None:
        """Requests that were under way and are due arrive."""
        due = [letter for letter in self.under_way if letter.due_us <= self._clock.now_us]
        self.under_way = [letter for letter in self.under_way if letter not in due]
        for letter in due:
            self._arrive(letter.what, letter.key)

    def _arrive(self, what: str, key: str | None) -> None:
        if key is not None and key in self._keys:
            return
        if key is not None:
            self._keys.add(key)
        self.arrivals.append(what)
        self._scheduler.note(f"arrived {what}")
