"""The stage of one history: a machine with its processes, the world outside, the people, and what everybody noticed.

What must never be is noted as a complaint the moment it shows (`blame`); the rest is judged when the history is over
(`verdict.py`). Tools and agents find the stage in `STAGE`: one history at a time.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import perdure
from perdure.model.limits import LEASE_TTL_SECONDS
from perdure.runtime.callers import caller_of
from perdure_testing.simulation import Machine, Process, Rates, Scheduler, World
from perdure_testing.simulation.scheduler import SimulatedThread

LEASE_US = LEASE_TTL_SECONDS * 1_000_000
SENDING = ("effect.call.before", "world.send", "world.under_way")  # the lease was looked at: it may still be sent
EXPECTED = (
    perdure.Conflict, perdure.Waiting, perdure.InDoubt, perdure.Failed, perdure.Unavailable, perdure.TimedOut,
)  # fmt: skip

STAGE: list[Stage] = []


def stage() -> Stage:
    return STAGE[-1]


class Stage:
    """One history. `blame` collects what must not be."""

    def __init__(self, path: Path, seed: int, rates: Rates | None = None, suppressed: Collection[int] = ()) -> None:
        self.scheduler = Scheduler(seed, rates, suppressed)
        self.machine = Machine(path, self.scheduler, seed)
        self.world = World(self.scheduler, self.machine.clock)
        self.chance = self.scheduler.chance
        self.blames: list[str] = []
        self.seen: dict[tuple[str, str], Any] = {}
        self.approved: set[str] = set()  # what a person said yes to
        self.answered: dict[str, str] = {}
        self.restored = False
        self._inside: dict[str, tuple[SimulatedThread | None, int]] = {}

    # -- processes -----------------------------------------------------------------------------------------------------------

    def process(self, name: str, *works: Callable[[Process], None], mortal: bool = True) -> Process:
        """A process with a thread for each piece of work."""
        process = self.machine.start(name, mortal=mortal)
        for work in works:
            self.machine.spawn(process, lambda work=work: work(process))
        return process

    def attempt(self, call: Callable[[], Any]) -> Any:
        """Do something that may be refused in many ways; None then. Anything that no user should see is blamed."""
        try:
            return call()
        except EXPECTED as error:
            self.scheduler.note(f"refused {type(error).__name__}")
        except perdure.Parked as error:
            if "processes died" not in error.message:  # which is for people, and said so: stood still too often
                self.blame(f"Parked: {error}")
        except perdure.Error as error:
            self.blame(f"{type(error).__name__}: {error}")
        except (AssertionError, ArithmeticError, LookupError, TypeError, AttributeError, ValueError) as error:
            self.blame(f"a bare {type(error).__name__}: {error}")
        return None

    def linger(self, process: Process, point: str, long: int = 8) -> None:
        """Let others go on for a while."""
        process.asleep_until = self.scheduler.steps + self.chance.randrange(long)
        self.scheduler.reach(point)

    def storm(self) -> None:
        """Let everybody come to an end, one way or the other."""
        self.scheduler.run()
        for process in self.machine.processes:
            if process.alive and self.chance.random() < 0.3:
                with self.scheduler.calm():
                    process.store.close()
        self.machine.end()

    def restore(self, source: Path) -> None:
        """Everything is lost but the backup: the store goes on from it, in another place."""
        path = self.machine.path.with_name("restored.db")
        perdure.restore(source, f"sqlite:///{path}")
        live = Path(f"{self.machine.path}.live")
        if live.exists():  # else nobody has anything to prove
            shutil.copytree(live, f"{path}.live", dirs_exist_ok=True)
        self.machine.path = path
        self.restored = True
        self.seen.clear()  # what came after the backup is forgotten, and may come otherwise

    def process_of(self, holder: str | None) -> Process | None:
        return next((each for each in self.machine.processes if caller_of(each.store).core.holder == holder), None)

    # -- what is noticed -----------------------------------------------------------------------------------------------------

    def blame(self, what: str) -> None:
        self.blames.append(what)
        self.scheduler.note(f"!! {what}")

    def observe(self, of: str, what: str, value: Any) -> Any:
        """A program was given this: from now on it must be given the same there."""
        known = self.seen.setdefault((of, what), value)
        if known != value:
            self.blame(f"{of} was given {known!r} for {what}, and later {value!r}")
        return value

    def enter(self, place: str, since_us: int) -> None:
        """A task has something to itself: no other may have it whose process lives, while both leases are good."""
        me = self.scheduler.current
        other, taken_us = self._inside.get(place, (None, 0))
        fresh = self.machine.clock.now_us - min(since_us, taken_us) < LEASE_US
        if me is not None and other is not None and other is not me and other.process.alive and fresh:
            self.blame(f"{me.name} has {place} while {other.name} has it")
        self._inside[place] = (me, since_us)

    def leave(self, place: str) -> None:
        if self._inside.get(place, (None, 0))[0] is self.scheduler.current:
            del self._inside[place]

    # -- people --------------------------------------------------------------------------------------------------------------

    def answer(self, store: perdure.Store) -> None:
        """A person answers what is asked; of several who do, one is heard."""
        for ask in store.asks():
            choice = self.chance.choice(("approve", "approve", "refuse") if "approve" in ask.choices else ask.choices)
            self.scheduler.reach("person.answers")
            if self.attempt(lambda ask=ask, choice=choice: store.answer(ask.id, choice)) is None:
                continue
            if ask.id in self.answered and not self.restored:
                self.blame(f"{ask.id} was answered twice")
            self.answered[ask.id] = choice
            if ask.detail is not None and choice == "approve":
                self.approved.add(ask.detail["args"]["what"])

    def settle(self, store: perdure.Store) -> None:
        """A careful person says what became of doubt: what arrived did happen; what can still arrive is left."""
        for effect in store.effects(state="in_doubt", limit=1_000):
            what = effect.record.args["what"]
            self.scheduler.reach("person.settles")
            verdict = self.verdict(effect.record, what)
            if verdict is not None:
                self.attempt(lambda effect=effect, verdict=verdict: effect.settle(verdict, by="ada", force=True))

    def verdict(self, record: Any, what: str) -> Any:
        if self.world.arrived(f"undo {what}" if record.undoes is not None else what):
            return perdure.Happened(f"ada saw {what}")
        if any(letter.what.endswith(what) for letter in self.world.under_way):
            return None
        holder = self.process_of(record.holder)
        if holder is None or not holder.busy:
            return perdure.Absent()
        harmless = record.stream_kind == "run" and holder.last_point not in SENDING
        return perdure.Absent() if harmless else None
