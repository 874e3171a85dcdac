"""The guard: a small process that stands between a test and its throw-away PostgreSQL and outlives the test.

`perdure_testing.postgres` runs this file as a script (standard library only, so that it starts in milliseconds). It is the
postmaster's parent: it knows the process for certain, reaps it, and ends it when
its owner says so or is gone, even by SIGKILL. Keeps P15: a server started for a test never outlives it.

It gets one order (JSON, `Order`) as its argument, prints the postmaster's process id, and then obeys one
letter on standard input: `f` fast shutdown, `k` kill everything at once. The end of standard input, or
another parent process, means that the owner died: then the server is ended and its directories are removed.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

SHUTDOWN_SECONDS = 30.0
ORPHAN_SECONDS = 10.0
POLL_SECONDS = 0.2
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


class GuardOrder(TypedDict):
    """The command to run, as whom, for whom, and what to remove when the owner dies."""

    owner: int
    command: list[str]
    account: list[int] | None
    environment: dict[str, str]
    log: str
    remove: list[str]


Server = subprocess.Popen[bytes]


def launch(order: GuardOrder) -> Server:
    """Start the postmaster as its own session, as the order's account; its output goes to the log."""
    uid, gid = order["account"] or (None, None)
    with Path(order["log"]).open("ab") as log:
        return subprocess.Popen(  # noqa: S603 - the command comes from our own launcher
            order["command"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=order["environment"],
            user=uid,
            group=gid,
            extra_groups=None if uid is None else [],
            umask=0o077,
            start_new_session=True,
            preexec_fn=die_with_guard(),  # noqa: PLW1509 - the guard has one thread
        )


def die_with_guard() -> Callable[[], None] | None:
    """On Linux, let the kernel shut the server down if the guard itself is killed.

    It runs after the change of user, which would clear it, in the guard's only thread, to which it is bound.
    """
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(PR_SET_PDEATHSIG, int(signal.SIGQUIT))


def next_command(server: Server, owner: int) -> str:
    """Wait for a letter, the owner's death (`""`) or the server's own end (`"x"`)."""
    while server.poll() is None:
        if os.getppid() != owner:
            return ""
        if select.select([0], [], [], POLL_SECONDS)[0]:
            return os.read(0, 1).decode()
    return "x"


def shut_down(server: Server, how: signal.Signals, seconds: float) -> None:
    """Ask the server to end, and kill it if it has not after so many seconds."""
    server.send_signal(how)
    try:
        server.wait(seconds)
    except subprocess.TimeoutExpired:
        kill_tree(server)


def kill_tree(server: Server) -> None:
    """SIGKILL the postmaster and all its children, and wait until none of them runs."""
    server.send_signal(signal.SIGSTOP)  # so that it starts no more children while they are counted
    children = children_of(server.pid)
    for pid in (*children, server.pid):
        kill(pid)
    server.wait()
    for pid in children:
        reap(pid)


def adopt_orphans() -> None:
    """On Linux, let the postmaster's children become ours when it dies: not every init process reaps them."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def reap(pid: int) -> None:
    """Wait until a killed process is gone; where it is not our child, until it no longer runs."""
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        deadline = time.monotonic() + ORPHAN_SECONDS
        while is_running(pid) and time.monotonic() < deadline:
            time.sleep(0.005)


def kill(pid: int) -> None:
    """SIGKILL a process that may just have ended by itself."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def children_of(pid: int) -> list[int]:
    """The process ids whose parent is `pid`."""
    return [child for child, (parent, _) in process_table().items() if parent == pid]


def is_running(pid: int) -> bool:
    """Whether the process exists and is not a zombie that waits to be reaped."""
    return process_table().get(pid, (0, "Z"))[1] not in "ZX"


def process_table() -> dict[int, tuple[int, str]]:
    """Every process: its id, its parent's id and its state's letter."""
    if Path("/proc/self/stat").exists():
        return dict(filter(None, map(read_stat, Path("/proc").glob("[0-9]*/stat"))))
    command = ["ps", "-A", "-o", "pid=,ppid=,stat="]
    listing = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - a constant
    rows = (line.split() for line in listing.stdout.splitlines())
    return {int(pid): (int(parent), state[0]) for pid, parent, state in rows}


def read_stat(stat: Path) -> tuple[int, tuple[int, str]] | None:
    """One line of the process table; None if the process ended while it was read."""
    try:
        state, parent = stat.read_text(errors="replace").rpartition(")")[2].split()[:2]
    except (OSError, ValueError):
        return None
    return int(stat.parent.name), (int(parent), state)


def obey(command: str, server: Server, order: GuardOrder) -> None:
    """End the server in the way that was asked for."""
    if command == "f":
        shut_down(server, signal.SIGINT, SHUTDOWN_SECONDS)
    elif command == "k":
        kill_tree(server)
    elif command == "":
        shut_down(server, signal.SIGQUIT, ORPHAN_SECONDS)
        for directory in order["remove"]:
            shutil.rmtree(directory, ignore_errors=True)


def main() -> int:
    """Run the order until the server has ended; return the server's exit code."""
    order: GuardOrder = json.loads(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    adopt_orphans()
    server = launch(order)
    try:
        os.write(1, f"{server.pid}\n".encode())
        obey(next_command(server, order["owner"]), server, order)
    finally:
        if server.poll() is None:
            shut_down(server, signal.SIGQUIT, ORPHAN_SECONDS)
    return abs(server.returncode)


if __name__ == "__main__":
    sys.exit(main())
