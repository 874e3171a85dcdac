"""Broken on purpose: what the protocol must catch. Each is a subject with one thing taken away.

Unrecorded   Perdure without the dispatch record: the effect is sent inside a step, and recorded afterwards
Unshared     Perdure without a shared identity: every process drives a run of its own
Unsynced     the log without fsync
Buffered     the log that acknowledges what is still in its buffer
InPlace      the session file, rewritten in place
Unheeded     the log that does not heed errors of its disk
Leased       the session file with a lease that is looked at only in the beginning
Stamped      a session file for every state; the one with the latest time counts
Unnamed      Perdure without the names of its steps: they are known by their number alone
Unwatched    Perdure without a look at the workspace
Cached       Perdure that answers a read from what it wrote itself
Trusting     Perdure that takes a copy of its file for the store that it was
Tracked      Perdure whose folder of locks is under version control too
Normal       Perdure with synchronous=NORMAL: a commit is synced some time later
"""
# ruff: noqa: D102 - the verbs are described by the interface

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import perdure
from perdure.stores import sqlite
from perdure_evaluate.recovery.interface import HeldElsewhere, Subject, SubjectAgent
from perdure_evaluate.recovery.subjects.json_file import JsonFile
from perdure_evaluate.recovery.subjects.json_renamed import JsonRenamed
from perdure_evaluate.recovery.subjects.jsonl_log import JsonlLog
from perdure_evaluate.recovery.subjects.perdure_sqlite import PerdureSqlite, called

BUFFERED_LINES = 4


class Unrecorded(PerdureSqlite):
    """Acts first and records second."""

    about = "control: Perdure without the dispatch record"

    def act(self, name: str, kind: str, payload: Any) -> Any:
        return self.now.step(lambda: self.outside.send(name, kind, payload))


class Unshared(PerdureSqlite):
    """Does not know of the others."""

    about = "control: Perdure, every process with a run of its own"

    def run(self, program: Callable[[SubjectAgent], None]) -> None:
        self.own = f"{self.place.folder.name}-{os.getpid()}"
        super().run(program)

    @property
    def url(self) -> str:
        return f"sqlite:///{self.place.folder}/{getattr(self, 'own', 'agent')}.db"


class Unsynced(JsonlLog):
    """Trusts the system to write it down some time."""

    about = "control: a JSON-lines log without fsync"

    def sync(self, file: int) -> None:
        del file


class Buffered(JsonlLog):
    """Writes some lines at a time."""

    about = "control: a JSON-lines log that acknowledges what is in its buffer"

    def keep(self, section: str, name: str, value: Any) -> None:
        self.waiting = [*getattr(self, "waiting", []), (section, name, value)]
        if len(self.waiting) >= BUFFERED_LINES or section == "done":
            lines, self.waiting = self.waiting, []
            for line in lines:
                super().keep(*line)


class InPlace(JsonFile):
    """Empties the file before it writes it."""

    about = "control: a session file, rewritten in place"


class Unheeded(JsonlLog):
    """Continues whatever its disk says."""

    about = "control: a JSON-lines log that does not heed errors"

    def keep(self, section: str, name: str, value: Any) -> None:
        with contextlib.suppress(OSError):
            super().keep(section, name, value)


class Leased(JsonRenamed):
    """Believes that it still has what it once had."""

    about = "control: a session file with a lease that is not looked at again"
    leases = True

    def run(self, program: Callable[[SubjectAgent], None]) -> None:
        owned = self.place.folder / "owned"
        if owned.exists() and time.time() < owned.stat().st_mtime + self.place.lease_seconds:
            raise HeldElsewhere("another process is at it")
        super().run(program)

    def keep(self, section: str, name: str, value: Any) -> None:
        (self.place.folder / "owned").touch()
        super().keep(section, name, value)


class Stamped(JsonRenamed):
    """Trusts that time moves forward."""

    about = "control: a session file for every state, named by the time"

    @property
    def path(self) -> Path:
        files = sorted(self.place.folder.glob("session-*.json"))
        return files[-1] if files else self.place.folder / "session-.json"

    def keep(self, section: str, name: str, value: Any) -> None:  # noqa: ARG002 - all of it is written again
        self.replace(self.place.folder / f"session-{time.time_ns()}.json")


class Unnamed(PerdureSqlite):
    """Knows a step by its number alone."""

    about = "control: Perdure whose steps all have the same name"

    def run(self, program: Callable[[SubjectAgent], None]) -> None:
        self.steps: perdure.Run | None = None
        super().run(program)

    def step(self, name: str, work: Callable[[], Any]) -> Any:
        del name
        self.steps = self.steps or self.now.branch("steps")
        return self.steps.step(called("unnamed", work))


class Unwatched(PerdureSqlite):
    """Does not look where it works."""

    about = "control: Perdure, its workspace not declared"

    @property
    def workspace(self) -> str | None:
        return None


class Cached(PerdureSqlite):
    """Reads what it wrote."""

    about = "control: Perdure that reads from its own memory"

    def note(self, key: str, value: Any) -> None:
        super().note(key, value)
        self.wrote = {**getattr(self, "wrote", {}), key: value}

    def read(self, name: str, key: str) -> Any:
        return super().step(name, lambda: self.wrote[key])


class Trusting(PerdureSqlite):
    """Backs up by copying the folder, and restores by copying it back."""

    about = "control: Perdure, its files copied back without a restore"
    backup = Subject.backup
    restore = Subject.restore


class Tracked(PerdureSqlite):
    """Lets version control take back what says how far it had come."""

    about = "control: Perdure, its folder of locks under version control"

    def run(self, program: Callable[[SubjectAgent], None]) -> None:
        folder = self.place.folder / "agent.db.live"
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / ".gitignore").write_text("# nothing is left out\n")
        super().run(program)


class Normal(PerdureSqlite):
    """Takes a commit for durable that was not synced. There is no such setting: it is forced upon this life's connections."""

    about = "control: Perdure on SQLite with synchronous=NORMAL"

    def run(self, program: Callable[[SubjectAgent], None]) -> None:
        real = sqlite.configured

        def configured(raw: Any, **options: Any) -> Any:
            real(raw, **options).pragma("synchronous", "NORMAL")
            return raw

        sqlite.configured = configured
        super().run(program)
