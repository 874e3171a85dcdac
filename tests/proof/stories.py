"""What happens in the histories: tools, agents, and the stories that processes live through.

A story starts its processes in `begin`, and after the storm lets one calm process bring everything to its end (`calm`). What is
sent outside is named `case/number[/…]`: the first two parts say which act of the program it is, and that one must happen once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import perdure
from perdure_testing.simulation import Process, Rates
from perdure_testing.simulation.scheduler import HOT, LAST
from proof.stage import Stage, stage

ROUNDS_MAX = 40
Work = Callable[[Process], None]


# -- tools -------------------------------------------------------------------------------------------------------


def look(what: str) -> perdure.Happened | perdure.Absent | perdure.Unknown:
    if stage().chance.random() < 0.05:
        return perdure.Unknown("nobody can tell now")
    return perdure.Happened(f"got {what}") if stage().world.arrived(what) else perdure.Absent()


@perdure.tool(kind="keyed", retries=50, name="proof.unbook")
def unbook(what: str, *, key: str) -> str:
    return stage().world.send(f"undo {what}", key)


@perdure.tool(name="proof.pay", retries=3)
def pay(what: str) -> str:
    return stage().world.send(what)


@perdure.tool(name="proof.post", kind="keyed", retries=20)
def post(what: str, *, key: str) -> str:
    return stage().world.send(what, key)


@perdure.tool(name="proof.push", probe=look, retries=5, lands_within=60)
def push(what: str) -> str:
    return stage().world.send(what)


@perdure.tool(name="proof.tag", kind="idempotent", retries=20)
def tag(what: str) -> str:
    return stage().world.send(what)


@perdure.tool(name="proof.book", undo=unbook, probe=look, retries=5)
def book(what: str) -> str:
    return stage().world.send(what)


@perdure.tool(name="proof.rent", undo=unbook, retries=3)
def rent(what: str) -> str:
    return stage().world.send(what)


TOOLS = {"pay": pay, "post": post, "push": push, "tag": tag}


def draw() -> int:
    stage().scheduler.reach("step")
    return stage().chance.randrange(1_000_000)


# -- agents ------------------------------------------------------------------------------------------------------


def did(run: perdure.Run, tool: perdure.Tool, what: str, **options: Any) -> str:
    """Act, and let the stage see what came of it."""
    try:
        value = run.act(tool, what, **options)
    except perdure.Cancelled:
        raise
    except perdure.Failed as error:
        value = f"failed: {error.code}"
    return stage().observe(f"{run.record.agent} {run.record.key}", what.split("/")[1], value)


def seen(run: perdure.Run, what: str, value: Any) -> Any:
    return stage().observe(f"{run.record.agent} {run.record.key}", what, value)


@perdure.agent(name="proof.acts")
def acts(run: perdure.Run, case: str, kinds: list[str]) -> int:
    number = seen(run, "draw", run.step(draw))
    for i, kind in enumerate(kinds):
        did(run, TOOLS[kind], f"{case}/{i}/{number}")
    return seen(run, "last", run.step(draw))


@perdure.agent(name="proof.asked")
def asked(run: perdure.Run, case: str) -> str:
    did(run, pay, f"{case}/0/ok", approve="Pay?")
    colour = seen(run, "colour", run.ask("Which?", choices=["red", "blue", "green"]))
    did(run, pay, f"{case}/1/ok", approve="Pay again?")
    return colour


class Enough(Exception):
    pass


def fail() -> None:
    raise Enough


@perdure.agent(name="proof.saga")
def saga(run: perdure.Run, case: str) -> str:
    try:
        with run.saga():
            for i, tool in enumerate((book, rent, book)):
                did(run, tool, f"{case}/{i}/booked")
            fail()
    except Enough:
        return seen(run, "end", run.step(lambda: "undone"))


@perdure.agent(name="proof.small")
def small(run: perdure.Run, case: str) -> int:
    did(run, post, f"{case}/child/x")
    return seen(run, "draw", run.step(draw))


@perdure.agent(name="proof.patient")
def patient(run: perdure.Run, case: str) -> list[Any]:
    got = [seen(run, f"signal {i}", run.wait("go")) for i in range(2)]
    run.sleep("30s")
    got.append(seen(run, "child", run.call(small, case)))
    got.append(seen(run, "never", run.wait("never", timeout="1m", default="none")))
    return got


@perdure.agent(name="proof.cuts")
def cuts(run: perdure.Run, case: str) -> list[int]:
    done = list(run.restored or [])
    for i in range(len(done), 4):
        number = seen(run, f"draw {i}", run.step(draw))
        did(run, pay if i % 2 else tag, f"{case}/{i}/{number}")
        done = [*done, number]
        run.checkpoint(done)
    return done


@perdure.agent(name="proof.lately")
def lately(run: perdure.Run, case: str) -> str:
    did(run, pay, f"{case}/0/ok", approve="Pay?")
    did(run, post, f"{case}/1/x")
    did(run, tag, f"{case}/2/x")
    return "over"


def answered() -> dict[str, Any]:
    """What a model says: it wants all tools at once."""
    number = draw()
    kinds = enumerate(("pay", "push", "post"))
    return {
        "calls": [{"id": f"c{i}", "tool": TOOLS[kind].name, "args": {"what": f"m/{i}/{number}"}} for i, kind in kinds]
    }


@perdure.agent(name="proof.model")
def model(run: perdure.Run, case: str) -> Any:
    reply = run.respond(answered, tools=[pay, push, post])
    seen(run, "said", reply.value)
    for answer in reply.answers:
        seen(run, answer.call, [answer.result, answer.error.code if answer.error else None])
    return seen(run, "last", run.step(draw))


AGENTS = [model, acts, asked, saga, small, patient, cuts, lately]


# -- stories -----------------------------------------------------------------------------------------------------


class Story:
    """Runs that several drivers take from each other, with a person who answers and settles."""

    name = ""
    runs: tuple[tuple[Any, tuple[Any, ...]], ...] = ()
    drivers = 3
    turns = 6
    people: tuple[str, ...] = ("ada",)
    rates = Rates()

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def wanted(self) -> list[tuple[Any, tuple[Any, ...]]]:
        """The runs of this story: agents and their arguments; the key is the first."""
        return list(self.runs)

    def begin(self) -> None:
        self.todo = self.wanted()
        for i in range(self.drivers):
            self.stage.process(f"p{i}", self.drive)
        for name in self.people:
            self.stage.process(name, self.look_after, mortal=False)

    def drive(self, process: Process) -> None:
        """Drive what is to be driven, or what others left."""
        for _ in range(self.turns):
            agent, args = self.stage.chance.choice(self.todo)
            if self.stage.chance.random() < 0.7:
                self.stage.attempt(lambda agent=agent, args=args: self.driven(process.store, agent, args))
            else:
                self.stage.attempt(lambda: process.store.recover(AGENTS))
            if self.stage.chance.random() < 0.2:
                self.stage.attempt(process.store.beat)
            self.stage.linger(process, "driver.waits")

    def driven(self, store: perdure.Store, agent: Any, args: tuple[Any, ...]) -> None:
        result = store.drive(agent, *args, key=args[0])
        self.stage.observe(f"{agent.name} {args[0]}", "result", result)

    def look_after(self, process: Process) -> None:
        """What people do while others are at work."""
        while self.others_at_work(process):
            self.stage.attempt(lambda: self.stage.answer(process.store))
            if process.name == "ada":
                self.stage.attempt(lambda: self.stage.settle(process.store))
            self.stage.linger(process, "person.waits", 30)

    def others_at_work(self, me: Process) -> bool:
        """Whether somebody is at work who can die."""
        others = [each for each in self.stage.machine.processes if each.mortal and each is not me]
        return any(each.busy and each.asleep_until < LAST for each in others)

    def after(self) -> None:
        """What happens between the storm and the calm."""

    # -- afterwards ----------------------------------------------------------------------------------------------------------

    def calm(self, process: Process) -> None:
        """Nothing goes wrong any more: whatever was begun comes to its end."""
        store = process.store
        for agent, args in self.todo:
            self.stage.attempt(lambda agent=agent, args=args: store.start(agent, *args, key=args[0]))
        self.stage.attempt(lambda: store.recover(AGENTS))
        for run in store.runs(status="running") if not self.stage.restored else ():
            holder = self.stage.process_of(run.record.holder)
            if holder is not None and holder.proved:
                self.stage.blame(f"{run.record.agent} stays with {holder.name}, who is proved dead")
        for _ in range(ROUNDS_MAX):
            self.stage.attempt(lambda: self.more(store))
            self.stage.attempt(lambda: self.stage.answer(store))
            self.stage.attempt(lambda: self.stage.settle(store.as_("ada")))
            for run in store.runs(status="parked"):
                if run.record.reason == "deaths":
                    run.unpark()
            self.stage.attempt(lambda: store.recover(AGENTS))
            if self.is_over(store):
                break
            self.stage.machine.clock.advance("2m")

    def more(self, store: perdure.Store) -> None:
        """What this story does in each round besides."""

    def is_over(self, store: perdure.Store) -> bool:
        return all(run.record.ended for run in store.runs(limit=1_000)) and not self.stage.world.under_way


class Acts(Story):
    """Two runs that do something outside by tools of all kinds."""

    name = "acts"

    def wanted(self) -> list[tuple[Any, tuple[Any, ...]]]:
        kinds = self.stage.chance.sample(sorted(TOOLS), k=4)
        return [(acts, ("a", kinds[:2])), (acts, ("b", kinds[2:]))]


class Pays(Acts):
    """The same with what is in doubt most easily."""

    name = "pays"

    def wanted(self) -> list[tuple[Any, tuple[Any, ...]]]:
        return [(acts, ("a", ["push", "pay"])), (acts, ("b", ["pay", "push"]))]


class Haunted(Story):
    """A driver that stands still past its lease, and wakes up when others have gone on as far as they can."""

    name = "haunted"
    turns = 5
    rates = Rates(die=0.012, stall=0, tick=0.02, lose=0.01)

    def wanted(self) -> list[tuple[Any, tuple[Any, ...]]]:
        return [(acts, ("a", [self.stage.chance.choice(("push", "pay", "post")), "pay"]))]

    def drive(self, process: Process) -> None:
        """The first stands still somewhere around its call; the others go on when it does, and may stand still too."""
        first = self.stage.machine.processes[0]
        if process is first or self.stage.chance.random() < 0.3:
            self.stage.scheduler.ambush(process, self.stage.chance.choice(HOT))
        while process is not first and first.busy and first.asleep_until < LAST:
            self.stage.linger(process, "driver.waits")
        for _ in range(1 if process is first else self.turns):
            self.stage.attempt(lambda: self.driven(process.store, *self.todo[0]))
            self.stage.linger(process, "driver.waits")
            self.stage.machine.clock.advance("70s")


class Model(Story):
    """A model that makes several calls at once."""

    name = "model"
    runs = ((model, ("m",)),)


class Asked(Story):
    """A run that needs approvals and an answer, and two people who give them at once."""

    name = "asked"
    runs = ((asked, ("a",)), (asked, ("b",)))
    people = ("ada", "bob")


class Sagas(Story):
    name = "saga"
    runs = ((saga, ("a",)),)


class Cuts(Story):
    name = "cuts"
    runs = ((cuts, ("a",)),)


class Signals(Story):
    """A run that waits for signals, a time and a child."""

    name = "signals"
    runs = ((patient, ("a",)),)

    def begin(self) -> None:
        super().begin()
        self.sent = 0
        self.stage.process("sender", self.send, mortal=False)

    def send(self, process: Process) -> None:
        while self.sent < 2:
            self.stage.scheduler.reach("sender.sends")
            self.stage.attempt(lambda: self.send_next(process.store))

    def send_next(self, store: perdure.Store) -> None:
        run = store.start(patient, "a", key="a")
        run.signal("go", f"signal {self.sent}")
        self.sent += 1

    def more(self, store: perdure.Store) -> None:
        if not self.stage.restored:
            for i in range(2):
                given = self.stage.seen.get(("proof.patient a", f"signal {i}"), f"signal {i}")
                if given != f"signal {i}":
                    self.stage.blame(f"signal {i} came as {given!r}")


class Restored(Story):
    """A backup is made while a person is asked; later all is lost but the backup."""

    name = "restored"
    runs = ((lately, ("a",)),)

    def begin(self) -> None:
        super().begin()
        self.backup: Path | None = None
        self.stage.process("keeper", self.keep, mortal=False)

    def keep(self, process: Process) -> None:
        while self.others_at_work(process) and not process.store.asks():
            self.stage.linger(process, "keeper.looks")
        place = self.stage.machine.path.with_name("backup.db")
        process.store.backup(place)
        self.backup = place

    def after(self) -> None:
        if self.backup is not None and any(self.is_planned(each) for each in self.effects_of(self.backup)):
            self.stage.restore(self.backup)

    @staticmethod
    def effects_of(backup: Path) -> list[Any]:
        with perdure.open(f"sqlite:///{backup}", read_only=True) as store:
            return list(store.effects())

    @staticmethod
    def is_planned(effect: Any) -> bool:
        """What came after the backup without a plan in it is not known to it: `unsafe` work would be done again."""
        return effect.tool == "proof.pay"
