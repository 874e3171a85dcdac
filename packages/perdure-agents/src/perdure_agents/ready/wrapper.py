"""The wrapper of `shell`: a process of its own that runs one command and outlives its caller.

So the end of a command is recorded although its caller is dead. Started by `shell`, in an interpreter that has the standard
library only: it must start fast. Keeps P3 and P15.

THE MARKER is a file named by the key, of one or two lines of JSON. The first is there, durably, before the command begins:
{"key", "digest"}; the second after it ended: {"exit", "signal", "timed_out", "stopped", "stdout", "stderr"}. It comes into
being by `link`, whole and once: a second wrapper with its key runs nothing. Its lock is held while anything of it runs.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from perdure.model.programs import Output, run

BEGAN, EXISTS, NOT_BEGUN = 0, 3, 4  # how the wrapper ends


class WrapperStopped(BaseException):
    """The wrapper was told to end (SIGTERM): the command is killed, and that is recorded."""


def main() -> int:
    """Read an order from standard input and carry it out. The exit status says whether the command began."""
    order = json.load(sys.stdin.buffer)
    signal.signal(signal.SIGTERM, _stop)
    try:
        lock = _begin(Path(order["marker"]), Path(order["temporary"]), order["begun"])
    except OSError as error:
        sys.stderr.write(str(error))
        return NOT_BEGUN
    if lock is None:
        return EXISTS
    _append(Path(order["marker"]), _carried_out(order, lock))
    return BEGAN


def _stop(number: int, _: object) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)
    raise WrapperStopped


def _begin(marker: Path, temporary: Path, begun: Mapping[str, str]) -> int | None:
    """Make the marker, durably: its lock, which the command inherits; None if the key has one."""
    _append(temporary, begun)
    lock = os.open(temporary, os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        marker.hardlink_to(temporary)
    except FileExistsError:
        return None
    finally:
        temporary.unlink()
    sync(marker.parent)
    return lock


def _carried_out(order: Mapping[str, Any], lock: int) -> dict[str, Any]:
    """Run the command: how it ended, as the marker keeps it."""
    nothing = {"exit": None, "signal": None, "timed_out": False, "stopped": False, "stdout": None, "stderr": None}
    try:
        ended = run(order["argv"], cwd=order["cwd"], env=order["env"], seconds=order["seconds"], keep=[lock])
    except WrapperStopped:
        return {**nothing, "stopped": True}
    except OSError as error:  # as a shell says it: not found, or cannot be run
        reason = Output()
        reason.add(str(error).encode())
        return {**nothing, "exit": 127, "stdout": Output().as_record(), "stderr": reason.as_record()}
    facts = {"exit": ended.exit, "signal": ended.signal, "timed_out": ended.timed_out}
    return {**nothing, **facts, "stdout": ended.out.as_record(), "stderr": ended.err.as_record()}


def _append(path: Path, record: Mapping[str, Any]) -> None:
    """Add one line of JSON, durably."""
    with path.open("ab") as file:
        file.write(json.dumps(record).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def sync(folder: Path) -> None:
    """Return once the entries of a folder are on the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
