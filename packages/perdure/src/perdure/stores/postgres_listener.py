"""A connection that hears of what commits announce. Callers: `stores/watch.py`, through the engine."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import psycopg

from perdure.stores.postgres_faults import fault_of
from perdure.stores.store import Fault, FaultKind

if TYPE_CHECKING:
    from perdure.stores.postgres import NewConnection

_LISTEN = "SELECT 'perdure_' || (hashtext(%s) & 2147483647)"


class PostgresListener:
    """A connection that hears of announcements: readable when there is one. See `stores/watch.py`."""

    def __init__(self, made: NewConnection, schema: str) -> None:
        self._raw: Any = made.raw
        if made.brought:
            self.close()
            raise Fault(FaultKind.REFUSED, "nothing is heard through a pooler")
        try:
            (channel,) = self._raw.execute(_LISTEN, (schema,)).fetchone()
            self._raw.execute(f"LISTEN {channel}")
        except psycopg.Error as error:
            self.close()
            raise fault_of(error) from error

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._raw.fileno()

    def heard(self) -> bool:
        """Whether anything was announced since the last call. LOST when the connection is gone."""
        try:
            return bool([*self._raw.notifies(timeout=0)])
        except psycopg.Error as error:
            raise fault_of(error) from error

    def close(self) -> None:
        """Let the connection go."""
        with contextlib.suppress(psycopg.Error):
            self._raw.close()
