"""Connections of stores that are kept for the next store: a new one costs the server more than most tests do with it.

The server starts a process for it, which has read nothing of the catalogue yet. Here a store that closes a connection
gives it back, and PostgreSQL makes it as new (`DISCARD ALL`); the next store that asks for the same database with the
same settings gets it. For who closed it, it is closed. Only stores of `schemas.py` are served so, and tests that are
about connections themselves take the fixture `new_connections`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import psycopg
import pytest
from psycopg import pq

from perdure.stores import postgres

IDLE_MAX = 6  # of one database: a store has two or three, and all workers share one server


class Idle(NamedTuple):
    """A connection that nobody uses, and what it was asked for with but for its name."""

    owner: int  # a fork of this process must not use it
    options: dict[str, Any]
    connection: pq.abc.PGconn


class Kept:
    """The connections that nobody uses, by the address of their database."""

    def __init__(self) -> None:
        self._idle: dict[str, list[Idle]] = {}

    @contextlib.contextmanager
    def of(self, conninfo: str) -> Iterator[None]:
        """Keep connections of this database. At the end those that nobody uses are closed."""
        self._idle[conninfo] = []
        yield
        self.forget(conninfo)
        del self._idle[conninfo]

    def forget(self, conninfo: str) -> None:
        """Close those of this database."""
        while self._idle[conninfo]:
            self._idle[conninfo].pop().connection.finish()

    def forget_all(self) -> None:
        """Close those of every database."""
        for conninfo in self._idle:
            self.forget(conninfo)

    def pids(self, conninfo: str) -> list[int]:
        """The server's processes behind those of this database."""
        return [one.connection.backend_pid for one in self._idle[conninfo]]

    def is_wanted(self, conninfo: str) -> bool:
        """Whether one more of this database is kept."""
        return len(self._idle.get(conninfo, range(IDLE_MAX))) < IDLE_MAX

    def give(self, conninfo: str, options: dict[str, Any], connection: pq.abc.PGconn) -> None:
        """Keep this one."""
        self._idle[conninfo].append(Idle(os.getpid(), options, connection))

    def take(self, conninfo: str, options: dict[str, Any]) -> Iterator[pq.abc.PGconn]:
        """Those that were asked for in the same way, one after the other; they may have died."""
        idle = self._idle.get(conninfo, [])
        for one in [each for each in idle if (each.owner, each.options) == (os.getpid(), options)]:
            with contextlib.suppress(ValueError):  # another thread was faster
                idle.remove(one)
                yield one.connection


KEPT = Kept()
ENDED = pq.PGconn.connect_start(b"host=/nowhere")
ENDED.finish()


class KeptConnection(postgres.BoundedConnection):
    """A connection that is given back when it is closed."""

    asked: tuple[str, dict[str, Any]]

    @classmethod
    def connect(cls, conninfo: str = "", *, application_name: str, **options: Any) -> Self:  # type: ignore[override]
        """One that is kept and lives, or a new one."""
        connection = cls._again(conninfo, application_name, options) or super().connect(
            conninfo, application_name=application_name, **options
        )
        connection.asked = (conninfo, options)
        return connection

    @classmethod
    def _again(cls, conninfo: str, name: str, options: dict[str, Any]) -> Self | None:
        for each in KEPT.take(conninfo, options):
            connection = cls(each)
            connection._autocommit = options["autocommit"]
            with contextlib.suppress(psycopg.OperationalError):
                connection.execute("SELECT set_config('application_name', %s, false)", (name,))
                return connection
        return None

    def close(self) -> None:
        """Give it back if it can be made as new; else close it."""
        conninfo, options = self.asked
        if KEPT.is_wanted(conninfo) and self._is_made_new():
            given, self.pgconn = self.pgconn, ENDED
            KEPT.give(conninfo, options, given)
        else:
            super().close()

    def _is_made_new(self) -> bool:
        if self.pgconn.transaction_status != pq.TransactionStatus.IDLE or self._pipeline:
            return False
        try:
            self.execute("DISCARD ALL")
        except psycopg.Error:
            return False
        while self.pgconn.notifies():
            pass
        return True


@contextlib.contextmanager
def keeping() -> Iterator[Kept]:
    """While this lasts, stores give back their connections to databases of which they are kept."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(postgres, "BoundedConnection", KeptConnection)
        yield KEPT


@contextlib.contextmanager
def not_keeping() -> Iterator[None]:
    """While this lasts, they get new ones, and close them. Those that were kept until now go, and are counted by nobody."""
    KEPT.forget_all()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(postgres, "BoundedConnection", KeptConnection.__base__)
        yield
