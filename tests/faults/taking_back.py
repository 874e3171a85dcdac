"""PostgreSQL servers that are taken back in time: by recovery to a point of the past, or by a standby that was held back.

Both begin with the same data as the primary, so no base backup is needed: they are of one system, and have its whole WAL to read.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg

from perdure_testing.faults import Proxy
from perdure_testing.postgres import HOST, PostgresServer, PostgresTemplate

PATIENCE_SECONDS = 120.0
SCHEMA = "errands"
KEEPS_WAL = {"wal_keep_size": "1GB", "max_wal_size": "1GB", "checkpoint_timeout": "1h"}


def asked(server: PostgresServer, text: str) -> Any:
    """What a server says."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        found = connection.execute(text.encode())
        row = found.fetchone() if found.description else None
    return None if row is None else row[0]


def until(is_so: Callable[[], bool]) -> None:
    """Wait for it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.01)


class Rewinding:
    """A primary, and how it is taken back: `remember` the point, and later `happen`. `url` leads to the server that there is."""

    def __init__(self, folder: Path, template: PostgresTemplate) -> None:
        self._folder = folder
        self._template = template
        self._ends = contextlib.ExitStack()
        self.primary = self._start(KEEPS_WAL)

    def _start(self, settings: dict[str, str], **how: Any) -> PostgresServer:
        started = PostgresServer.start(self._folder, template=self._template, fsync=False, settings=settings, **how)
        return self._ends.enter_context(started)

    @property
    def url(self) -> str:
        return self.primary.url(schema=SCHEMA)

    def remember(self) -> None:
        """To here it will be taken back."""
        raise NotImplementedError

    def happen(self) -> PostgresServer:
        """The primary dies, and a server takes over that is where the point was."""
        raise NotImplementedError

    def close(self) -> None:
        self._ends.close()


class Recovery(Rewinding):
    """Point-in-time recovery: a server of its own, from the same beginning and the primary's WAL, up to the point."""

    _lsn = ""

    def remember(self) -> None:
        self._lsn = asked(self.primary, "SELECT pg_current_wal_flush_lsn()::text")

    def happen(self) -> PostgresServer:
        self.primary.kill()
        settings = {
            "restore_command": f'cp "{self.primary.data}/pg_wal/%f" "%p"',
            "recovery_target_lsn": self._lsn,
            "recovery_target_action": "promote",
        }
        restored = self._start(KEEPS_WAL | settings, recovers="recovery", port=self.primary.address.port)
        until(lambda: not asked(restored, "SELECT pg_is_in_recovery()"))
        return restored


class Standby(Rewinding):
    """A streaming standby that takes over. From the point on it is held back: nothing of the primary reaches it any more."""

    synchronous = False

    def __init__(self, folder: Path, template: PostgresTemplate) -> None:
        super().__init__(folder, template)
        self._wire = self._ends.enter_context(Proxy(HOST, self.primary.address.port))
        told = f"host={HOST} port={self._wire.port} user=postgres password={template.password} application_name=s1"
        self.standby = self._start(KEEPS_WAL | {"primary_conninfo": told}, recovers="standby")
        until(lambda: asked(self.primary, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == 1)
        if self.synchronous:
            asked(self.primary, "ALTER SYSTEM SET synchronous_standby_names = 's1'")
            asked(self.primary, "SELECT pg_reload_conf()")
            until(lambda: asked(self.primary, "SHOW synchronous_standby_names") == "s1")

    @property
    def url(self) -> str:
        both = f"{HOST}:{self.primary.address.port},{HOST}:{self.standby.address.port}"
        mine = self.primary.url(schema=SCHEMA).replace(f"{HOST}:{self.primary.address.port}", both)
        return f"{mine}&target_session_attrs=read-write"

    def remember(self) -> None:
        lsn = asked(self.primary, "SELECT pg_current_wal_flush_lsn()::text")
        until(lambda: asked(self.standby, f"SELECT pg_last_wal_replay_lsn() >= '{lsn}'"))
        if not self.synchronous:
            self._wire.close()

    def happen(self) -> PostgresServer:
        self.primary.kill()
        assert asked(self.standby, "SELECT pg_promote(true, 60)")
        return self.standby


class SynchronousStandby(Standby):
    """A standby for which every commit waits: it has everything when it takes over."""

    synchronous = True


class StalledStandby(SynchronousStandby):
    """A standby for which every commit waits, and which takes nothing any more once it is stalled."""

    _receiver = 0

    def stall(self) -> None:
        """Nothing is received from here on: commits wait until somebody cuts their wait."""
        self._receiver = asked(self.standby, "SELECT pid FROM pg_stat_wal_receiver")
        os.kill(self._receiver, signal.SIGSTOP)

    def waiting(self) -> list[int]:
        """The backends of commits that wait now."""
        with psycopg.connect(self.primary.url(), autocommit=True) as connection:
            found = connection.execute("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' ORDER BY pid")
            return [pid for (pid,) in found.fetchall()]

    def happen(self) -> PostgresServer:
        """What lies unread in the receiver's socket goes with it; the server begins anew without it, and takes over."""
        self.primary.kill()
        os.kill(self._receiver, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{self._receiver}").exists())
        until(self._is_promoted)
        return self.standby

    def _is_promoted(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError):  # it ends everybody before it begins anew
            return asked(self.standby, "SELECT NOT pg_is_in_recovery() OR pg_promote(true, 60)")
        return False


@contextlib.contextmanager
def taking_back(kind: type[Rewinding], folder: Path, template: PostgresTemplate) -> Iterator[Rewinding]:
    """The servers of one round."""
    made = kind(folder, template)
    try:
        yield made
    finally:
        made.close()
