"""Processes that live a task, forked from one that has imported everything: a life begins in milliseconds.

`Lives` belongs to a host, which has no threads. A life tells what it does over a pipe; it is over when its process is, or
stopped. Its words about itself are kept apart from what the wire saw.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from perdure_evaluate.recovery.interface import Away, Belief, HeldElsewhere, Subject, SubjectPlace, Waits
from perdure_evaluate.recovery.outside import WORK_TREE, Reached
from perdure_evaluate.recovery.program_edits import Edited, EditedOutside, canonical_belief
from perdure_evaluate.recovery.subjects import load
from perdure_evaluate.recovery.tasks import TASKS
from perdure_evaluate.recovery.wire import Watched, Wire
from perdure_testing import wrong_clock

LIFE_SECONDS = 60
LONG_LIFE_SECONDS = 3600  # at a task that is run only when it is named
ERROR_CHARS = 400
PR_SET_PTRACER = 0x59616D61


class LifeOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One life. life: its number; at, how: where it is struck; believing: it only says what it believes.

    edit: how its program was changed, see `program_edits`; errand: what else is done to the store instead, a subject's method
    and its arguments; clock: a file that says by how much its clock is wrong.
    """

    subject: str
    task: str
    seed: int
    port: int
    case: str
    folder: Path
    outside: Path
    life: int = 0
    at: str = ""
    how: str = "kill"
    inbox: dict[str, Any] = {}
    believing: bool = False
    counting: bool = False
    clock: str = ""
    edit: str = ""
    errand: tuple[str, ...] = ()


class Ack(msgspec.Struct, frozen=True):
    """An operation that was acknowledged: its verb, name and value, when, and how much had been written by then."""

    verb: str
    name: str
    value: Any
    t: float
    written: int = 0


class Life(msgspec.Struct):
    """The outcome of a life. end: done, waiting, held, failed, killed, stopped or hung; said: what it said of it.

    calling: effects that were begun; worked: steps that were worked, and when; asks, doubts: what it waits for.
    """

    number: int
    began: float
    end: str = ""
    at: str = ""
    said: str = ""
    belief: Belief | None = None
    acks: list[Ack] = []
    worked: list[tuple[str, float]] = []
    calling: list[str] = []
    asks: list[str] = []
    doubts: list[str] = []
    resumed: float = 0.0
    ended: float = 0.0


class LifeProcess:
    """A process under way: held at its gate, living, or stopped."""

    def __init__(self, pid: int, line: int, gate: int, life: Life) -> None:
        self.pid = pid
        self.life = life
        self._line = os.fdopen(line, "rb")
        self._gate = gate

    def begin(self) -> None:
        """Open the gate."""
        os.write(self._gate, b"!")
        os.close(self._gate)

    def wait(self) -> Life:
        """Hear it to its end, or until it stops. Call it again after it was woken."""
        for line in self._line:
            if line.endswith(b"\n") and _hear(self.life, json.loads(line)) and self._has_stopped():
                self.life.end = "stopped"
                return self.life
        self._line.close()
        _, status = os.waitpid(self.pid, 0)
        self.life.ended = self.life.ended or time.monotonic()
        if os.WIFSIGNALED(status):
            self.life.end = "hung" if os.WTERMSIG(status) == signal.SIGALRM else "killed"
        elif not self.life.end or self.life.end == "stopped":
            self.life.end, self.life.said = "failed", self.life.said or f"it ended with status {status}"
        return self.life

    def _has_stopped(self) -> bool:
        """After the word that it is struck: whether it was stopped, not killed."""
        status = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        return status is not None and status.si_code == os.CLD_STOPPED

    def wake(self) -> Life:
        """Let a stopped one continue, and hear it to its end."""
        os.kill(self.pid, signal.SIGCONT)
        return self.wait()


def _hear(life: Life, message: dict[str, Any]) -> bool:
    """Take one line; whether it is the word that it is struck."""
    name = message["name"]
    match message["what"]:
        case "ack":
            life.acks.append(Ack(message["verb"], name, message["value"], message["t"], message.get("written", 0)))
        case "worked":
            life.worked.append((name, message["t"]))
        case "calling":
            life.calling.append(name)
        case "believes":
            life.belief = msgspec.convert(message["belief"], Belief | None)
            life.resumed = message["t"]
        case "struck":
            life.at = name
            return True
        case "end":
            life.end, life.said, life.ended = name, message["said"], message["t"]
            life.asks, life.doubts = message["asks"], message["doubts"]
    return False


class Lives:
    """The host's side: forks lives."""

    def __init__(self, later: tuple[str, ...] = ()) -> None:
        for name in later:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        gc.freeze()

    def run(self, order: LifeOrder) -> Life:
        """Live one life to its end."""
        child = self.hold(order)
        child.begin()
        return child.wait()

    def hold(self, order: LifeOrder) -> LifeProcess:
        """Fork a life that waits at its gate."""
        line, tell = os.pipe()
        gate, opener = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(opener)
            os.close(line)
            _be(order, tell, gate)
        os.close(tell)
        os.close(gate)
        return LifeProcess(pid, line, opener, Life(order.life, time.monotonic()))


# -- being a life ------------------------------------------------------------------------------------------------


def _be(order: LifeOrder, tell: int, gate: int) -> NoReturn:
    """Live, and tell how it ended. A life that takes too long is no life; a subject's threads die with it."""
    signal.alarm(LIFE_SECONDS if TASKS[order.task].by_default else LONG_LIFE_SECONDS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)
    os.dup2(2, 1)
    if not os.read(gate, 1):
        os._exit(0)  # the host is gone
    if order.clock:
        wrong_clock.follow(Path(order.clock))
    wire = Wire(tell, order.at, order.how, counting=order.counting)
    try:
        _live(order, wire)
    except Waits as waits:
        _tell_end(wire, "waiting", asks=waits.asks, doubts=waits.doubts)
    except HeldElsewhere as held:
        _tell_end(wire, "held", str(held))
    except BaseException as error:  # noqa: BLE001 - whatever a subject does when it fails
        _tell_end(wire, "failed", f"{type(error).__name__}: {error}")
    sys.stderr.flush()
    os._exit(0)


def _live(order: LifeOrder, wire: Wire) -> None:
    task = TASKS[order.task]
    tree = order.outside / WORK_TREE if task.git else None
    place = SubjectPlace(order.folder, order.task, order.seed, order.port, tree, task.version(order.inbox))
    reached = EditedOutside(Reached(order.port, order.case, order.outside, wire.reach))
    subject = load(order.subject)(place, reached, order.inbox)
    if order.errand:
        _run_errand(subject, *order.errand)
    else:
        wire.tell("believes", belief=msgspec.to_builtins(_believed(subject.believe)))
    if not (order.believing or order.errand):
        play = task.program(order.inbox)
        subject.run(lambda agent: play(Watched(Edited(agent, order.edit), wire, order.seed, order.life)))
    _tell_end(wire, "done")


def _run_errand(subject: Subject, what: str, *args: str) -> None:
    match what, args:
        case "apart", ():
            subject.apart()
        case "backup", (target,):
            subject.backup(Path(target))
        case "restore", (source,):
            subject.restore(Path(source))
        case "amend", (key, value):
            subject.amend(key, json.loads(value))
        case _:
            raise ValueError(f"no such errand: {what} {args}")


def _believed(believe: Callable[[], Belief]) -> Belief | None:
    """Its belief; nothing, if it cannot say: the run itself will show whether it can continue. None while its server is down:
    that is no forgetting.
    """
    try:
        return canonical_belief(believe())
    except Away:
        return None
    except Exception:  # noqa: BLE001 - a store that cannot be read holds nothing for the one who asks
        return Belief()


def _tell_end(
    wire: Wire, end: str, text: str = "", asks: list[str] | None = None, doubts: list[str] | None = None
) -> None:
    wire.tell("end", end, said=text[:ERROR_CHARS], asks=asks or [], doubts=doubts or [])
