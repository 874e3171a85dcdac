"""The holders of the locks of a SQLite file, by the system's own list: nothing is locked, opened or waited for to find out.

Called by `strain`. SQLite's locks in WAL mode are bytes of the -shm file: one is the writer's, five are readers'. Opening
that file here would be worse than not knowing: closing it again drops every lock that this process has on it. Linux only.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

LOOKS = 40
PAUSE_SECONDS = 0.005
WRITER_BYTE = 120
READER_BYTES = range(123, 128)
# 1: POSIX  ADVISORY  WRITE 4711 fe:00:3588164 120 120
LOCK = re.compile(r"\d+: POSIX +\w+ +(READ|WRITE) +(-?\d+) +([0-9a-f]+:[0-9a-f]+):(\d+) +(\d+) +(\d+|EOF)")


class Contention(msgspec.Struct, frozen=True):
    """The result of some looks: in how many somebody was writing, and who; who read in every one of them."""

    looks: int
    writing: int
    writers: frozenset[int]
    readers: frozenset[int]


def held(inode: int, text: str, me: int = 0) -> tuple[set[int], set[int]]:
    """The processes that hold the writer's lock and readers' locks of a -shm file, in a list of the system's locks.

    A number of an inode is not unique, and some file systems list another device than they show. Where this process (`me`) has
    a lock on the file, as every open connection has, that one says under which device it is listed.
    """
    entries = [entry for entry in LOCK.findall(text) if int(entry[3]) == inode and entry[5] != "EOF"]
    devices = {device for _, pid, device, *_ in entries if int(pid) == me}
    writers: set[int] = set()
    readers: set[int] = set()
    for kind, pid, device, _, first, last in entries:
        covered = range(int(first), int(last) + 1)
        if devices and device not in devices:
            continue
        if kind == "WRITE" and WRITER_BYTE in covered:
            writers.add(int(pid))
        if kind == "READ" and any(byte in covered for byte in READER_BYTES):
            readers.add(int(pid))
    return writers, readers


def watch(path: Path, *, looks: int = LOOKS, listing: Callable[[], str] | None = None) -> Contention | None:
    """Look at a database's locks several times within a fifth of a second; None where the system does not list them."""
    try:
        inode = path.with_name(f"{path.name}-shm").stat().st_ino
        owners = []
        for number in range(looks):
            owners.append(held(inode, (listing or _listing)(), os.getpid()))
            if number + 1 < looks:
                time.sleep(PAUSE_SECONDS)
    except OSError:
        return None
    writing = [writers for writers, _ in owners if writers]
    readers = set.intersection(*(readers for _, readers in owners)) if owners else set()
    return Contention(looks, len(writing), frozenset().union(*writing), frozenset(readers))


def _listing() -> str:
    return Path("/proc/locks").read_text(encoding="ascii", errors="replace")
