"""Glances: small reads by a key that an event loop does itself, because handing them to a thread costs more than the read.

Only what was read a moment ago, so that its pages are in memory, on a connection that waits for no lock, and only where the
engine says that this takes microseconds. Everything else, and whatever fails here, goes to a thread. Callers: `core`. Keeps P11.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from perdure.errors import Error
from perdure.stores.store import Connection, Engine, Fault, Reads

T = TypeVar("T")

AT_HAND_SECONDS = 5.0  # so long after a read its pages are taken to be in memory
AT_HAND_MAX = 10_000  # that are remembered

Asked = tuple[Callable[..., Any], tuple[Any, ...], int]


class Glances:
    """The glances of one open store. reader: makes of a connection what read verbs get. monotonic: the clock, in seconds."""

    __slots__ = ("_at_hand", "_closed", "_engine", "_idle", "_monotonic", "_reader")

    def __init__(
        self, engine: Engine, reader: Callable[[Connection, int], Reads], monotonic: Callable[[], float]
    ) -> None:
        self._monotonic = monotonic
        self._engine = engine
        self._reader = reader
        self._at_hand: dict[Asked, float] = {}
        self._idle: list[Connection] = []  # taken and given back in one step each, so that threads need no lock
        self._closed = False

    def find(self, verb: Callable[..., T], args: tuple[Any, ...], tenant: int) -> T | None:
        """The result of a read verb. None: it found nothing, or it must be asked on a thread."""
        asked, now = (verb, args, tenant), self._monotonic()
        if now - self._at_hand.get(asked, -AT_HAND_SECONDS) >= AT_HAND_SECONDS:
            return None
        try:
            connection = self._idle.pop()
        except IndexError:
            return None
        connection.tenants = (tenant,)
        try:
            found = verb(self._reader(connection, tenant), *args)
        except (Fault, Error):  # a thread waits, tries again, or says it
            connection.close()
            return None
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)
        if found is not None:
            self._at_hand[asked] = now
        return found

    def saw(self, verb: Callable[..., Any], args: tuple[Any, ...], tenant: int) -> None:
        """A thread, which calls this, has just found something: it is at hand from now on."""
        if len(self._at_hand) >= AT_HAND_MAX:
            self._at_hand.clear()
        self._at_hand[verb, args, tenant] = self._monotonic()
        if not self._idle and not self._closed:
            self._give_back(self._engine.quick_reader())

    def _give_back(self, connection: Connection) -> None:
        self._idle.append(connection)
        if self._closed:
            self.close()

    def close(self) -> None:
        """Let the connections go."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()
