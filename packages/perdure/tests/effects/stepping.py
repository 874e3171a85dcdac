"""The engine of effects, stepped by hand: no database, no threads, no clock. Whatever can go wrong at a step is a choice.

A `World` holds what is durable (the ledger, the lease) and what is outside. A `Process` steps one generator of the engine: it may
die before each command and after it, and once it may be paused until another one has taken its run and come to rest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from perdure.effects import ledger
from perdure.effects.commands import CallFunction, CallOutcome, CheckLease, Read, Write
from perdure.effects.effect_engine import EffectEngine
from perdure.effects.ledger import Intent
from perdure.effects.settling import Action
from perdure.effects.tool import Tool, digest_of, tool
from perdure.errors import Failed, InDoubt, Stale, Unavailable
from perdure.log.change import Change, Op, Stream
from perdure.log.event import Body
from perdure.model.instants import SECOND_US
from perdure.model.records.effects import Absent, EffectRecord, Happened, Unknown
from perdure.stores.clocks import Clocks
from perdure.stores.in_flight import InFlight
from perdure.stores.tool_limits import Slots
from perdure.stores.tx import LOG

STREAM = Stream(1, b"r" * 16, 1, "run", "r")
KEY = "k"
LANDS_WITHIN = 5
STEPS_MAX = 200


class Choices:
    """One way through all choices: the first ones are given, every other is the first option, and `ways` goes on from there."""

    def __init__(self, given: list[int]) -> None:
        self.given = given
        self.made: list[tuple[int, int]] = []

    def choose(self, options: int) -> int:
        chosen = self.given[len(self.made)] if len(self.made) < len(self.given) else 0
        self.made.append((chosen, options))
        return chosen


def ways(run: Callable[[Choices], Any]) -> Iterator[Any]:
    """What every way gives, depth first."""
    given: list[int] | None = []
    while given is not None:
        choices = Choices(given)
        yield run(choices)
        last = next(
            (at for at in reversed(range(len(choices.made))) if sum(choices.made[at][:1]) + 1 < choices.made[at][1]),
            None,
        )
        given = None if last is None else [*(made for made, _ in choices.made[:last]), choices.made[last][0] + 1]


class Died(BaseException):
    """The process is gone: nothing of it happens any more."""


class Books:
    """The durable ledger of one stream, as a transaction and as a reader: the real verbs run on it."""

    actor, tenant = "worker", 1
    clocks = Clocks(lambda: 0, lambda: 0)

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, Any]] = {}
        self.docs: dict[int, bytes] = {}
        self.said: dict[int, Any] = {}
        self.events: list[str] = []
        self.now = 0

    def store_now(self) -> int:
        return self.now

    def record(self, change: Change) -> int:
        seq = len(self.events) + 1
        self.events.append(change.kind)
        self.docs[seq] = msgspec.json.encode(Body(doc=change.doc))
        self.said[seq] = change.doc or {}
        if change.op is Op.INSERT:
            self.rows[seq] = {"seq": seq, "doc_seq": seq, "outcome_seq": None, "about": None, **change.set}
        elif change.op is Op.SET:
            marked = {change.mark: seq} if change.mark else {}
            self.rows[change.key["seq"]] |= change.set | marked
        return seq

    def row(self, table: Any, stream: Stream, *key: int) -> dict[str, Any] | None:
        return self.rows.get(key[0]) if key else {"status": "running"}  # the run itself

    def query(self, statement: Any, *, touches: Any = (), **asked: Any) -> list[tuple[Any, ...]]:
        if statement is LOG.store_clock:
            return [(self.now,)]
        if statement is not ledger.Q.effect_get:
            return []  # nobody is asked for an approval here
        return [
            (
                *(row.get(name) for name in COLUMNS), self.docs[row["doc_seq"]], self.docs.get(row["outcome_seq"]),
                self.now if row["outcome_seq"] else None, False,
            )
            for row in self.rows.values()
            if row["seq"] == asked["seq"] or row["key"] == asked["key"]
        ]  # fmt: skip


COLUMNS = (
    "seq", "state", "tool", "kind", "key", "digest", "place", "call", "undoes", "attempt", "epoch", "holder", "actor", "at",
    "dispatched_at", "deadline_at", "quiet_at", "mishaps", "first_dispatched_at",
)  # fmt: skip


class World:
    """One effect, whoever works on it, and the other side. `seen` collects every state that became durable."""

    def __init__(
        self, kind: str, choices: Choices, *, near: bool, deaths: int = 1, pauses: int = 0, broken: str = ""
    ) -> None:
        self.kind, self.near, self.broken = kind, near, broken
        self.choices = choices
        self.books = Books()
        self.token = 0  # of the newest lease
        self.applied = 0
        self.answers: dict[str, str] = {}  # that the other side keeps by key
        self.refused = False
        self.deaths, self.pauses = deaths, pauses  # that may still come
        self.dead: set[str] = set()
        self.seen: set[tuple[Any, ...]] = set()
        self.tool = TOOLS[kind]
        HERE[:] = [self]

    # -- the other side --------------------------------------------------------------------------------------------------------

    def arrives(self, key: str) -> str:
        """A request: done or not, and its answer comes back or is lost; its caller may die before or after."""
        if key in self.answers:
            return self._kept(key)
        match self.choices.choose(7 if self.deaths else 5):
            case 0:
                return self._apply(key)
            case 1:
                self._apply(key)
                raise OSError("the answer was lost")
            case 2:
                raise OSError("the request was lost")
            case 3:
                self.answers |= {key: "no"} if key else {}
                raise Failed("a clear no")
            case 4:
                raise Unavailable("nothing was sent")
            case 5:
                self.deaths -= 1
                self._apply(key)
                raise Died
            case _:
                self.deaths -= 1
                raise Died

    def _apply(self, key: str) -> str:
        self.applied += 1
        self.answers |= {key: "done"} if key else {}
        return "done"

    def _kept(self, key: str) -> str:
        if self.answers[key] == "no":
            raise Failed("a clear no")
        return self.answers[key]

    def asked(self) -> Any:
        if self.choices.choose(2):
            return Unknown("no answer")
        return Happened("done") if self.applied else Absent()

    # -- faults ----------------------------------------------------------------------------------------------------------------

    def may_die(self) -> bool:
        if self.deaths and self.choices.choose(2):
            self.deaths -= 1
            return True
        return False

    def record(self) -> EffectRecord | None:
        return ledger.find(self.books, STREAM, KEY)  # type: ignore[arg-type]

    def durable(self) -> tuple[Any, ...]:
        """All that a process finds when it begins, without the times."""
        row = self.books.rows.get(1, {})
        told = [row.get(name) for name in ("state", "attempt", "mishaps", "error")]
        told += [
            bool(self.books.said.get(row.get("outcome_seq") or 0, {}).get("doubtful")),
            row.get("quiet_at") is not None,
        ]
        return (*told, self.applied, tuple(self.answers.values()), self.deaths, self.pauses, len(self.dead))

    def state(self) -> tuple[Any, ...]:
        """What the model calls kind, near, ledger.state, ledger.attempt and whether it was applied."""
        row = self.books.rows.get(1, {"state": "planned", "attempt": 0})
        state = (row["state"], row["attempt"])
        return (self.kind, self.near, *state, min(self.applied, 2))


HERE: list[World] = []  # the world that is stepped: declaring a tool takes longer than a way through it


def _declared(body: Callable[..., Any] = lambda: HERE[0].arrives(""), **about: Any) -> Tool:
    return tool(name="send", retries=1, backoff="1ms", lands_within=LANDS_WITHIN, **about)(body)


TOOLS = {
    "idempotent": _declared(kind="idempotent"), "keyed": _declared(lambda *, key: HERE[0].arrives(key), kind="keyed"),
    "unsafe": _declared(), "probe": _declared(probe=lambda: World.asked(HERE[0])),
}  # fmt: skip


class Lives:
    """Which processes are proved dead, as one of them sees it."""

    def __init__(self, world: World) -> None:
        self._world = world

    def begin(self) -> None:
        pass

    def is_dead(self, holder: str) -> bool:
        return self._world.near and (holder in self._world.dead or self._world.broken == "a silent process is dead")

    def is_held(self, holder: str) -> bool:
        return self._world.near and holder not in self._world.dead


class Process:
    """One process that has claimed the run: steps the engine until it rests, dies or is paused."""

    epoch, guards, clock_moves = 1, (), False

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.holder = f"{number:032x}"
        self.liveness, self.in_flight, self.slots = Lives(world), InFlight(), Slots()
        world.token += 1
        self.token = world.token
        engine = EffectEngine(self, STREAM, "worker", 1, in_run=True, token=self.token)  # type: ignore[arg-type]
        self._steps = self._work(engine)
        self._command: Any = None
        self.heard: list[Any] = [number, world.durable()]  # all that decides what it does next

    def write(self, verb: Any, *args: Any, actor: str, tenant: int) -> Any:
        return verb(self.world.books, *args)

    def _work(self, engine: EffectEngine) -> Any:
        found = self.world.record()
        made = self.world.tool
        if found is None and self.world.broken == "the call comes first":
            yield CallFunction(made.fn, is_async=False)
        if found is None:
            intent = Intent("send", made.kind, KEY, digest_of("send", {}), {}, made.rule)
            found, must_send = yield from engine.dispatch_effect(made, intent)
            return (yield from engine.carry_to_end(made, found, must_send=must_send))
        return (yield from engine.carry_to_end(made, found, must_send=False))

    def run(self) -> str:
        """Step it: `rested` with an action to wait for, `settled`, `stale`, `died` or `paused`."""
        try:
            command = self._command or next(self._steps)
            for _ in range(STEPS_MAX):
                if self._command is None and self.world.pauses and self.world.choices.choose(2):
                    self.world.pauses -= 1
                    self._command = command
                    return "paused"
                self._command = None
                command = self._step(command)
            raise AssertionError("it does not come to an end")
        except StopIteration:
            return "settled"
        except InDoubt as doubt:
            if self.world.may_die():
                self.world.dead.add(self.holder)
            return f"rested: {doubt.facts['action']}"
        except (Stale, Unavailable):
            return "stale"
        except Died:
            self.world.dead.add(self.holder)
            self.bury()
            return "died"

    def _step(self, command: Any) -> Any:
        """Do what the engine asks, unless the process dies before it. Between two commands nothing becomes durable, so a death
        right after one is a death before the next.
        """
        if self.world.may_die():
            raise Died
        try:
            result = self._do(command)
        except Died:
            raise
        except BaseException as error:
            self.heard.append(repr(error))
            return self._steps.throw(error)
        self.heard.append(repr(result))
        return self._steps.send(result)

    def _do(self, command: Any) -> Any:
        match command:
            case Write(verb, args, kwargs, fenced):
                if fenced and self.token != self.world.token and self.world.broken != "no fence":
                    raise Stale("lost")
                result = verb(self.world.books, STREAM, *args, **kwargs)
                self.world.seen.add(self.world.state())
                return result
            case Read(verb, args):
                return verb(self.world.books, *args)
            case CheckLease():
                if self.token != self.world.token and self.world.broken != "no fence":
                    raise Stale("lost")
                return None
            case CallFunction(function):
                try:
                    return CallOutcome(function())
                except Died:
                    raise
                except BaseException as error:
                    return CallOutcome(None, error)
        return None  # a pause is over at once

    def bury(self) -> None:
        """End the generator of a dead process: it gets no answer to whatever it still asks for."""
        with contextlib.suppress(BaseException):
            self._steps.throw(Died())
            for _ in range(STEPS_MAX):
                self._steps.throw(Unavailable("it is dead"))


class Known(dict[Any, tuple[int, ...]]):
    """Worlds that were met when a process began, with the way that led there first: what comes after it is followed once."""

    def has_met(self, world: World, paused: Any) -> bool:
        made = tuple(chosen for chosen, _ in world.choices.made)
        return self.setdefault((world.durable(), paused), made) != made


def live(world: World, known: Known | None = None) -> World:
    """The whole story: processes take the run one after the other, until it is settled or waits for a person."""
    paused: tuple[Process, Any] | None = None
    for number in range(1, 8):
        if known is not None and known.has_met(world, paused and paused[1]):
            break
        process = Process(world, number)
        came = process.run()
        if came == "paused":
            paused = process, tuple(process.heard)
            continue
        if came == "settled" or came.removeprefix("rested: ") == Action.PERSON.value:
            break
        world.books.now += (
            2 * LANDS_WITHIN * SECOND_US
        )  # by then what was sent has landed, and its sender is proved dead
    if paused is not None and (known is None or not known.has_met(world, ("goes on", paused[1]))):
        paused[0].run()
    if paused is not None:
        paused[0].bury()
    world.seen.add(world.state())
    return world
