"""Programs of this machine: where they are, how one is started, and how one runs within its bounds.

The only place that starts a process. A program is in a session and a group of its own, so that whoever ends it ends all that it
began. Callers: `stores.git`, `boot.checking`, `hosts.host_checks`, `effects.ready.wrapper`, which run one to its end (`run`);
`effects.child_process`, `effects.ready.shell` and `runtime.supervisor`, which talk with one while it runs (`start`).
Uses the standard library only: the wrapper of `shell` runs without any other. Keeps P10 and P15: what runs is killed at its
deadline with its children, and what it writes takes no more memory than its caller allows.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any, NamedTuple

FIRST_BYTES = 8 * 1024
LAST_BYTES = 24 * 1024
CHUNK_BYTES = 64 * 1024
GRACE_SECONDS = 2.0  # between asking a program to end and making it
PAUSE_SECONDS = 0.02  # between two looks whether it ended, where the kernel cannot say so
_READY_TO_READ = select.POLLIN | select.POLLHUP | select.POLLERR


class Output:
    """The output of a program: its first and last bytes, how many there were, and the hash of all of them."""

    def __init__(self, first_bytes: int = FIRST_BYTES) -> None:
        self.count = 0
        self._first_bytes = first_bytes
        self._first = bytearray()
        self._last = b""
        self._hash = hashlib.sha256()

    def add(self, data: bytes) -> None:
        """Take in what came next."""
        self.count += len(data)
        self._hash.update(data)
        room = self._first_bytes - len(self._first)
        self._first += data[:room]
        self._last = (self._last + data[room:])[-LAST_BYTES:]

    def __str__(self) -> str:
        left_out = self.count - len(self._first) - len(self._last)
        middle = b"\n[%d bytes left out]\n" % left_out if left_out else b""
        return (self._first + middle + self._last).decode(errors="replace").replace("\0", "\ufffd")

    def __bytes__(self) -> bytes:
        return bytes(self._first + self._last)

    def as_record(self) -> dict[str, Any]:
        """As it is kept."""
        return {"text": str(self), "bytes": self.count, "sha256": self._hash.hexdigest()}


class ProgramEnd(NamedTuple):
    """How a program ended: with an exit status, or by a signal. too_much: it was killed because of what it wrote."""

    exit: int | None
    signal: int | None
    timed_out: bool
    out: Output
    err: Output
    too_much: bool = False

    @property
    def status(self) -> int:
        """The exit status; minus the signal where it has none."""
        return self.exit if self.exit is not None else -(self.signal or 0)


def find(name: str, env: Mapping[str, str] | None = None) -> str | None:
    """The path of a program of this machine. A relative entry of PATH is passed over: it would name a program in the folder
    that is looked at. A name with a slash is a path already.
    """
    if os.sep in name:
        return name
    places = [place for place in os.get_exec_path(env) if os.path.isabs(place)]  # noqa: PTH117 - no need for a Path each
    return shutil.which(name, path=os.pathsep.join(places)) if places else None


def start(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str | None = None, stdin: int | None = subprocess.DEVNULL,
    stdout: int | None = None, stderr: int | None = None, keep: Sequence[int] = (),
) -> subprocess.Popen[bytes]:  # fmt: skip
    """Start a program, in a session and a group of its own. keep: descriptors that it inherits. OSError if it cannot be."""
    path = find(argv[0], env)
    if path is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
    return subprocess.Popen(  # noqa: S603 - a list, never a shell's
        argv, executable=path, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True,
        pass_fds=keep,
    )  # fmt: skip


def kill_group(child: subprocess.Popen[bytes], number: int = signal.SIGKILL) -> None:
    """Signal a program and all that it began. Its number is nobody else's before it is waited for, and hardly so soon after."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


def run(
    argv: Sequence[str], *, env: Mapping[str, str], seconds: float, cwd: str | None = None, stdin: bytes = b"",
    keep: Sequence[int] = (), most_bytes: int | None = None, grace_seconds: float = GRACE_SECONDS,
) -> ProgramEnd:  # fmt: skip
    """Run a program to its end, or kill it with its group at the deadline, after it was asked to end for `grace_seconds`.

    most_bytes: keep all of its output, and kill it when it writes more; else the beginning and the end are kept. Processes left
    in its group are killed when it ended, and also when this call is interrupted. Raises OSError if it cannot be started.
    """
    pipe = subprocess.PIPE
    child = start(
        argv, env=env, cwd=cwd, stdin=pipe if stdin else subprocess.DEVNULL, stdout=pipe, stderr=pipe, keep=keep
    )
    talk = _Talk(child, stdin, most_bytes)
    try:
        ended = talk.until_end(seconds)
        if not ended and grace_seconds:
            kill_group(child, signal.SIGTERM)
            talk.until_end(grace_seconds)
    finally:
        kill_group(child)
        child.wait()
        talk.hear_the_rest(GRACE_SECONDS)
        talk.close()
    code = child.returncode
    timed_out = not ended and not talk.too_much
    by_itself, by_signal = (code, None) if code >= 0 else (None, -code)
    return ProgramEnd(by_itself, by_signal, timed_out, talk.out, talk.err, talk.too_much)


class _Talk:
    """A program that runs: what it is to read, what it has written so far, and whether it ended. For one thread."""

    def __init__(self, child: subprocess.Popen[bytes], stdin: bytes, most_bytes: int | None) -> None:
        assert child.stdout is not None
        assert child.stderr is not None
        self._child = child
        self._unsent = memoryview(stdin)
        self._most_bytes = most_bytes
        self.out = Output() if most_bytes is None else Output(most_bytes)
        self.err = Output()
        self._outputs: dict[int, tuple[IO[bytes], Output]] = {}
        self._poll = select.poll()
        for pipe, output in ((child.stdout, self.out), (child.stderr, self.err)):
            self._outputs[pipe.fileno()] = pipe, output
            self._poll.register(pipe, _READY_TO_READ)
        if child.stdin is not None:
            os.set_blocking(child.stdin.fileno(), False)
            self._poll.register(child.stdin, select.POLLOUT)
        self._end = _end_of(child)
        self._has_ended = False
        if self._end is not None:
            self._poll.register(self._end, select.POLLIN)

    @property
    def too_much(self) -> bool:
        """Whether it wrote more than its caller takes."""
        return self._most_bytes is not None and self.out.count > self._most_bytes

    def until_end(self, seconds: float) -> bool:
        """Talk with it until it ends; whether it did, in time and without writing too much."""
        deadline = time.monotonic() + seconds
        while not self._is_over():
            seconds_left = deadline - time.monotonic()
            if seconds_left <= 0 or self.too_much:
                return False
            self._talk(seconds_left if self._end is not None else min(seconds_left, PAUSE_SECONDS))
        return True

    def hear_the_rest(self, seconds: float) -> None:
        """Take in what it wrote at last; a process that left its group may hold the pipes, and is not waited for."""
        deadline = time.monotonic() + seconds
        while self._outputs and not self.too_much and (seconds_left := deadline - time.monotonic()) > 0:
            self._talk(seconds_left)

    def close(self) -> None:
        """Give back all descriptors."""
        for pipe in (self._child.stdin, self._child.stdout, self._child.stderr):
            if pipe is not None:
                pipe.close()
        if self._end is not None:
            os.close(self._end)

    def _is_over(self) -> bool:
        return self._has_ended or (self._end is None and self._child.poll() is not None)

    def _talk(self, seconds: float) -> None:
        """Wait for whatever comes first, and do what is due."""
        for number, _ in self._poll.poll(seconds * 1000):
            if number in self._outputs:
                self._hear(number)
            elif number == self._end:
                self._has_ended = True
                self._poll.unregister(number)
            else:
                self._tell(number)

    def _hear(self, number: int) -> None:
        data = os.read(number, CHUNK_BYTES)
        self._outputs[number][1].add(data)
        if not data:
            self._poll.unregister(number)
            del self._outputs[number]

    def _tell(self, number: int) -> None:
        """Send some more; its input ends after the last of it. It may have closed that before, and lives on."""
        with contextlib.suppress(BrokenPipeError):
            self._unsent = self._unsent[os.write(number, self._unsent[:CHUNK_BYTES]) :]
            if self._unsent:
                return
        self._poll.unregister(number)
        assert self._child.stdin is not None
        self._child.stdin.close()


def _end_of(child: subprocess.Popen[bytes]) -> int | None:
    """A descriptor that is readable when it ended, where the kernel has such: its number is nobody else's until then."""
    with contextlib.suppress(AttributeError, OSError):
        return os.pidfd_open(child.pid)
    return None
