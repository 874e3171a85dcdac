"""How many may go at once, by name: for tools that declare a limit. Waiting callers are served in the order in which they came.

Of no colour: who has to wait gets a future. Callers: acting. Keeps P15: what waits here has announced nothing yet.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Future


class Slots:
    """So many for each name, in one open store. `take` and `try_take` are paired with `give_back`."""

    __slots__ = ("_mutex", "_taken", "_waiting")

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._taken: dict[str, int] = {}
        self._waiting: dict[str, deque[Future[None]]] = {}

    def try_take(self, name: str, limit: int) -> bool:
        """A slot if one is free at once."""
        with self._mutex:
            if self._taken.get(name, 0) >= limit:
                return False
            self._taken[name] = self._taken.get(name, 0) + 1
            return True

    def take(self, name: str, limit: int) -> Future[None]:
        """A slot: had when the future is done. A caller that stops waiting says so with `leave`."""
        from concurrent.futures import Future  # noqa: PLC0415 - only who has limits pays for it

        future: Future[None] = Future()
        with self._mutex:
            if self._taken.get(name, 0) >= limit:
                self._waiting.setdefault(name, deque()).append(future)
                return future
            self._taken[name] = self._taken.get(name, 0) + 1
        future.set_result(None)
        return future

    def leave(self, name: str, future: Future[None]) -> None:
        """Wait no longer; if the slot was had by then, it is given back."""
        if not future.cancel():
            self.give_back(name)

    def give_back(self, name: str) -> None:
        """The slot goes to whoever waits longest, or is free."""
        with self._mutex:
            waiting = self._waiting.get(name)
            while waiting:
                future = waiting.popleft()
                if future.set_running_or_notify_cancel():
                    future.set_result(None)
                    return
            self._taken[name] -= 1
