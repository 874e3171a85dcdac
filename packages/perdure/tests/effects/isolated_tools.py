"""Tools that are called in a process of their own, by test_isolated.py; each leaves a line in a file when it is called.

As a program: `isolated_tools.py URL FILE` acts with `stay`, which does not end by itself. With a third argument its child does
not inherit the lock of its holder: a control.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import perdure
from perdure.model.limits import VALUE_MAX_BYTES


class Declined(Exception):
    """Says a clear no where it is declared so."""


def note(path: str, text: str = "called") -> None:
    with Path(path).open("a") as file:
        file.write(f"{text}\n")


@perdure.tool(isolate=True)
def give(path: str, value: Any) -> Any:
    note(path)
    return {"pid": os.getpid(), "value": value}


@perdure.tool(kind="keyed", isolate=True)
async def give_later(path: str, value: Any, *rest: int, key: str, **named: int) -> Any:
    await asyncio.sleep(0)
    note(path)
    return [value, list(rest), named, key]


@perdure.tool(isolate=True)
def chatter(path: str) -> str:
    note(path)
    sys.stdout.write("out loud\n")
    os.write(1, b"\x00\x00\x00\x00\x00\x00\x00\x02{}")
    os.system("echo from a shell")
    return "done"


@perdure.tool(isolate=True)
def fork(path: str) -> str:
    os.fork()  # and both return
    note(path, str(os.getpid()))
    return "done"


def look(path: str, *_: object) -> perdure.Happened | perdure.Absent:
    return perdure.Happened("found") if Path(path).with_suffix(".done").exists() else perdure.Absent()


@perdure.tool(isolate=True, timeout=3, probe=look, lands_within=0)
def linger(path: str) -> None:
    """Never ends; what it started does not end by itself either."""
    stay.fn(path)


@perdure.tool(isolate=True)
def stay(path: str) -> None:
    """The same without a deadline."""
    child = subprocess.Popen(["sleep", "600"])
    note(path, f"{os.getpid()} {child.pid}")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    while True:
        time.sleep(60)


@perdure.tool(timeout=0.2)
def linger_in_a_thread(path: str) -> None:
    note(path)
    while not Path(path).with_suffix(".done").exists():
        time.sleep(0.01)


@perdure.tool(isolate=True)
def escape(path: str) -> None:
    """Leaves its group with a fork that lives on, and never ends."""
    if os.fork() == 0:
        os.setsid()
        note(path, str(os.getpid()))
    while True:
        time.sleep(60)


@perdure.tool(isolate=True, fails=[Declined], retries=1, backoff="1ms")
def refuse(path: str, how: str) -> None:
    note(path)
    if how == "declined":
        raise Declined("no, thank you")
    if how == "failed":
        raise perdure.Failed("a clear no", code="No")
    if how == "unavailable":
        raise perdure.Unavailable("not now")
    if how == "exit":
        sys.exit(4)
    raise RuntimeError("\0 odd \udcff text")


@perdure.tool(isolate=True)
def crash(path: str, number: int) -> None:
    note(path)
    os.kill(os.getpid(), number) if number else os._exit(3)


@perdure.tool(isolate=True)
def give_unstorable(path: str, how: str) -> Any:
    note(path)
    return {"deep": [object()]} if how == "odd" else "x" * (VALUE_MAX_BYTES + 1)


if __name__ == "__main__":
    import effects.isolated_tools as itself
    from perdure.stores.liveness import Liveness

    if len(sys.argv) > 3:
        Liveness.lock = lambda self: ()
    with perdure.open(sys.argv[1]) as opened:
        os.write(1, f"{opened._caller.core.holder}\n".encode())
        opened.session("a").act(itself.stay, sys.argv[2], key="k")
