"""A program to be killed: writes to a store and prints one line for every write that was acknowledged.

writer.py URL crowd FIRST   200 concurrent writers, half of them threads, on 40 sessions, for ever
writer.py URL one COUNT     one writer, COUNT turns in one session
writer.py URL eager COUNT   the control: prints while the verb runs, before anything is committed
writer.py URL loose COUNT   another: commits without syncs
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
from typing import Any

from stores.verbs import Opened, append, begin, opened

WRITERS = 200
STREAMS = 40


def say_so(content: str) -> None:
    os.write(1, f"{content}\n".encode())


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


def loose(store: Opened, count: str) -> None:
    stream = store.write(begin, "a")
    store.core.lane._connection.raw.pragma("synchronous", 0)
    for number in range(int(count)):
        store.write(append, stream, str(number))
        say_so(str(number))


if __name__ == "__main__":
    url, what, rest = sys.argv[1:]
    with opened(url) as store:
        {"crowd": crowd, "one": one, "eager": eager, "loose": loose}[what](store, rest)
