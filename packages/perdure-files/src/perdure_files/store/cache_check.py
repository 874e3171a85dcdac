"""Whether the cache of a files store says what its lines say: its streams and where they end, its blobs, and which bodies went.

Hashes chain the events, and `verify` holds every row of the cache against its events: so equal heads are equal tables. Callers:
`engine`, for verify and doctor, and `mending`, before it takes a log for whole. Keeps P5, P6.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from perdure.stores import schema_upgrade
from perdure.stores.sqlite import SqliteConnection, SqliteEngine
from perdure_files.store.connection import mark_of
from perdure_files.store.journal import START, LineLog, LogMark
from perdure_files.store.load import Loader, Q

TOLD_MAX = 100


def differences(cache: SqliteConnection, journal: LineLog) -> list[str]:
    """The statements of the cache that the lines it has read do not make, and the other way round; some of it, if that is
    much.
    """
    cache.begin_reading()
    try:
        mark, ours = mark_of(cache), said_of(cache)
    finally:
        cache.rollback()
    return compared(ours, said_by_lines(journal, mark))


def said_by_lines(journal: LineLog, upto: LogMark | None = None) -> dict[Any, Any]:
    """The statements of the lines, up to a mark."""
    engine = SqliteEngine("memory:", None)
    schema_upgrade.bring_up_to_date(engine)
    tables = engine.connect()
    try:
        tables.begin()
        loader = Loader(tables)
        for _, entries in journal.read_on(START):
            loader.load([
                (number, part) for number, part in entries
                if upto is None or (number, part.start) < (upto.segment, upto.end)
            ])  # fmt: skip
        return said_of(tables)
    finally:
        tables.rollback()
        engine.close()


def said_of(tables: SqliteConnection) -> dict[Any, Any]:
    """The statements of the tables, by their subject."""
    return {
        **{("stream", bytes(row[0]), row[1]): row[1:] for row in tables.query(Q.streams_said, {})},
        **{("blob", row[0], bytes(row[1])): row[2:] for row in tables.query(Q.blobs_said, {})},
        **{("body that went", bytes(row[0])): row[1:] for row in tables.query(Q.emptied_said, {})},
    }


def compared(cache: dict[Any, Any], lines: dict[Any, Any]) -> list[str]:
    """The first differences, each as a sentence."""
    keys = (key for key in {**cache, **lines} if cache.get(key) != lines.get(key))
    return [_sentence(key, cache.get(key), lines.get(key)) for key in islice(keys, TOLD_MAX)]


def _sentence(key: tuple[Any, ...], cache: Any, lines: Any) -> str:
    what = " ".join(part.hex() if isinstance(part, bytes) else part for part in key)
    if key[0] == "stream":
        what = f"{(cache or lines)[1]} {(cache or lines)[2]!r}"
        ends = [f"ends at {row[-2]} ({bytes(row[-1]).hex()[:16]})" if row else "is unknown" for row in (cache, lines)]
        return f"{what} {ends[0]} in the cache, and {ends[1]} in the lines of the log"
    where = [
        f"{'not ' if row is None else ''}in the {name}" for name, row in (("cache", cache), ("lines of the log", lines))
    ]
    return f"{what} is {' and '.join(where)}"
