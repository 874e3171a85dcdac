"""Counting what a store really does: statements that reach the driver, and syncs that reach the disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw

from perdure.runtime.callers import caller_of


class Counter:
    """A number that grows."""

    def __init__(self) -> None:
        self.count = 0


@contextmanager
def counting_statements(store: Any) -> Iterator[Counter]:
    """Count the statements that the lane of this store sends."""
    counter = Counter()
    connection = caller_of(store).core.lane._connection
    if connection.dialect == "sqlite":
        with _tracing(connection.raw, counter):
            yield counter
    else:
        with _wrapping(connection, counter):
            yield counter


@contextmanager
def _tracing(raw: apsw.Connection, counter: Counter) -> Iterator[None]:
    def count(_cursor: apsw.Cursor, _text: str, _bindings: Any) -> bool:
        counter.count += 1
        return True

    raw.exec_trace = count
    try:
        yield
    finally:
        raw.exec_trace = None


@contextmanager
def _wrapping(connection: Any, counter: Counter) -> Iterator[None]:
    raw = connection.raw
    execute = raw.execute

    def count(*args: Any, **kwargs: Any) -> Any:
        counter.count += 1
        return execute(*args, **kwargs)

    raw.execute = count
    try:
        yield
    finally:
        del raw.execute


class _CountingFile(apsw.VFSFile):
    counter: Counter

    def xSync(self, flags: int) -> None:  # noqa: N802 - apsw's name
        """Count, then sync."""
        self.counter.count += 1
        super().xSync(flags)


class _CountingVfs(apsw.VFS):
    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._base = apsw.vfs_names()[0]
        super().__init__("perdure-counting", self._base, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> _CountingFile:  # noqa: N802 - apsw's name
        """Open a file whose syncs are counted."""
        file = _CountingFile(self._base, name, flags)
        file.counter = self._counter
        return file


@contextmanager
def counting_syncs() -> Iterator[Counter]:
    """Count the syncs of every SQLite file opened meanwhile."""
    counter = Counter()
    vfs = _CountingVfs(counter)
    try:
        yield counter
    finally:
        vfs.unregister()
