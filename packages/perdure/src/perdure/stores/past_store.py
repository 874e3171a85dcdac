"""The past of a store: a private store in memory that holds what was replayed into it and reads blobs from
the origin.

Time stands still in it: expiry and ages read as they did then. Callers: planes/time. Nothing is ever written
to the origin.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar

from perdure.stores import schema_upgrade, url
from perdure.stores.core import Core, Reader, engine_for
from perdure.stores.store import Connection

T = TypeVar("T")

Origin = Callable[[Callable[[Any], Any]], Any]  # runs a read on the store that has the blobs


class PastReader(Reader):
    """Reads the past; blobs are asked for where they are."""

    __slots__ = ("_origin",)

    def __init__(self, reader: Reader, origin: Origin, connection: Connection, core: Core) -> None:
        super().__init__(connection, core.clocks, reader.tenant, reader.blobs, steady=core.engine.one_connection)
        self._origin = origin

    def beyond(self, verb: Callable[[Any], T]) -> T:
        """Run a read that looks past the moment that is seen here: on the store that this is the past of."""
        return self._origin(verb)

    def blob(self, address: str) -> bytes:
        """The bytes of a blob, verified."""
        return self._origin(lambda reads: reads.blob(address))

    def open_blob(self, address: str) -> Iterator[bytes]:
        """Read a blob piece by piece."""
        return self._origin(lambda reads: reads.open_blob(address))

    def known(self, addresses: Collection[bytes]) -> set[bytes]:
        """Which of these blobs are stored."""
        return self._origin(lambda reads: reads.known(addresses))

    def fetch(self, addresses: Collection[bytes]) -> dict[bytes, bytes]:
        """The bytes of these blobs, verified."""
        return self._origin(lambda reads: reads.fetch(addresses))


class Past(Core):
    """A store in memory whose clock stands at one instant. It goes when its last handle does.

    `standing` is asked before every read, and raises when what was replayed may never have happened.
    """

    def __init__(
        self, origin: Origin, at_us: int, standing: Callable[[], object] = int, timeout_seconds: float = 30.0
    ) -> None:
        engine = engine_for(url.parse("memory:"))
        schema_upgrade.bring_up_to_date(engine)
        super().__init__(engine, None, lambda: at_us, timeout_seconds)
        self._origin = origin
        self._standing = standing

    def _reader(self, connection: Connection, tenant: int) -> Reader:
        self._standing()
        return PastReader(super()._reader(connection, tenant), self._origin, connection, self)
