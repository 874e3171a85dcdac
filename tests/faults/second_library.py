"""A program to be killed: it writes to a SQLite store while Python's own `sqlite3` reads the same file.

URL inside FIRST     threads of this process open the file with `sqlite3` (and are refused)
URL attached FIRST   the file is attached to a database in memory, which no audit event tells of, between two writes
URL outside FIRST    only writes: the other library is in another process (`reading`)
URL looking FIRST    that other process: it never stops reading, and says nothing

Each prints one line for every write that was acknowledged. PERDURE_BLIND=1 is the control: neither the hook nor the check.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
import subprocess
import sys
import threading

import perdure
from faults.writer import say_so
from forked import Program, environment
from perdure.errors import Refused
from perdure.stores import held_files

WRITES_BETWEEN = 20


def running(url: str, what: str, first: str, *, blind: bool = False) -> Program:
    words = ("-c", f"from {__name__} import main; main()", url, what, first)
    env = environment(PERDURE_BLIND="1" if blind else "")
    return Program(*words, stdout=subprocess.PIPE, env=env, start_new_session=True)


def main() -> None:
    url, what, first = sys.argv[1:4]
    path = url.removeprefix("sqlite:///")
    if what == "looking":
        while True:
            look(path)
    if os.environ.get("PERDURE_BLIND"):
        held_files._hear = lambda *_: None  # type: ignore[assignment] - installed with the first file
        held_files.enter = lambda *_: None  # type: ignore[assignment]
        held_files.lost = lambda *_: None  # type: ignore[assignment]
        whole_look = held_files.FileLook.__call__
        # It never sees which WAL it writes to.
        held_files.FileLook.__call__ = lambda self: None if self._file.endswith("-wal") else whole_look(self)  # type: ignore[method-assign]
    store = perdure.open(url)
    session = store.session(f"s{first}")
    if what == "inside":
        for _ in range(2):
            threading.Thread(target=look_for_ever, args=(path,), daemon=True).start()
    for number in itertools.count():
        session.say("user", f"{first}.{number}")
        say_so(f"{first}.{number}")
        if what == "attached" and number % WRITES_BETWEEN == WRITES_BETWEEN - 1:
            attach(path)


def look_for_ever(path: str) -> None:
    while True:
        with contextlib.suppress(Refused, sqlite3.OperationalError):
            look(path)


def look(path: str) -> None:
    with contextlib.closing(sqlite3.connect(path, timeout=10)) as connection:
        connection.execute("SELECT count(*) FROM v_turns").fetchall()


def attach(path: str) -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("ATTACH ? AS other", (path,))
        connection.execute("SELECT count(*) FROM other.turns").fetchall()
