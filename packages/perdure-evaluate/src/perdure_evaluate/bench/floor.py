"""The raw floor: BEGIN, one row of 1 KiB, COMMIT, with the same driver and settings on the same disk, and nothing else; of a log
of lines, an append and a sync."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from perdure.stores.sqlite import configured

ROW_BYTES = 1024


class Rate(NamedTuple):
    """How fast, and what it cost this process."""

    per_second: float
    cpu_us: float


def timed(count: int, act: Callable[[], Any]) -> Rate:
    """Run `act`, which does `count` things."""
    cpu, clock = time.process_time(), time.perf_counter()
    act()
    elapsed = time.perf_counter() - clock
    return Rate(count / elapsed, (time.process_time() - cpu) / count * 1e6)


def sqlite_floor(folder: Path, count: int = 1_000) -> Rate:
    """Single commits per second on a SQLite file in this folder."""
    path = folder / "floor.db"
    raw = configured(apsw.Connection(str(path)))
    raw.execute("CREATE TABLE IF NOT EXISTS floor (id INTEGER PRIMARY KEY, body BLOB) STRICT")
    row = (os.urandom(ROW_BYTES),)

    def act() -> None:
        for _ in range(count):
            raw.execute("BEGIN IMMEDIATE")
            raw.execute("INSERT INTO floor (body) VALUES (?)", row)
            raw.execute("COMMIT")

    try:
        return timed(count, act)
    finally:
        raw.close()


def append_floor(folder: Path, count: int = 1_000) -> Rate:
    """Appends of 1 KiB to a plain file per second, each synced."""
    path = folder / "floor.txt"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    line = b"x" * (ROW_BYTES - 1) + b"\n"

    def act() -> None:
        for _ in range(count):
            os.write(fd, line)
            os.fdatasync(fd)

    try:
        return timed(count, act)
    finally:
        os.close(fd)
        path.unlink()


def postgres_floor(conninfo: str, count: int = 500) -> Rate:
    """Single commits per second on one PostgreSQL connection."""
    import psycopg  # noqa: PLC0415 - an extra

    row = (os.urandom(ROW_BYTES),)
    with psycopg.connect(conninfo, autocommit=True) as raw:
        raw.execute(
            "CREATE TABLE IF NOT EXISTS perdure_floor (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body BYTEA)"
        )

        def act() -> None:
            for _ in range(count):
                raw.execute("BEGIN")
                raw.execute("INSERT INTO perdure_floor (body) VALUES (%s)", row)
                raw.execute("COMMIT")

        rate = timed(count, act)
        raw.execute("DROP TABLE perdure_floor")
    return rate
