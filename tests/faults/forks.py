"""Lives of the swept story, each in a process that is forked from one that has imported everything: see forked.py.

`Life` is the harness's side. The other side lives what an order says, which may name a crash point at
which it is killed or stopped, or have it count its points.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from faults import sweep_agent, sweep_variants
from forked import Program, environment
from perdure.model import crash_points
from perdure.stores.tx import Tx

ERROR_CHARS = 600
LIFE_SECONDS = 120
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


class Report(msgspec.Struct, frozen=True):
    """What a child says at its end. settled: what a person had to; commits: the kinds of the events of each, in order;
    told: the chapter and the tool at each `tool.told`.
    """

    result: list[Any] | None = None
    error: str = ""
    unsettled: bool = False
    settled: list[str] = []
    points: dict[str, int] = {}
    commits: list[list[str]] = []
    told: list[tuple[str, str]] = []


class Ended(NamedTuple):
    """How a life ended: "exit", "kill" or "stop" (not ended yet), and what it said."""

    how: str
    report: Report


# -- the harness's side ------------------------------------------------------------------------------------------


class Life:
    """A process that waits for `go`."""

    def __init__(self, order: Order) -> None:
        words = (f"from {__name__} import live; live()", msgspec.json.encode(order).decode())
        self._program = Program("-c", *words, env=environment(), stdout=subprocess.PIPE, held=True)
        self.pid = self._program.pid

    def go(self) -> None:
        """Let it begin."""
        self._program.go()

    def wait(self) -> Ended:
        """Wait for its end, or until it is stopped."""
        if self._program.wait_stopped():
            return Ended("stop", Report())
        with self._program as ended:
            said = ended.stdout.read()
        how = "exit" if ended.wait() >= 0 else "kill"
        return Ended(
            how, msgspec.json.decode(said, type=Report) if said else Report(error=f"status {ended.returncode}")
        )

    def kill(self) -> None:
        """Unless it has ended."""
        self._program.kill()

    def wake(self) -> Ended:
        """Let a stopped one go on, and wait for its end."""
        self._program.send_signal(signal.SIGCONT)
        return self.wait()


def run(order: Order) -> Ended:
    """Live, and wait for the end."""
    life = Life(order)
    life.go()
    return life.wait()


# -- being it -----------------------------------------------------------------------------------------------------


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


def live() -> None:
    """Live, and say what came of it. A life that takes too long is no life."""
    order = msgspec.json.decode(sys.argv[1], type=Order)
    signal.alarm(LIFE_SECONDS)
    try:
        report = lived(order)
    except sweep_agent.Unsettled as needed:
        report = Report(unsettled=True, error=str(needed))
    except BaseException:
        report = Report(error=traceback.format_exc()[-ERROR_CHARS:])
    os.write(1, msgspec.json.encode(report)[:60_000])
    os._exit(0)


def lived(order: Order) -> Report:
    counted = Counted() if order.counting else None
    if counted is not None:
        crash_points._armed = counted
    if order.at is not None:
        crash_points.arm(order.at[0], strike_at(order.at[1], order.signal))
    if order.variant:
        getattr(sweep_variants, order.variant)()
    sweep_agent.World.port, sweep_agent.World.slow = order.port, order.slow
    sweep_agent.Person.may_deny = order.may_deny
    given = sweep_agent.live(order.url, order.case, actor=order.actor, chapter=order.chapter, patience=order.patience)
    settled = sweep_agent.Person.settled
    if counted is None:
        return Report(given, settled=settled)
    return Report(given, settled=settled, points=counted.times, commits=counted.commits, told=sweep_agent.World.told)
