"""Running a program: with a deadline, in a process group of its own, its output bounded. As a script: `shell`'s wrapper.

Called by `git` (as a module) and by `shell` (as a script, in a process of its own that outlives its caller: so that the end
of a command is recorded although its caller is dead). Uses the standard library only: the script must start fast.
Keeps P15: whatever runs is killed at its deadline, with its children.

THE MARKER is a file named by the key, of one or two lines of JSON. The first is there, durably, before the command begins:
{"key", "digest"}; the second after it ended: {"exit", "signal", "timed_out", "stopped", "stdout", "stderr"}. It comes into
being by `link`, whole and once: a second wrapper with its key runs nothing. Its lock is held while anything of it runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

FIRST_BYTES = 8 * 1024
LAST_BYTES = 24 * 1024
CHUNK_BYTES = 64 * 1024
GRACE_SECONDS = 2.0  # between asking a program to end and making it
BEGAN, EXISTS, NOT_BEGUN = 0, 3, 4  # how the script ends


class Output:
    """The output of a program: its first and last bytes, how many there were, and the hash of all of them."""

    def __init__(self) -> None:
        self.count = 0
        self._first = b""
        self._last = b""
        self._hash = hashlib.sha256()

    def add(self, data: bytes) -> None:
        """Take in what came next."""
        self.count += len(data)
        self._hash.update(data)
        room = FIRST_BYTES - len(self._first)
        self._first += data[:room]
        self._last = (self._last + data[room:])[-LAST_BYTES:]

    def __str__(self) -> str:
        left_out = self.count - len(self._first) - len(self._last)
        middle = b"\n[%d bytes left out]\n" % left_out if left_out else b""
        return (self._first + middle + self._last).decode(errors="replace").replace("\0", "\ufffd")

    def __bytes__(self) -> bytes:
        return self._first + self._last

    def as_record(self) -> dict[str, Any]:
        """As it is kept."""
        return {"text": str(self), "bytes": self.count, "sha256": self._hash.hexdigest()}


class ProgramEnd(NamedTuple):
    """How a program ended: with an exit status, or by a signal."""

    exit: int | None
    signal: int | None
    timed_out: bool
    out: Output
    err: Output


def run(
    argv: Sequence[str], *, cwd: str | None, env: Mapping[str, str], seconds: float, stdin: IO[bytes] | None = None,
    keep: Sequence[int] = (),
) -> ProgramEnd:  # fmt: skip
    """Run a program to its end, or kill it with its group at the deadline. keep: descriptors that it inherits.

    Processes left in its group are killed when it ended, and also when this call is interrupted. Raises OSError if it
    cannot be started.
    """
    out, err = Output(), Output()
    given = subprocess.DEVNULL if stdin is None else stdin
    child = subprocess.Popen(  # noqa: S603
        argv, cwd=cwd, env=env, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, pass_fds=keep
    )  # fmt: skip
    readers = [_read(child.stdout, out), _read(child.stderr, err)]
    try:
        timed_out = not _wait(child, seconds)
        if timed_out:
            _kill(child, signal.SIGTERM)
            _wait(child, GRACE_SECONDS)
    finally:
        _kill(child, signal.SIGKILL)
        child.wait()
        _finish(child, readers)
    code = child.returncode
    return ProgramEnd(code if code >= 0 else None, -code if code < 0 else None, timed_out, out, err)


def _read(pipe: IO[bytes] | None, output: Output) -> threading.Thread:
    """Read a pipe to its end, in a thread."""
    assert pipe is not None

    def read() -> None:
        with contextlib.suppress(ValueError, OSError):  # closed below, because a process that left the group holds it
            while data := os.read(pipe.fileno(), CHUNK_BYTES):
                output.add(data)

    thread = threading.Thread(target=read, daemon=True, name="perdure-output")
    thread.start()
    return thread


def _finish(child: subprocess.Popen[bytes], readers: Sequence[threading.Thread]) -> None:
    """Wait for the rest of the output; not for a process that left the group and holds the pipe."""
    for thread, pipe in zip(readers, (child.stdout, child.stderr), strict=True):
        thread.join(GRACE_SECONDS)
        if pipe is not None and not thread.is_alive():
            pipe.close()


def _wait(child: subprocess.Popen[bytes], seconds: float) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(seconds)
    return child.returncode is not None


def _kill(child: subprocess.Popen[bytes], number: int) -> None:
    """Signal the whole group. Its number cannot be somebody else's so soon after the child was reaped."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


# The script --------------------------------------------------------------------------------------------------


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
        said = Output()
        said.add(str(error).encode())
        return {**nothing, "exit": 127, "stdout": Output().as_record(), "stderr": said.as_record()}
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


if __name__ == "__main__":
    sys.exit(main())
