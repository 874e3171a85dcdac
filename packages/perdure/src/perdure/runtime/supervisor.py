"""The supervisor: starts worker processes, starts them again when they die, and never works itself. Keeps P13, P15.

    supervisor ─┬─ worker            started again when it dies
                ├─ worker
                ├─ standby           for suspects: runs whose process died are not driven beside others until they are cleared
                └─ suspects          more of them, when workers ask for it; each ends by itself when there are none left

It ends by itself only where starting again is hopeless, and says why: the first worker refuses to begin with an exit status of
its own, or workers die in a row, for one reason, before they have taken a run. A worker that had one is always replaced: what
killed it is looked for among its runs (docs/decisions/0011).

It holds no store: a dead worker leaves nothing but a free lock file, and that is how the others know. The first worker must be
ready before the others are started, so that what is wrong with all of them is said once. Callers: `perdure worker`.
"""

from __future__ import annotations

import contextlib
import enum
import logging
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from perdure.errors import Unavailable
from perdure.model import programs
from perdure.runtime.supervisor_pipe import SupervisorPipe

log = logging.getLogger("perdure.supervisor")

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
KILL_SECONDS = 10.0  # beyond their grace, before workers that do not end are killed
AGAIN_SECONDS = 0.1  # before another worker is tried after one that had taken no run, doubled with each
FAILED_START_SECONDS = 1.0  # before another process for suspects is tried, doubled up to the next
FAILED_START_MAX_SECONDS = 60.0
AWAY_SECONDS = 5.0  # before another worker is tried after one that found no store
LOOK_SECONDS = 1.0


class WorkerRole(enum.StrEnum):
    """The purpose of a worker process."""

    WORKER = "worker"
    STANDBY = "standby"  # for suspects; always there, so that they wait for no process to start
    SUSPECTS = "suspects"


Command = Callable[[int, WorkerRole], list[str]]  # (number of the lifeline, what it is for) -> what to run


class Bounds(msgspec.Struct, frozen=True):
    """How many processes, and when it is hopeless: more than `restarts` workers in a row that die for one reason before they
    have taken a run, each `within_seconds` of being ready.
    """

    processes: int = 1
    suspects: int = 16
    restarts: int = 5
    within_seconds: float = 10.0
    grace_seconds: float = 5.0


class WorkerProcess:
    """One worker process. holder: its name in the store, once it is ready. has_worked: whether it has taken a run. refusal: why
    it could not begin, in the words of its error.
    """

    def __init__(self, program: subprocess.Popen[bytes], line: SupervisorPipe, role: WorkerRole) -> None:
        self.program = program
        self.line = line
        self.role = role
        self.holder = ""
        self.ready_at = float("inf")
        self.has_worked = False
        self.refusal = ""


class Supervisor:
    """Runs until it is told to stop, or starting workers is hopeless. For the main thread: it takes the signals. refusal: why the
    first worker could not begin, if that ended it.
    """

    def __init__(self, command: Command, bounds: Bounds, first_word: dict[str, str] | None = None) -> None:
        self._command = command
        self._bounds = bounds
        self._first_word = first_word or {}
        self._children: list[WorkerProcess] = []
        self._hopeless: list[int] = []  # how workers ended, in a row, that had taken no run: one status
        self._stopping = self._told = 0  # signals that said so, and those that were passed on
        self._late_at = float("inf")  # when workers that were told have had time enough
        self._asked = 0  # for how many suspects workers want a process
        self._failed_starts = 0
        self._no_suspects_before = 0.0
        self._worked = False  # whether a worker ever has
        self._no_workers_before = 0.0
        self.refusal = ""

    def run(self) -> int:
        """Supervise; returns an exit status. Raises Unavailable when starting workers is hopeless."""
        with _told_of_signals(self._on_signal) as bell:
            try:
                self._start(WorkerRole.WORKER)
                while (self._children or not self._stopping) and time.monotonic() < self._late_at:
                    self._wait(bell)
                    self._pass_on()
                    self._hear()
                    status = self._bury()
                    if status is not None:
                        return status
                    self._fill_up()
            finally:
                self._end_all()
        return 0

    # -- starting ------------------------------------------------------------------------------------------------------------

    def _start(self, role: WorkerRole) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            # It has a group of its own: a Ctrl-C is passed on once, not felt twice.
            program = programs.start(self._command(number, role), env=os.environ, stdin=None, keep=[number])
        line = SupervisorPipe(ours)
        if self._first_word:
            line.say(**self._first_word)
        self._children.append(WorkerProcess(program, line, role))
        log.info("started", extra={"pid": program.pid, "role": role.value})

    def _fill_up(self) -> None:
        """Start what is missing; never more at once than there are cores."""
        if self._stopping:
            return
        starting = sum(not each.holder for each in self._children)
        for role in self._missing()[: max(0, (os.cpu_count() or 1) - starting)]:
            self._start(role)

    def _missing(self) -> list[WorkerRole]:
        """The processes to start, most urgent first. The first worker is waited for before anything else is started."""
        wanted = 0 if time.monotonic() < self._no_workers_before else self._bounds.processes
        workers = self._count(WorkerRole.WORKER)
        if not any(each.holder for each in self._children if each.role is WorkerRole.WORKER):
            return [WorkerRole.WORKER] if wanted and not workers else []
        missing = [WorkerRole.SUSPECTS] * self._missing_for_suspects()
        missing += [WorkerRole.WORKER] * (wanted - workers)
        standby = self._bounds.suspects > 0 and time.monotonic() >= self._no_suspects_before
        return missing + [WorkerRole.STANDBY] * (standby - self._count(WorkerRole.STANDBY))

    def _missing_for_suspects(self) -> int:
        """As many as are asked for, but for those that are just starting, and never more than allowed."""
        alive = [each for each in self._children if each.role is not WorkerRole.WORKER]
        if time.monotonic() < self._no_suspects_before:
            return 0
        asked, self._asked = self._asked, 0
        return max(0, min(asked - sum(not each.holder for each in alive), self._bounds.suspects - len(alive)))

    def _count(self, role: WorkerRole) -> int:
        return sum(each.role is role for each in self._children)

    # -- hearing -------------------------------------------------------------------------------------------------------------

    def _wait(self, bell: int) -> None:
        lines = {each.line.fileno(): each for each in self._children if not each.line.over}
        with contextlib.suppress(InterruptedError):
            ready = select.select([bell, *lines], [], [], LOOK_SECONDS)[0]
            if bell in ready:
                os.read(bell, 4096)

    def _hear(self) -> None:
        for child in self._children:
            self._hear_out(child)

    def _hear_out(self, child: WorkerProcess) -> None:
        for words in () if child.line.over else child.line.hear():
            self._heard(child, words)

    def _heard(self, child: WorkerProcess, words: dict[str, Any]) -> None:
        match words:
            case {"ready": str(holder)}:
                child.holder, child.ready_at = holder, time.monotonic()
                self._worked = self._worked or child.role is WorkerRole.WORKER
                self._failed_starts = self._failed_starts if child.role is WorkerRole.WORKER else 0
            case {"cannot": str(why)}:
                child.refusal = why
            case {"driving": True}:
                child.has_worked = True
                self._hopeless.clear()
            case {"suspects": int(count)}:
                self._asked = count
            case {"busy": True}:
                child.role = WorkerRole.SUSPECTS

    def _on_signal(self, number: int) -> None:
        self._stopping += number != signal.SIGCHLD

    def _pass_on(self) -> None:
        """Pass on what was said: once lets workers end in their own time, twice without it."""
        if self._told == self._stopping:
            return
        self._told = self._stopping
        self._late_at = min(self._late_at, time.monotonic() + self._bounds.grace_seconds + KILL_SECONDS)
        for child in self._children:
            child.program.send_signal(signal.SIGTERM)

    # -- dying ---------------------------------------------------------------------------------------------------------------

    def _bury(self) -> int | None:
        """See which workers died; an exit status when that is the end of it all."""
        for child in [each for each in self._children if each.program.poll() is not None]:
            self._hear_out(child)
            self._children.remove(child)
            child.line.close()
            status = child.program.returncode
            if child.holder:
                for other in self._children:
                    other.line.say(dead=child.holder)
            if self._stopping or (child.role is WorkerRole.SUSPECTS and status == 0):
                continue
            if child.role is WorkerRole.WORKER and not self._worked and status > 0:
                log.error(
                    "the first worker could not begin: this ends", extra={"pid": child.program.pid, "status": status}
                )
                self.refusal = child.refusal
                return status
            _tell_death(child, status)
            if child.role is not WorkerRole.WORKER:
                self._count_suspect(child)
            elif not child.holder and status == Unavailable.exit_code:
                # The store is away, which workers wait out.
                self._no_workers_before = time.monotonic() + AWAY_SECONDS
            else:
                self._count_death(child, status)
        return None

    def _count_suspect(self, child: WorkerProcess) -> None:
        """That suspects die is what they are for; a process that does not even start is tried again more and more slowly."""
        if not child.holder:
            pause = min(FAILED_START_SECONDS * 2**self._failed_starts, FAILED_START_MAX_SECONDS)
            self._no_suspects_before = time.monotonic() + pause
            self._failed_starts += 1

    def _count_death(self, child: WorkerProcess, status: int) -> None:
        """Starting again is hopeless when worker after worker dies for one reason before it has taken a run."""
        lived = max(0.0, time.monotonic() - child.ready_at)
        if child.has_worked or (child.holder and lived >= self._bounds.within_seconds):
            return
        self._hopeless = [*(each for each in self._hopeless if each == status), status]
        if len(self._hopeless) > self._bounds.restarts:
            raise Unavailable(
                f"{len(self._hopeless)} workers in a row died before they had taken a run, each {_ending(status)}",
                path="worker",
                hint="their log says why; their runs are safe and resume when workers are started again",
            )
        self._no_workers_before = time.monotonic() + AGAIN_SECONDS * 2 ** (len(self._hopeless) - 1)

    def _end_all(self) -> None:
        """Let everybody end in their own time, and make sure that they do."""
        self._stopping += 1
        self._pass_on()
        for child in self._children:
            try:
                child.program.wait(max(0.0, self._late_at - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.warning("killed: it did not end", extra={"pid": child.program.pid})
                child.program.kill()
                child.program.wait()
            child.line.close()
        self._children.clear()


def _tell_death(child: WorkerProcess, status: int) -> None:
    about = {"pid": child.program.pid, "role": child.role.value, "status": status}
    about |= {"why": child.refusal} if child.refusal else {}
    log.warning("a worker died", extra=about | {"worker": child.holder or "none yet: it had not begun to work"})


def _ending(status: int) -> str:
    """How a process ended, for people."""
    if status >= 0:
        return f"with status {status}"
    name = signal.Signals(-status).name if -status in [*signal.Signals] else f"signal {-status}"
    return f"killed by {name}" + (" (is there enough memory?)" if -status == signal.SIGKILL else "")


@contextlib.contextmanager
def _told_of_signals(on_signal: Callable[[int], None]) -> Iterator[int]:
    """While inside, signals call a function, and make a descriptor readable so that the loop wakes up."""
    bell, button = os.pipe()
    os.set_blocking(button, False)
    before = {number: signal.getsignal(number) for number in (*SIGNALS, signal.SIGCHLD)}
    for number in before:
        signal.signal(number, lambda number, _frame: on_signal(number))
    waker = signal.set_wakeup_fd(button, warn_on_full_buffer=False)
    try:
        yield bell
    finally:
        signal.set_wakeup_fd(waker)
        for number, action in before.items():
            signal.signal(number, action)
        os.close(bell)
        os.close(button)
