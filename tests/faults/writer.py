"""A program to be killed: writes to a store and prints one line for every write that was acknowledged.

URL crowd FIRST   200 concurrent writers, half of them threads, on 40 sessions, for ever
URL one COUNT     one writer, COUNT turns in one session
URL eager COUNT   a control: prints while the verb runs, before anything is committed
URL normal COUNT  another: commits with synchronous=NORMAL, which in WAL mode syncs no commit
URL loose COUNT   another: commits with synchronous=OFF
URL late COUNT    another, of a files store: says so before the line is appended
URL dull COUNT    another, of a files store: appends, and does not sync
FILE bare COUNT   no store at all: appends a block, syncs it, says so

PERDURE_WITNESS names a file on the disk that is written to: it is read after each acknowledged write and before
the line is printed. A line whose reading failed, because the disk was gone by then, ends with "?".
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
import subprocess
import sys
import threading
from typing import IO, Any

from forked import Program, environment
from perdure.artifacts import descriptors
from perdure_files.store.journal import LineLog
from stores.verbs import Opened, append, begin, opened

ROUNDS = int(os.environ.get("PERDURE_ROUNDS", "5"))
SEED = int(os.environ.get("PERDURE_SEED", "7"))
WRITERS = 200
STREAMS = 40
BLOCK_BYTES = 4096


# -- starting it --------------------------------------------------------------------------------------------


def writing(
    url: str, what: str, rest: str, *, stderr: IO[str] | None = None, held: bool = False, **env: str
) -> Program:
    words = ("-c", f"from {__name__} import main; main()", url, what, rest)
    env = environment(**env)
    return Program(*words, stdout=subprocess.PIPE, stderr=stderr, env=env, start_new_session=True, held=held)


# -- being it -----------------------------------------------------------------------------------------------


def say_so(content: str) -> None:
    os.write(1, f"{content}{'' if the_disk_is_there() else '?'}\n".encode())


def the_disk_is_there() -> bool:
    witness = opened_witness()
    try:
        return witness is None or len(os.pread(witness, 1, 0)) == 1
    except OSError:
        return False


@functools.cache
def opened_witness() -> int | None:
    path = os.environ.get("PERDURE_WITNESS")
    return None if path is None else os.open(path, os.O_RDONLY)


def crowd(store: Opened, first: str) -> None:
    streams = [store.write(begin, f"s{number}") for number in range(STREAMS)]
    for number in range(WRITERS // 2):
        threading.Thread(target=threaded, args=(store, streams[number % STREAMS], f"{first}t{number}")).start()
    asyncio.run(tasks(store, streams, first))


def threaded(store: Opened, stream: Any, name: str) -> None:
    for number in itertools.count():
        store.write(append, stream, f"{name}.{number}")
        say_so(f"{name}.{number}")


async def tasks(store: Opened, streams: list[Any], first: str) -> None:
    async def task(stream: Any, name: str) -> None:
        for number in itertools.count():
            await store.submit(append, stream, f"{name}.{number}")
            say_so(f"{name}.{number}")

    await asyncio.gather(*(task(streams[n % STREAMS], f"{first}a{n}") for n in range(WRITERS // 2)))


def one(store: Opened, count: str) -> None:
    stream = store.write(begin, "a")
    for number in range(int(count)):
        store.write(append, stream, str(number))
        say_so(str(number))


def eager(store: Opened, count: str) -> None:
    stream = store.write(begin, "a")

    def append_and_say_so(tx: Any, content: str) -> None:
        append(tx, stream, content)
        say_so(content)

    for number in range(int(count)):
        store.write(append_and_say_so, str(number))


def unsynced(synchronous: int, store: Opened, count: str) -> None:
    store.write(begin, "a")
    store.core.lane._connection.raw.pragma("synchronous", synchronous)
    one(store, count)


def late(store: Opened, count: str) -> None:
    held: list[Any] = []

    def append_the_one_before(journal: LineLog, *about: Any) -> None:
        held.append(about)
        if len(held) > 1:
            really(journal, *held.pop(0))

    stream = store.write(begin, "a")
    really, LineLog._append = LineLog._append, append_the_one_before  # type: ignore[method-assign]
    LineLog.look = lambda *_: (1,)  # type: ignore[method-assign] - nobody may notice
    LineLog._check_kept = lambda *_: None  # type: ignore[method-assign] - nor this, which would
    for number in range(int(count)):
        store.write(append, stream, str(number))
        say_so(str(number))


def dull(store: Opened, count: str) -> None:
    store.write(begin, "a")
    descriptors.os = Dull()  # type: ignore[assignment]
    one(store, count)


class Dull:
    """The operating system, as far as the log uses it, without its syncs."""

    def __getattr__(self, name: str) -> Any:
        return (lambda *_: None) if name in ("fsync", "fdatasync") else getattr(os, name)


def bare(path: str, count: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for number in range(int(count)):
        os.write(file, str(number).encode().ljust(BLOCK_BYTES))
        os.fdatasync(file)
        say_so(str(number))


MODES = {
    "crowd": crowd,
    "one": one,
    "eager": eager,
    "normal": functools.partial(unsynced, 1),
    "loose": functools.partial(unsynced, 0),
    "late": late,
    "dull": dull,
}


def main() -> None:
    url, what, rest = sys.argv[1:]
    opened_witness()
    if what == "bare":
        bare(url, rest)
    else:
        with opened(url) as store:
            MODES[what](store, rest)
