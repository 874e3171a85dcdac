"""Processes that live the swept story, forked from one that has imported everything: a life begins in milliseconds.

`Forks` is the harness's side. The other side (this file as a program) has no threads and no store, forks one child an order, and
says how it ended: by itself, killed, or stopped. An order may name a crash point at which the child is killed or stopped, hold
it until a tracer is attached, or have it count its points.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

from faults import sweep_agent, sweep_variants
from perdure.model import points
from perdure.stores.tx import Tx

LATER = (
    "perdure.handles.sync.store", "perdure.handles.sync.driving", "perdure.handles.aio.driving", "perdure.handles.crossing",
    "perdure.artifacts.local", "perdure.stores.postgres", "perdure.stores.files.engine",
    "concurrent.futures.thread", "encodings.idna",
)  # fmt: skip
ERROR_CHARS = 600
LIFE_SECONDS = 120
PR_SET_PTRACER = 0x59616D61
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What a child is to do. at: a crash point and how often it is reached before the signal; variant: a broken one."""

    url: str
    case: str
    port: int
    at: tuple[str, int] | None = None
    signal: str = "kill"
    actor: str = "me"
    chapter: str = "all"
    variant: str = ""
    slow: dict[str, float] = {}
    may_deny: bool = True
    patience: float = 30.0
    counting: bool = False
    held: bool = False


class Report(msgspec.Struct, frozen=True):
    """What a child says at its end. settled: what a person had to; commits: the kinds of the events of each, in order."""

    result: list[Any] | None = None
    error: str = ""
    unsettled: bool = False
    settled: list[str] = []
    points: dict[str, int] = {}
    commits: list[list[str]] = []


class Ended(NamedTuple):
    """How a child ended: "exit", "kill" or "stop" (not ended yet), and what it said."""

    pid: int
    how: str
    report: Report


def environment() -> dict[str, str]:
    found = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, found))}


# -- the harness's side ------------------------------------------------------------------------------------------


class Forks:
    """A program that forks children. A context manager."""

    def __init__(self) -> None:
        self._program = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment(),
        )  # fmt: skip

    def run(self, order: Order) -> Ended:
        """Fork a child and wait for its end, or until it is stopped."""
        return self._said("run", msgspec.to_builtins(order))

    def hold(self, order: Order) -> int:
        """Fork a child that waits for `go`; returns its process id."""
        return self._said("hold", msgspec.to_builtins(order)).pid

    def go(self, pid: int) -> Ended:
        """Let a held child begin, and wait for its end."""
        return self._said("go", pid)

    def start(self, pid: int) -> None:
        """Let a held child begin."""
        self._said("start", pid)

    def wake(self, pid: int) -> Ended:
        """Let a stopped child go on, and wait for its end."""
        os.kill(pid, signal.SIGCONT)
        return self.wait(pid)

    def wait(self, pid: int) -> Ended:
        """Wait for a child's end."""
        return self._said("wait", pid)

    def _said(self, verb: str, given: Any) -> Ended:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(json.dumps([verb, given]) + "\n")
        self._program.stdin.flush()
        return msgspec.json.decode(self._program.stdout.readline(), type=Ended)

    def close(self) -> None:
        """End it. Children that are stopped are killed by it."""
        self._program.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


# -- the program that forks ---------------------------------------------------------------------------------------


class Child(NamedTuple):
    """A child that was forked: where it reports, and where it waits for the word to begin."""

    report: int
    gate: int


CHILDREN: dict[int, Child] = {}


def fork(given: dict[str, Any]) -> int:
    """Fork a child, which waits at its gate."""
    order = msgspec.convert(given, Order)
    said, say = os.pipe()
    enter, gate = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(gate)
        if order.held:
            allow_tracing()
        os.read(enter, 1)
        be_child(order, say)
    os.close(say)
    os.close(enter)
    CHILDREN[pid] = Child(said, gate)
    return pid


def allow_tracing() -> None:
    """Let any process of this user trace this one, where only its parents may (Yama)."""
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)


def begin(pid: int) -> None:
    os.write(CHILDREN[pid].gate, b"!")


def wait(pid: int) -> Ended:
    _, status = os.waitpid(pid, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        return Ended(pid, "stop", Report())
    child = CHILDREN.pop(pid)
    os.close(child.gate)
    with os.fdopen(child.report, "rb") as pipe:
        said = pipe.read()
    how = "kill" if os.WIFSIGNALED(status) else "exit"
    return Ended(pid, how, msgspec.json.decode(said, type=Report) if said else Report(error=f"status {status}"))


def prepare() -> None:
    """Import what a life imports when it gets there, so that no child has to."""
    for name in LATER:
        with contextlib.suppress(ImportError):  # a store whose driver is not installed is not swept
            importlib.import_module(name)
    gc.freeze()


def serve() -> None:
    prepare()
    for line in sys.stdin:
        verb, given = json.loads(line)
        pid = fork(given) if verb in ("run", "hold") else given
        if verb in ("run", "go", "start"):
            begin(pid)
        ended = Ended(pid, "", Report()) if verb in ("hold", "start") else wait(pid)
        os.write(1, msgspec.json.encode(ended) + b"\n")
    for pid in CHILDREN:
        os.kill(pid, signal.SIGKILL)


# -- being a child -------------------------------------------------------------------------------------------------


class Counted(dict[str, Any]):
    """Stands for the armed points, and counts how often each is reached, and what is committed between them."""

    def __init__(self) -> None:
        super().__init__({"*": None})
        self.times: dict[str, int] = {}
        self.commits: list[list[str]] = []
        self._kinds: list[str] = []
        record = Tx.record
        Tx.record = lambda tx, change: (self._kinds.append(change.kind), record(tx, change))[1]  # type: ignore[method-assign]

    def get(self, name: str, default: Any = None) -> Any:
        if name != "*":
            self.times[name] = self.times.get(name, 0) + 1
        if name == "lane.before_commit":
            self.commits.append(self._kinds[:])
            self._kinds.clear()
        return default


def strike_at(nth: int, how: str) -> Callable[[], None]:
    left = [None] * nth

    def act() -> None:
        if left:
            left.pop()
            if not left:
                os.kill(os.getpid(), SIGNALS[how])

    return act


def be_child(order: Order, say: int) -> None:
    """Live, and say what came of it. A life that takes too long is no life."""
    signal.alarm(LIFE_SECONDS)
    try:
        report = lived(order)
    except sweep_agent.Unsettled as needed:
        report = Report(unsettled=True, error=str(needed))
    except BaseException:
        report = Report(error=traceback.format_exc()[-ERROR_CHARS:])
    os.write(say, msgspec.json.encode(report)[:60_000])
    os._exit(0)


def lived(order: Order) -> Report:
    counted = Counted() if order.counting else None
    if counted is not None:
        points._armed = counted
    if order.at is not None:
        points.arm(order.at[0], strike_at(order.at[1], order.signal))
    if order.variant:
        getattr(sweep_variants, order.variant)()
    sweep_agent.World.port, sweep_agent.World.slow = order.port, order.slow
    sweep_agent.Person.may_deny = order.may_deny
    given = sweep_agent.live(order.url, order.case, actor=order.actor, chapter=order.chapter, patience=order.patience)
    settled = sweep_agent.Person.settled
    if counted is None:
        return Report(given, settled=settled)
    return Report(given, settled=settled, points=counted.times, commits=counted.commits)


if __name__ == "__main__":
    serve()
