"""The scheduler: threads of which one runs at a time, and one stream of chance that decides about everything.

A task is a thread that stands still until it is given the baton; it gives it back wherever it says `reach`. At each such point
the dice may let its process die or stand still for long, move the clock, or let another task continue. Mishaps are numbered,
so that a failing history can be run again without some of them: that is how it is shrunk.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import threading
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from perdure_testing.simulation.machine import Process

STEPS_MAX = 50_000


class Died(BaseException):
    """The process of this thread is dead: whatever the thread still does reaches nothing."""


class Stuck(Exception):
    """Nobody can continue, or nobody comes to an end."""


class Rates(NamedTuple):
    """How often, of all points that are reached, the dice do something."""

    die: float = 0.012
    stall: float = 0.02
    tick: float = 0.02
    switch: float = 0.5
    lose: float = 0.04  # of all commits: the reply, or the commit itself


CALM = Rates(0, 0, 0, 0.2, 0)
TICKS = ("1s", "20s", "90s", "5m")
NAPS = (20, 60, 200, 1_000)  # points that others reach meanwhile
LAST = 10**9  # stands still until nobody else has anything left to do
HEAT = 5  # how much more often something happens at the points where it hurts most: around an external call
HOT = ("effect.dispatch.after", "effect.call.before", "world.send", "world.arrived", "effect.call.after")


class SimulatedThread:
    """One thread of a simulated process."""

    def __init__(self, name: str, process: Process, work: Callable[[], None]) -> None:
        self.name = name
        self.process = process
        self.work = work
        self.over = False
        self.error: BaseException | None = None
        self.blocked_by: Lock | None = None
        self.baton = threading.Lock()
        self.baton.acquire()


class Lock:
    """A lock as `threading.Lock`, but whoever waits for it gives the baton away. A timeout never passes here."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: ARG002 - as threading
        """Take it, as soon as nobody has it."""
        while self.held:
            if not blocking:
                return False
            self._scheduler.wait(self)
        self.held = True
        return True

    def release(self) -> None:
        """Let it go."""
        if not self.held:
            raise RuntimeError("release unlocked lock")
        self.held = False

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Scheduler:
    """Runs tasks one at a time. suppressed: numbers of what the dice did that shall not happen this time."""

    def __init__(self, seed: int, rates: Rates | None = None, suppressed: Collection[int] = ()) -> None:
        self.chance = random.Random(seed)
        self.rates = rates or Rates()
        self.suppressed = frozenset(suppressed)
        self.tasks: list[SimulatedThread] = []
        self.current: SimulatedThread | None = None
        self.trace: list[str] = []
        self.mishaps: list[str] = []  # the mishaps of the dice, by number
        self.steps = 0
        self._ambushes: list[tuple[Process, str]] = []
        self.tick: Callable[[str], None] = lambda _: None
        self._main = threading.Lock()
        self._main.acquire()

    # -- tasks ---------------------------------------------------------------------------------------------------------------

    def spawn(self, name: str, process: Process, work: Callable[[], None]) -> SimulatedThread:
        """A new thread of a process; it begins when it is chosen."""
        task = SimulatedThread(name, process, work)
        self.tasks.append(task)
        process.tasks.append(task)
        threading.Thread(target=self._live, args=(task,), name=name, daemon=True).start()
        return task

    def _live(self, task: SimulatedThread) -> None:
        task.baton.acquire()
        try:
            if task.process.alive:
                task.work()
        except Died:
            pass
        except BaseException as error:  # noqa: BLE001 - whoever checks the history judges it
            task.error = error
        task.over = True
        self.note(f"{task.name} over {type(task.error).__name__ if task.error else ''}")
        self._pass_to(self._next(), None)

    def run(self) -> None:
        """Let all tasks come to their end. Stuck if they do not."""
        first = self._next()
        if first is not None:
            self._pass_to(first, None)
            self._main.acquire()
        unfinished = [task.name for task in self.tasks if not task.over]
        self.tasks.clear()
        if unfinished:
            raise Stuck(f"came to no end: {', '.join(unfinished)}")

    def _next(self) -> SimulatedThread | None:
        """The next task: one that is awake, else one that is not; None if there is none."""
        if self.steps > STEPS_MAX:
            return None
        able = [task for task in self.tasks if not task.over and self._is_able(task)]
        awake = [task for task in able if task.process.asleep_until <= self.steps]
        if awake or not able:
            return self.chance.choice(awake) if awake else None
        return min(able, key=lambda task: task.process.asleep_until)

    @staticmethod
    def _is_able(task: SimulatedThread) -> bool:
        return task.blocked_by is None or not task.blocked_by.held or not task.process.alive

    def _pass_to(self, task: SimulatedThread | None, mine: SimulatedThread | None) -> None:
        """Hand the baton over (None: to who called `run`), and wait until it comes back, if this one continues."""
        if task is mine and mine is not None:
            return
        self.current = task
        (self._main if task is None else task.baton).release()
        if mine is not None:
            mine.baton.acquire()

    # -- points --------------------------------------------------------------------------------------------------------------

    def reach(self, point: str) -> None:
        """The running task is here: whatever is to happen here happens."""
        task = self.current
        if task is None or threading.current_thread().name != task.name:
            return  # a thread that its task waits for: a probe
        self._check(task)
        self.steps += 1
        task.process.last_point = point
        self.note(f"{task.name} {point}")
        self._mishap(task, point)
        if self._draw(self.rates.switch) or task.process.asleep_until > self.steps:
            self._pass_to(self._next(), task)
        self._check(task)

    def wait(self, lock: Lock) -> None:
        """The running task waits for somebody else."""
        task = self.current
        if task is None:
            raise Stuck("nobody else is there to wait for")
        self._check(task)
        self.steps += 1
        task.blocked_by = lock
        self._pass_to(self._next(), task)
        task.blocked_by = None
        self._check(task)

    @staticmethod
    def _check(task: SimulatedThread) -> None:
        if not task.process.alive:
            raise Died

    def _mishap(self, task: SimulatedThread, point: str) -> None:
        process, rates = task.process, self.rates
        heat = HEAT if point in HOT else 1
        if self._draw(rates.tick) and self.happens(f"the clock moves ({task.name} is at {point})"):
            self.tick(self.chance.choice(TICKS))
        if self._draw(rates.die * heat if process.mortal else 0) and self.happens(f"{process.name} dies at {point}"):
            process.die()
        if (process, point) in self._ambushes and self.happens(f"{process.name} stands still for very long at {point}"):
            self._ambushes.remove((process, point))
            process.asleep_until = LAST
            self.tick(TICKS[-1])
        elif self._draw(rates.stall * heat) and self.happens(f"{process.name} stands still at {point}"):
            self._stall(process)

    def _stall(self, process: Process) -> None:
        """The process stands still, mostly for longer than its lease is good for."""
        process.asleep_until = self.steps + self.chance.choice(NAPS)
        if self._draw(0.6):
            self.tick(self.chance.choice(TICKS[2:]))

    def ambush(self, process: Process, point: str) -> None:
        """Let a process stand still at this point, past its lease, until nobody else has anything left to do."""
        self._ambushes.append((process, point))

    def loses(self, what: str) -> bool:
        """Whether a commit goes wrong in this way."""
        return self._draw(self.rates.lose) and self.happens(what)

    def happens(self, what: str) -> bool:
        """The dice did something: whether it counts this time."""
        number = len(self.mishaps)
        counts = number not in self.suppressed
        self.mishaps.append(what if counts else f"({what})")
        self.note(f"#{number} {self.mishaps[-1]}")
        return counts

    def _draw(self, rate: float) -> bool:
        return rate > 0 and self.chance.random() < rate

    def note(self, what: str) -> None:
        """One line of the history."""
        self.trace.append(what)

    def digest(self) -> str:
        """A digest of this history: the same for the same seed."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    @contextlib.contextmanager
    def calm(self) -> Iterator[None]:
        """Nothing goes wrong inside."""
        rates, self.rates = self.rates, CALM
        try:
            yield
        finally:
            self.rates = rates
