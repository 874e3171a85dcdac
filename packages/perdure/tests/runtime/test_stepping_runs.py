"""A whole run through the engine, stepped without a database: its process dies before each command, and others carry it on.

The program reads, books and pays in a saga. The verbs of the ledger are the real ones, on the books of `effects.stepping`; the
run's own rows are played. P2-P4 and P13 hold on every way, and the controls show that a rule that is taken away is found.
"""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

import perdure
from effects.stepping import STREAM, Books, Choices, Died, ways
from perdure.effects import ledger
from perdure.effects.commands import (
    CallFunction,
    CallOutcome,
    CallProgram,
    CheckLease,
    Consult,
    Read,
    StopBranches,
    Write,
)
from perdure.effects.ending import end_run
from perdure.effects.tool import tool
from perdure.errors import Failed, Unavailable
from perdure.handles.sync.run import Run
from perdure.model.instants import SECOND_US, to_datetime
from perdure.model.records.effects import EffectState
from perdure.model.records.runs import RunRecord, RunStatus, StepRecord
from perdure.planes.execution import runs, steps
from perdure.planes.execution.leases import Lease
from perdure.planes.reading.durations import store_now
from perdure.runtime import driver
from perdure.runtime.journal import Journal, load_journal
from perdure.runtime.run_engine import RunEngine
from perdure.stores.in_flight import InFlight
from perdure.stores.tool_limits import Slots

STEPS_MAX = 400
LIVES_MAX = 9
HERE: list[World] = []  # the world that is stepped: a tool is declared once


class World:
    """What is durable of one run, and the other side."""

    def __init__(self, choices: Choices, *, deaths: int, broken: str = "") -> None:
        self.choices, self.deaths, self.broken = choices, deaths, broken
        self.books = Books()
        self.journal: list[StepRecord] = []
        self.ended: tuple[RunStatus, Any] | None = None
        self.token = 0
        self.read: list[int] = []  # what the step gave, each time that it was called
        self.booked = self.unbooked = 0
        self.paid: dict[str, str] = {}  # by key
        self.payments = 0
        self.dead: set[str] = set()
        HERE[:] = [self]

    def pays(self, key: str) -> str:
        """The bank keeps its answers by key. It pays, says no, or its answer is lost."""
        if key not in self.paid:
            said = self.choices.choose(3)
            self.paid[key] = "no" if said == 1 else "paid"
            self.payments += self.paid[key] == "paid"
            if said == 2:
                raise OSError("the answer was lost")
        if self.paid[key] == "no":
            raise Failed("no money")
        return self.paid[key]

    def effects(self) -> list[Any]:
        return [ledger.effect(self.books, STREAM, seq) for seq in sorted(self.books.rows)]  # type: ignore[arg-type]

    def durable(self) -> tuple[Any, ...]:
        """All that a process finds when it begins, without the times."""
        rows = tuple((row["tool"], row["state"], row["attempt"]) for row in self.books.rows.values())
        told = (self.booked, self.unbooked, tuple(self.paid.values()), self.payments)
        return (rows, len(self.journal), told, self.deaths, self.ended)

    def wrong(self) -> str:
        """The claim that it breaks; empty if none."""
        if self.ended is None:
            return "it is stranded"
        status, result = self.ended
        if self.payments > 1:
            return "it was paid twice"
        if len({row["key"] for row in self.books.rows.values()}) < len(self.books.rows):
            return "an effect stands in the ledger twice"
        if len(self.read) > 1 + self.died_reading:
            return "a step that was recorded was called again"
        if status is RunStatus.COMPLETED:
            good = (
                self.payments == 1 and self.booked and not self.unbooked and result == ["paid", self.journal[0].value]
            )
            return "" if good else "it completed without having done it"
        undone = {each.state for each in self.effects() if each.tool == "book"} == {EffectState.UNDONE}
        return "" if undone and self.unbooked and not self.payments else "it failed and was not undone"

    died_reading = 0  # deaths between a call of the step and its record


@tool(name="unbook", kind="idempotent", backoff="1ms")
def unbook() -> None:
    """What was booked is free again."""
    HERE[0].unbooked += 1


@tool(name="book", kind="idempotent", undo=unbook, backoff="1ms")
def book() -> None:
    """Book a seat."""
    HERE[0].booked += 1


@tool(name="pay", kind="keyed", retries=3, backoff="1ms")
def pay(*, key: str) -> str:
    """Pay for it."""
    return HERE[0].pays(key)


def look() -> int:
    """Something that is read, and that is never the same."""
    HERE[0].read.append(len(HERE[0].read))
    return HERE[0].read[-1]


@perdure.agent(name="trip")
def trip(run: perdure.Run) -> list[Any]:
    """Read, then book and pay or neither."""
    seen = run.step(look)
    with run.saga():
        run.act(book)
        paid = run.act(pay)
    return [paid, seen]


class Core:
    """The open store of one process, as far as the engine looks at it."""

    epoch, guards, clock_moves, acts = 1, (), False, True
    lane = SimpleNamespace(observer=None)

    def __init__(self, world: World, number: int) -> None:
        self.holder = f"{number:032x}"
        self.in_flight, self.slots = InFlight(), Slots()
        self.clocks = SimpleNamespace(now=lambda: world.books.now)
        self.liveness = SimpleNamespace(
            begin=lambda: None, is_dead=world.dead.__contains__, is_held=lambda holder: holder not in world.dead
        )


class Process:
    """One process that has claimed the run: the shell of its engine. It dies before a command, if that is chosen."""

    caller = None

    def __init__(self, world: World, number: int) -> None:
        self.world, self.core = world, Core(world, number)
        world.token += 1
        lease = Lease(STREAM, self.core.holder, world.token, 0)
        heartbeat: Any = SimpleNamespace(hold=lambda _: None, release=lambda _: None)
        core: Any = self.core
        self.engine = RunEngine(core, heartbeat, "worker", 1, trip, lease, record(world))
        self.hold = self.engine.hold

    def drive(self) -> None:
        """Until the run rests, or the process is gone."""
        try:
            self.run(driver.drive_run(self.engine))
        except Died:
            self.world.dead.add(self.core.holder)

    def run(self, taken: Any) -> Any:
        """Run one generator of the engine; the program runs others inside of the outermost."""
        try:
            command = next(taken)
            for _ in range(STEPS_MAX):
                try:
                    self._live_on(command)
                    result = self._do(command)
                except Died:
                    raise
                except BaseException as error:
                    command = taken.throw(error)
                else:
                    command = taken.send(result)
        except StopIteration as end:
            return end.value
        except Died:
            bury(taken)
            raise
        raise AssertionError("it does not come to an end")

    def _live_on(self, command: Any) -> None:
        if self.world.deaths and self.world.choices.choose(2):
            self.world.deaths -= 1
            self.world.died_reading += isinstance(command, Write) and command.verb is steps.done
            raise Died

    def _do(self, command: Any) -> Any:
        match command:
            case Write(verb, args, kwargs):
                verb, args, _ = self.hold.begin_write(verb, args)
                result = self._write(verb, args, kwargs)
                self.hold.end_write(len(self.world.books.events))
                return result
            case Read(verb, args, kwargs):
                return self._read(verb, args, kwargs)
            case CheckLease():
                return None
            case Consult(function, kwargs, _, _, args):
                return CallOutcome(function(*args, **kwargs))
            case CallFunction(function):
                return came_of(function)
            case CallProgram():
                return came_of(lambda: trip.fn(Run(self, self.engine, self.engine.trunk)))  # type: ignore[arg-type]
            case StopBranches():
                return None
        return None  # a pause is over at once

    def _write(self, verb: Any, args: Any, kwargs: Any) -> Any:
        world = self.world
        if verb is steps.noting:
            docs, verb, *args = args
            for doc in docs:
                self._write(steps.done, (doc,), {})
        if verb is steps.done:
            world.books.events.append("step.done")
            doc = args[0]
            seq = len(world.books.events)
            world.journal.append(StepRecord(seq, doc["place"], doc["name"], doc["digest"], doc.get("value"), None, {}))
        elif verb is end_run:
            world.ended = (args[1], args[2])
        elif verb not in (runs.release, driver.go_to_rest):
            return verb(world.books, STREAM, *args, **kwargs)
        return None

    def _read(self, verb: Any, args: Any, kwargs: Any) -> Any:
        world = self.world
        if verb is load_journal:
            done = [] if world.broken == "steps are not replayed" else world.journal
            return Journal(done, [] if world.broken == "effects are not replayed" else world.effects())
        if verb is ledger.all_effects:
            return [each for each in world.effects() if not (kwargs["open_only"] and each.settled)]
        assert verb is store_now or verb is ledger.effect
        return verb(world.books, *args, **kwargs)


def bury(taken: Any) -> None:
    """End a generator of a dead process: it gets no answer to whatever it still asks for."""
    with contextlib.suppress(BaseException):
        taken.throw(Died())
        for _ in range(STEPS_MAX):
            taken.throw(Unavailable("it is dead"))


def came_of(function: Any) -> CallOutcome:
    """What came of a call, unless the process died in it."""
    try:
        return CallOutcome(function())
    except Died:
        raise
    except BaseException as error:
        return CallOutcome(None, error)


def record(world: World) -> RunRecord:
    """The run as it stands."""
    none: Any = None
    return RunRecord(
        "r", "trip", RunStatus.RUNNING, none, [], {}, none, none, none, none, "a", to_datetime(0), none, none, none, none,
        world.token, 0, False, False, 0, 0, "p", False, 1, none, False, none,
    )  # fmt: skip


def live(world: World, met: dict[Any, Any]) -> World:
    """Processes take the run one after the other until it is over. What was met at the beginning of one is followed once."""
    for number in range(1, LIVES_MAX):
        made = tuple(chosen for chosen, _ in world.choices.made)
        if world.ended is not None or met.setdefault(world.durable(), made) != made:
            break
        Process(world, number).drive()
        world.books.now += 120 * SECOND_US  # by then what was sent has landed
    return world


def every_way(deaths: int, broken: str = "") -> list[World]:
    met: dict[Any, Any] = {}
    return [*ways(lambda made: live(World(made, deaths=deaths, broken=broken), met))]


def wrong_in(worlds: list[World]) -> set[str]:
    """The claims that are broken; a way that ended in a world that another one followed is that one's to judge."""
    return {each.wrong() for each in worlds if each.ended is not None} - {""}


@pytest.mark.parametrize("deaths", [0, 1, 2])
def test_every_way_of_a_run_keeps_the_promises(deaths: int) -> None:
    worlds = every_way(deaths)
    assert wrong_in(worlds) == set()
    assert {each.ended[0] for each in worlds if each.ended} == {RunStatus.COMPLETED, RunStatus.FAILED}
    assert len(worlds) > (2, 20, 60)[deaths]


@pytest.mark.parametrize("broken", ["steps are not replayed", "effects are not replayed"])
def test_control_a_replay_that_forgets_is_found(broken: str) -> None:
    assert wrong_in(every_way(1, broken)) != set()
