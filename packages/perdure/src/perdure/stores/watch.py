"""Waiting for others to commit, at next to no cost: what idle workers do (decision 0008).

    SQLite       the kernel says that the WAL is being written; `data_version` says when that is committed
    PostgreSQL   LISTEN: the commit that makes something ready says so (`Table.announces`)
    both         the kernel says that a lock file of `stores/liveness.py` was let go: its process may have died

A watch only saves time: a waiting caller looks by itself every now and then. Callers: workers, on a thread. Keeps P15.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import time
from pathlib import Path
from typing import Any

from perdure.stores.inotify import GONE, LET_GO, WRITTEN, Inotify
from perdure.stores.store import Engine, Fault

FIRST_PAUSE_SECONDS = 0.001
LAST_PAUSE_SECONDS = 0.05
SETTLING_SECONDS = 1.0  # how long after the last write of the WAL its commits are waited for closely
RECONNECT_SECONDS = 1.0
LONGEST_SECONDS = 86_400.0  # the kernel takes no number of milliseconds that is longer than a few weeks
ECHO_SECONDS = 0.02  # a death is told of twice: the kernel says that a file was closed before it lets its lock go


class Watch:
    """Blocks until something may have changed. One thread waits; any may interrupt. commits: else only deaths count."""

    def __init__(self, engine: Engine, live: Path | None, *, commits: bool = True) -> None:
        self._engine: Any = engine
        self._commits = commits
        self._live = live
        self._bell, self._button = os.pipe()
        self._notes = _inotify()
        self._live_number = self._wal_number = -1
        self._ears: Any = None
        self._deaf_until = 0.0
        self._versions: Any = None
        self._seen: int | None = None
        self._settling_until = 0.0
        self._echo_at = math.inf

    def wait(self, seconds: float) -> bool:
        """Whether something may have changed; False after so many seconds, or when it is interrupted."""
        if self._engine.one_connection:  # nobody else can write to it but this very process
            return self._bell not in self._select(min(seconds, LAST_PAUSE_SECONDS))
        deadline = time.monotonic() + seconds
        pause = FIRST_PAUSE_SECONDS
        while True:
            self._attach()
            if self._has_new_version():
                return True
            left = min(deadline, self._echo_at) - time.monotonic()
            if left <= 0:
                echoes, self._echo_at = self._echo_at <= deadline, math.inf
                return echoes
            pause = pause * 2 if self._is_polling() else FIRST_PAUSE_SECONDS
            ready = self._select(min(left, pause, LAST_PAUSE_SECONDS) if self._is_polling() else left)
            if self._bell in ready:
                return False
            if self._hears(ready):
                return True
            if self._notes is not None and self._notes in ready:
                pause = FIRST_PAUSE_SECONDS
                if self._noted(self._notes):
                    return True

    def rest(self, seconds: float) -> None:
        """Look at nothing for so long, or until it is interrupted."""
        _ready([self._bell], seconds)

    def interrupt(self) -> None:
        """Let whoever waits or rests continue: called when the watch is about to be closed."""
        with contextlib.suppress(OSError):
            os.write(self._button, b"x")

    def close(self) -> None:
        """Let everything go; nobody may be waiting any more."""
        for held in (self._notes, self._ears, self._versions):
            if held is not None:
                held.close()
        self._notes = self._ears = self._versions = None
        os.close(self._bell)
        os.close(self._button)

    def _select(self, seconds: float) -> list[Any]:
        return _ready([each for each in (self._bell, self._notes, self._ears) if each is not None], seconds)

    def _attach(self) -> None:
        """Watch what was not there before, and what has gone meanwhile."""
        if self._commits and self._engine.is_server:
            self._listen()
        elif self._commits and self._versions is None:
            with contextlib.suppress(Fault):
                self._versions = self._engine.reader()
        if self._notes is None:
            return
        if self._live_number < 0 and self._live is not None:
            self._live_number = _added(self._notes, self._live, LET_GO | GONE)
        if self._wal_number < 0 and self._versions is not None:
            wal = self._engine.path.with_name(self._engine.path.name + "-wal")
            self._wal_number = _added(self._notes, wal, WRITTEN | GONE)

    # -- PostgreSQL ----------------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        if self._ears is not None or time.monotonic() < self._deaf_until:
            return
        self._deaf_until = time.monotonic() + RECONNECT_SECONDS
        with contextlib.suppress(Fault):
            self._ears = self._engine.ears()

    def _hears(self, ready: list[Any]) -> bool:
        if self._ears is None or self._ears not in ready:
            return False
        try:
            return self._ears.heard()
        except Fault:  # waiting callers look by themselves until it is back
            self._ears.close()
            self._ears = None
            return True

    # -- files ---------------------------------------------------------------------------------------------------------------

    def _noted(self, notes: Inotify) -> bool:
        """Whether a process may have died. A WAL that is written settles first: its commit comes after the write."""
        died = False
        for number, mask in notes.read():
            if mask & GONE:
                self._live_number = -1 if number == self._live_number else self._live_number
                self._wal_number = -1 if number == self._wal_number else self._wal_number
            elif number == self._live_number:
                died = True
                self._echo_at = time.monotonic() + ECHO_SECONDS
            else:
                self._settling_until = time.monotonic() + SETTLING_SECONDS
        return died

    def _is_polling(self) -> bool:
        """Whether the store is looked at closely: while a WAL settles, or always where the kernel says nothing."""
        if self._engine.is_server or not self._commits:
            return False
        return self._wal_number < 0 or time.monotonic() < self._settling_until

    def _has_new_version(self) -> bool:
        if self._versions is None:
            return False
        try:
            version = self._versions.version()
        except Fault:
            self._versions.close()
            self._versions = None
            return True
        changed, self._seen = version != self._seen, version
        return changed


def _ready(held: list[Any], seconds: float) -> list[Any]:
    """Which of these can be read. Not with `select`, which takes no numbers from 1024: a program may have many files open."""
    poll = select.poll()
    for each in held:
        poll.register(each, select.POLLIN)
    numbers = {number for number, _ in poll.poll(math.ceil(min(max(seconds, 0.0), LONGEST_SECONDS) * 1000))}
    return [each for each in held if (each if isinstance(each, int) else each.fileno()) in numbers]


def _inotify() -> Inotify | None:
    try:
        return Inotify()
    except OSError:
        return None


def _added(notes: Inotify, path: Path, mask: int) -> int:
    try:
        return notes.add(str(path), mask)
    except OSError:
        return -1
