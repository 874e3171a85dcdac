"""What a cache holds, in terms that do not depend on its numbers, and the same of one that is made from the log alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

import perdure  # noqa: F401 - the planes declare the tables
from perdure.handles import opening  # noqa: F401 - as above
from perdure.stores.schema_upgrade import bring_up_to_date
from perdure.stores.sqlite import SqliteEngine
from perdure_files.store.engine import FilesEngine, _loaded
from perdure_files.store.layout import Layout

_LEFT_OUT = {"meta", "pruning", "tables"}


def content(raw: apsw.Connection) -> dict[str, list[Any]]:
    """Every table that is not ephemeral: streams by uid, and the events in the order of the feed."""
    uids = dict(raw.execute("SELECT id, hex(uid) FROM streams"))
    names = [name for (name,) in raw.execute("SELECT name FROM tables WHERE class <> 'ephemeral'")]
    return {name: _rows(raw, name, uids) for name in names if name not in _LEFT_OUT}


def _rows(raw: apsw.Connection, name: str, uids: dict[int, str]) -> list[Any]:
    columns = [row[1] for row in raw.execute(f"PRAGMA table_info({name})")]
    order = " ORDER BY pos" if name == "events" else ""
    found = [dict(zip(columns, row, strict=True)) for row in raw.execute(f"SELECT * FROM {name}{order}")]
    rows = [_named(name, row, uids) for row in found]
    return rows if name == "events" else sorted(rows, key=repr)


def _named(name: str, row: dict[str, Any], uids: dict[int, str]) -> tuple[Any, ...]:
    """A row without the numbers that are the cache's own."""
    own = {"events": {"pos"}, "blobs": {"id"}, "streams": {"id"}}.get(name, set())
    numbered = {"stream", "parent"} if name == "streams" else {"stream"}
    return tuple(
        (key, uids.get(value, value) if key in numbered else value) for key, value in row.items() if key not in own
    )


def made_from_the_log(folder: Path) -> tuple[dict[str, list[Any]], list[Any]]:
    """The content of a cache that is made of the log in memory, and what could not be loaded."""
    engine = SqliteEngine("memory:", None)
    bring_up_to_date(engine)
    cache = engine.connect()
    cache.begin()
    _, _, pieces = _loaded(cache, FilesEngine("", folder).journal(), None)
    found = content(cache.raw)
    cache.rollback()
    engine.close()
    return found, pieces


def cached(folder: Path) -> dict[str, list[Any]]:
    connection = apsw.Connection(str(Layout(folder).cache))
    try:
        return content(connection)
    finally:
        connection.close()


def check(folder: Path) -> None:
    """The cache says what the log says, and nothing else."""
    made, pieces = made_from_the_log(folder)
    assert not pieces
    kept = cached(folder)
    for name, rows in kept.items():
        assert made[name] == rows, name
