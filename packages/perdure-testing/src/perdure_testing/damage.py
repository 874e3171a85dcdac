"""Damage on purpose: what an intruder with the file could do. The demo and the tests prove with it that
verify notices (P6).

`python -m perdure_testing.damage FILE OLD NEW` replaces bytes inside one stored event, past every trigger and
past the log, in a process of its own.
"""

from __future__ import annotations

import sys
from pathlib import Path

import apsw


class NotThere(LookupError):
    """No event holds these bytes."""


def forge_event(path: Path, old: bytes, new: bytes) -> int:
    """Replace `old` by as many bytes in the newest event body that holds it; returns its position.

    Uses SQLite's blob interface: no statement is run, so no trigger and no constraint can object.
    """
    assert len(old) == len(new), "a forger keeps the length"
    connection = apsw.Connection(str(path))
    try:
        for position in range(_last(connection), 0, -1):
            if _replace(connection, position, old, new):
                return position
    finally:
        connection.close()
    raise NotThere(f"no event holds {old!r}")


def _last(connection: apsw.Connection) -> int:
    """Past every position: found by asking for rows that may not exist, without a line of SQL."""
    step = 1
    while _exists(connection, step):
        step *= 2
    return step


def _exists(connection: apsw.Connection, position: int) -> bool:
    try:
        connection.blob_open("main", "events", "body", position, False).close()  # noqa: FBT003 - apsw's signature
    except apsw.SQLError:
        return False
    return True


def _replace(connection: apsw.Connection, position: int, old: bytes, new: bytes) -> bool:
    if not _exists(connection, position):
        return False
    with connection.blob_open("main", "events", "body", position, True) as body:  # noqa: FBT003 - as above
        offset = body.read().find(old)
        if offset < 0:
            return False
        body.seek(offset)
        body.write(new)
    return True


if __name__ == "__main__":
    forge_event(Path(sys.argv[1]), sys.argv[2].encode(), sys.argv[3].encode())
