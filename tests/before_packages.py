"""The life that the last commit before the split into packages (ebda14a6) left unfinished, and how it is carried to its end.

A program of four commands, which `tools/make_before.py` runs with the code of that commit:

    before_packages.py furnish URL      a store with something of everything, and runs at every kind of rest
    before_packages.py die URL NAME     drives one more run, and kills itself in the middle of an effect of it
    before_packages.py export URL FILE  writes all of it into a bundle
    before_packages.py finish URL [FILE]    carries everything to its end (of a bundle, in a new store), and prints the calls
                                        and the events that this adds

The text of this module is the program of those runs: their digests stand in the fixture, so it stays as it is. It names only what
users name, and takes nothing of other modules of the tests. Used by `test_before_packages.py`.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import perdure

BEGUN_US = 1_800_000_000_000_000
MINUTE_US = 60_000_000
DAY_US = 1440 * MINUTE_US
LONG = "The log of the build says nothing of use. " * 220  # above what a row keeps

SENT: list[str] = []  # what reached the other side in this process, in order


class World:
    """What differs between the life that is left and the one that finishes it."""

    making = False  # things go wrong, as the fixture needs it
    dying = ""  # the tool in whose middle this process is killed


class Clock:
    """A clock that moves when it is moved, so that every instant is the same whoever finishes."""

    def __init__(self, now_us: int) -> None:
        self.now_us = now_us

    def __call__(self) -> int:
        return self.now_us


def sent(tool: str, what: str, key: str = "") -> str:
    """The other side has it; here a process may be killed before it learns so."""
    SENT.append(f"{tool} {what} {key}".rstrip())
    if World.dying == tool:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"{tool} {what}"


# -- tools -----------------------------------------------------------------------------------------------------------


@perdure.tool(kind="keyed", name="before.charge")
def charge(amount: int, *, key: str) -> str:
    return sent("charge", str(amount), key)


@perdure.tool(name="before.mail")
def mail(to: str) -> str:
    """Unsafe: nobody but a person knows whether it arrived."""
    return sent("mail", to)


@perdure.tool(kind="idempotent", name="before.label")
def label(what: str) -> str:
    return sent("label", what)


def look_for(what: str) -> perdure.Happened | perdure.Absent:
    return perdure.Happened(f"looked for {what}")


@perdure.tool(probe=look_for, lands_within=5, name="before.push")
async def push(what: str) -> str:
    if World.dying == "push":
        await asyncio.sleep(1)  # all that goes on beside it is recorded by then
    return sent("push", what)


@perdure.tool(name="before.stray")
def stray(what: str) -> str:
    """Breaks when the outcome cannot be known."""
    sent("stray", what)
    if World.making:
        raise OSError("the answer was lost")
    return what


@perdure.tool(kind="idempotent", fails=[ValueError], name="before.refuse")
def refuse(what: str) -> str:
    """Says no, and yes when a person tries it again."""
    if World.making:
        raise ValueError("not today")
    return sent("refuse", what)


@perdure.tool(fails=[ValueError], name="before.never")
def never(what: str) -> str:
    raise ValueError(f"never {what}")


@perdure.tool(kind="idempotent", fails=[ValueError], name="before.unbook")
def unbook(what: str) -> None:
    if World.making and what == "stubborn":
        raise ValueError("cannot be undone now")
    sent("unbook", what)


@perdure.tool(kind="keyed", undo=unbook, name="before.book")
def book(what: str, *, key: str) -> str:
    return sent("book", what, key)


@perdure.tool(kind="read", name="before.look")
def look(where: str) -> list[str]:
    return [where, "seen"]


TOOLS = [charge, mail, label, look]


# -- steps -----------------------------------------------------------------------------------------------------------


def plan(traveller: str) -> list[str]:
    return [traveller, "Rome", "Oslo"]


def price(number: int) -> int:
    return number * 10


def think(subject: str) -> dict[str, Any]:
    wanted = [("before.look", {"where": subject}), ("before.charge", {"amount": 3}), ("before.mail", {"to": subject}),
              ("before.label", {"what": subject})]  # fmt: skip
    calls = [perdure.Call(f"c{number}", name, args) for number, (name, args) in enumerate(wanted)]
    return {"content": f"I look into {subject}", "calls": calls}


# -- agents ----------------------------------------------------------------------------------------------------------


@perdure.agent(name="before.order")
def order(run: perdure.Run, number: int) -> str:
    return run.act(charge, run.step(price, number))


@perdure.agent(name="before.asked")
def asked(run: perdure.Run, traveller: str) -> str:
    seat = run.ask(f"Which seat for {traveller}?", choices=["12A", "12C"])
    return run.act(book, seat)


@perdure.agent(name="before.approved")
def approved(run: perdure.Run, to: str) -> str:
    return run.act(mail, to, approve="Send that?")


@perdure.agent(name="before.asleep")
def asleep(run: perdure.Run, what: str) -> str:
    run.step(price, 1)
    run.sleep("3h")
    return run.act(label, what)


@perdure.agent(name="before.signalled")
def signalled(run: perdure.Run) -> Any:
    state = run.wait("ci.done")
    return run.step(price, state["builds"])


@perdure.agent(name="before.failing")
def failing(run: perdure.Run, what: str) -> str:
    run.act(label, what)
    return run.act(refuse, what)


@perdure.agent(name="before.doubtful")
def doubtful(run: perdure.Run, what: str) -> str:
    first = run.act(stray, what)
    return f"{first}, {run.act(label, what)}"


@perdure.agent(name="before.undone")
def undone(run: perdure.Run, what: str) -> str:
    """A saga that does not come to its end; the undo of `stubborn` fails at first, and parks the run."""
    try:
        with run.saga():
            run.act(book, what)
            run.act(never, what)
    except perdure.Failed as no:
        return no.code
    return ""


def greets(step: Any) -> Any:
    @perdure.agent(name="before.greet")
    def greet(run: perdure.Run) -> str:
        name = run.step(step, "ada")
        return run.ask(f"Greet {name}?")

    return greet


greet_otherwise = greets(str.upper)
greet = greets(str.title)


def deployed(model: str) -> Any:
    @perdure.agent(name="before.versions", pins={"model": model, "prompt": "v7"})
    def versions(run: perdure.Run) -> Any:
        return run.ask("Which ticket?")

    return versions


versions_before = deployed("m1")
versions_after = deployed("m2")


@perdure.agent(name="before.parent")
def parent(run: perdure.Run, traveller: str) -> str:
    return f"{run.call(asked, traveller)}, {run.step(price, 4)}"


@perdure.agent(name="before.patient")
def patient(run: perdure.Run) -> Any:
    """Waits for what never comes, until a person cancels it."""
    run.act(book, "window")
    return run.wait("never")


@perdure.agent(name="before.errand")
def errand(run: perdure.Run, what: str) -> str:
    run.step(price, 2)
    return run.act(charge, len(what))


@perdure.agent(name="before.voyage", checkpoint="every 1 steps")
def voyage(run: perdure.Run, traveller: str) -> list[Any]:
    """Is killed in a mail of its left branch, after a checkpoint and a child."""
    state = run.restored
    if state is None:
        state = [run.step(plan, traveller), run.act(label, "luggage")]
        run.checkpoint(state)
    state = [*state, run.step(price, len(state)), run.call(errand, traveller)]
    left, right = run.branch("left"), run.branch("right")
    state += [left.act(label, "left"), right.step(price, 7), left.act(mail, traveller), right.act(charge, 70)]
    state += [run.ask("Window?", choices=["yes", "no"]), str(run.now())]
    run.sleep("1h")
    run.atomic(note)
    if run.patched("before.more"):
        state += [run.act(book, "return"), run.call(errand, "once more"), str(run.uuid())]
    return state


def note(tx: Any) -> None:
    tx.session("journal").say("user", "the voyage is over")


@perdure.agent(name="before.journey")
def journey(run: perdure.Run, traveller: str) -> str:
    """Is killed in an effect of its child."""
    run.step(price, 3)
    return f"{run.call(errand, traveller)}, {run.act(label, traveller)}"


@perdure.agent(name="before.fleet")
async def fleet(run: perdure.AsyncRun, what: str) -> list[Any]:
    """Is killed in an effect beside which others came to their end."""
    first = await run.step(price, 5)
    done = await asyncio.gather(run.act(push, what), run.act(charge, 5), run.step(price, 6))
    return [first, *done, await run.ask("Land?", choices=["yes", "no"])]


@perdure.agent(name="before.clerk")
def clerk(run: perdure.Run, subject: str) -> list[Any]:
    """Is killed in the third call of a model's answer."""
    reply = run.respond(think, subject, tools=TOOLS)
    return [each.error.code if each.error else each.result for each in reply.answers]


AT_REST: dict[str, tuple[Any, list[Any]]] = {
    "finished": (order, [4]), "asked": (asked, ["Ada"]), "approved": (approved, ["ada@example.org"]),
    "asleep": (asleep, ["nap"]), "signalled": (signalled, []), "failing": (failing, ["hope"]),
    "doubtful": (doubtful, ["letter"]), "undone": (undone, ["hotel"]), "stubborn": (undone, ["stubborn"]),
    "versions": (versions_before, []), "parent": (parent, ["Bob"]), "patient": (patient, []), "weary": (patient, []),
    "parked": (greet, []),
}  # fmt: skip
KILLED: dict[str, tuple[Any, list[Any], str]] = {
    "voyage": (voyage, ["Eve"], "mail"), "journey": (journey, ["Kim"], "charge"), "fleet": (fleet, ["ship"], "push"),
    "clerk": (clerk, ["the till"], "mail"),
}  # fmt: skip
FINISHERS: dict[str, tuple[Any, list[Any]]] = {
    **AT_REST, **{key: (agent, args) for key, (agent, args, _) in KILLED.items()},
    "versions": (versions_after, []), "never-driven": (order, [9]),
}  # fmt: skip
CANCELLED = {"patient", "weary"}


# -- the life that is left -------------------------------------------------------------------------------------------


def furnish(store: perdure.Store) -> None:
    """Something of everything, and runs at every kind of rest."""
    session = store.session("main", title="Fix login", labels=["prod", "web"], goal="Login works")
    turn = session.say("user", "Login fails on Safari", key="m1", about=["customer:7"])
    calls = [perdure.Call("c1", "grep", {"q": "Safari"}), perdure.Call("c2", "grep", {"q": "["})]
    session.say("assistant", "Let me look", calls=calls, model="m1")
    session.result("c1", {"hits": 3})
    session.result("c2", "no such pattern", error=True)
    session.say("user", LONG)
    session.summarise(upto=turn.seq, text="The user reports a fault")
    session.pin(model="m1", prompt="be brief")
    plan_work(session, turn)
    keep_values(store, session)
    remember(store, session, turn)
    session.attach("build.log", b"all good", media_type="text/plain")
    for cursor in range(3):
        session.checkpoint({"cursor": cursor, "log": [f"entry {cursor}"]})
    session.emit("deploy.finished", {"sha": "abc"}, refs=[turn])
    fork = session.fork(name="try-b")
    fork.say("user", "And on Firefox?")
    fork.set("branch", "other")
    act(session)
    rest(store)


def plan_work(session: Any, turn: Any) -> None:
    first = session.task("Write the test", labels=["test"], priority=1)
    second = session.task("Fix it", needs=[first], parent=first, detail={"file": "auth.py"})
    first.claim(ttl="1h").done("works")
    second.block("waits for CI")
    session.task("Deploy", key="deploy", labels=["ship"]).claim(ttl="1h")
    decision = session.decide("Use A", because="B breaks", then="patch", refs=[turn], tags=["auth"])
    decision.supersede("Use C", because="A is slow")
    session.decide("Ship it", because="green", checks=[perdure.Age("30d")])
    session.ask("Merge?", choices=["merge", "hold"])


def keep_values(store: perdure.Store, session: Any) -> None:
    for version in range(2):
        session.set("branch", f"fix-{version}")
    session.set("gone", 1)
    session.unset("gone")
    session.set("tests", "12 passed", checks=[perdure.ValueIs("branch", "fix-1")])
    store.scope("user:alice").set("colour", {"name": "blue"}, ttl="10d")
    with session.lock("deploy"):
        pass


def remember(store: perdure.Store, session: Any, turn: Any) -> None:
    old = session.remember("Tests run with make", kind="workflow", source=[turn], tags=["ci"], key="m")
    old.supersede("Tests run with tox", because="the Makefile went", confidence=0.5).confirm("saw it work")
    scope = store.scope("user:alice")
    scope.remember("Prefers dark mode", kind="preference", about=["user:alice"])
    scope.remember("Lives in Rome", about=["user:alice"]).forget("she asked")


def act(session: Any) -> None:
    """Effects of a loop that a user owns: committed, failed, in doubt, only planned, for calls of a model."""
    session.act(charge, 7, key="charge-1")
    with suppress(perdure.Failed):
        session.act(never, "mind", key="never-1")
    with suppress(perdure.InDoubt):
        session.act(stray, "parcel", key="stray-1")
    session.begin("deploy", {"to": "prod"}, key="deploy-1")
    session.begin("deploy", {"to": "test"}, key="deploy-2").dispatch()
    answer = [perdure.Call("c3", "before.label", {"what": "bug"}), perdure.Call("c4", "before.look", {"where": "main"})]
    session.respond("I label it", calls=answer, tools=TOOLS, key="respond-1")


def rest(store: perdure.Store) -> None:
    for key, (agent, args) in AT_REST.items():
        with suppress(perdure.Waiting, perdure.Failed, perdure.Parked):
            store.drive(agent, *args, key=key, session="main")
    (question,) = [each for each in store.asks() if each.question == "Greet Ada?"]
    store.answer(question.id, "yes", by="alice")
    with suppress(perdure.Parked):
        store.drive(greet_otherwise, key="parked", session="main")
    run_of(store, "weary").cancel("enough")
    with suppress(perdure.Cancelled):
        store.drive(patient, key="weary", session="main")
    store.start(order, 9, key="never-driven", session="main")


def die(store: perdure.Store, key: str) -> None:
    """Drive one more run until this process is killed in the middle of one of its effects."""
    agent, args, World.dying = KILLED[key]
    store.drive(agent, *args, key=key, session="main")
    raise AssertionError(f"{key} came to its end")


# -- and its end -----------------------------------------------------------------------------------------------------


def finish(store: perdure.Store, clock: Clock) -> dict[str, Any]:
    """Carry all of it to its end as people do; the result of each run."""
    settle(store)
    for each in store.asks(limit=200):
        answer(store, each)
    results = {key: carried(store, clock, key) for key in FINISHERS}
    go_on(store)
    return results


def take_over(store: perdure.Store) -> None:
    """What came in a bundle answers here from now on, and continues."""
    for each in store.runs(limit=200):
        each.unpark()
    store.session("main").unpark()


def settle(store: perdure.Store) -> None:
    """Say that it happened, of the effects that only a person knows. All others have a rule of their own."""
    for each in store.effects(in_doubt=True, limit=200):
        if each.record.kind == "unsafe":
            each.settle(perdure.Happened("seen by hand"), by="ada", force=True)


def answer(store: perdure.Store, each: Any) -> None:
    if each.kind == "approval":
        store.answer(each.id, "approve", by="ada")
    elif each.kind == "ask":
        store.answer(each.id, each.choices[0] if each.choices else "so be it", by="ada")


def carried(store: perdure.Store, clock: Clock, key: str) -> Any:
    """The result of a run, whatever a person must do for it."""
    agent, args = FINISHERS[key]
    for _ in range(12):
        try:
            return store.drive(agent, *args, key=key, session="main")
        except perdure.Cancelled:
            return "cancelled"
        except perdure.Waiting as waiting:
            attend(store, clock, key, waiting)
        except perdure.Failed:
            run_of(store, key).retry()
        except perdure.Parked:
            unpark(store, key)
    raise AssertionError(f"{key} does not come to its end")


def attend(store: perdure.Store, clock: Clock, key: str, waiting: perdure.Waiting) -> None:
    """Do what a run waits for, or one of its children."""
    for doubt in waiting.facts["doubts"]:
        store.effect(doubt).settle(perdure.Happened("seen by hand"), by="ada", force=True)
    run = store.run(waiting.facts["run"])
    for wait in run.waits():
        if wait.kind == "signal" and key in CANCELLED:
            run.cancel("enough")
        elif wait.kind == "signal":
            run.signal(wait.name, {"builds": 8})
        elif wait.kind == "sleep":
            clock.now_us += DAY_US
        else:
            answer(store, wait)


def unpark(store: perdure.Store, key: str) -> None:
    run = run_of(store, key)
    if key == "parked":
        run.resume()
    else:
        run.unpark()


def go_on(store: perdure.Store) -> None:
    """Work on in what is no run: all that was opened is found, and moved."""
    session = store.session("main")
    session.say("user", "It works now")
    (deploy,) = list(session.tasks(label="ship"))
    deploy.claim(ttl="1h").done("shipped")
    for each in session.decisions(open=True):
        each.close("it held")
    session.set("branch", "fix-2")
    for each in session.memories():
        each.confirm("still so")
    state = session.restore()
    session.checkpoint({**state, "cursor": state["cursor"] + 1})
    planned = session.begin("deploy", {"to": "prod"}, key="deploy-1")
    if planned.state == "in_doubt":  # after a restore nobody knows whether it was sent
        planned.settle(perdure.Happened({"done": True}), by="ada")
    else:
        planned.dispatch().commit({"done": True})
    store.scope("user:alice").set("colour", "red")
    store.session("try-b").close()


def run_of(store: perdure.Store, key: str) -> Any:
    (found,) = [each for each in store.runs(limit=200) if each.record.key == key]
    return found


# -- what it shows, and what it recorded -----------------------------------------------------------------------------

EVENTS = """
    SELECT pos, stream_uid, stream_kind, stream, seq, kind, tbl, actor, at_us, hash, body FROM v_events
    WHERE pos > :after ORDER BY pos LIMIT 500
"""


def events(store: perdure.Store) -> list[dict[str, Any]]:
    """Every event of the store, in its order."""
    found: list[dict[str, Any]] = []
    while page := store.query(EVENTS, {"after": found[-1]["pos"] if found else 0}):
        found += page
    return found


SHOWN = ("stream_kind", "stream", "seq", "kind", "tbl", "actor", "at_us", "body")
UNSHOWN = re.compile(r'"(message|program)":"(?:[^"\\]|\\.)*"')


def added(store: perdure.Store, before: int) -> list[str]:
    """A line for each event that came after so many: where, what, by whom, when, and all that it holds, but for the wording of
    errors and the digests of programs, which differ between versions of Python."""
    lines = (" ".join(str(each[name]) for name in SHOWN) for each in events(store)[before:])
    return [UNSHOWN.sub(r'"\1":""', each) for each in lines]


@contextmanager
def opened(url: str, minutes: int) -> Iterator[tuple[perdure.Store, Clock]]:
    clock = Clock(BEGUN_US + minutes * MINUTE_US)
    with perdure.open(url, actor="me", clock=clock) as store:
        yield store, clock


def finished(url: str, bundle: str = "") -> list[str]:
    """The calls that reach the other side, and the events that come, while everything is carried to its end."""
    SENT.clear()
    with opened(url, 1440) as (store, clock):
        if bundle:
            store.import_(bundle)
        before = len(events(store))
        if bundle:
            take_over(store)
        finish(store, clock)
        return [*(f"sent {each}" for each in SENT), *added(store, before)]


def main() -> None:
    command, url, *more = sys.argv[1:]
    if command == "furnish":
        World.making = True
        with opened(url, 0) as (store, _):
            furnish(store)
    elif command == "die":
        with opened(url, 10 + [*KILLED].index(more[0])) as (store, _):
            die(store, more[0])
    elif command == "export":
        with opened(url, 20) as (store, _):
            store.export(more[0], everything=True)
    else:
        print(*finished(url, *more), sep="\n")  # noqa: T201 - its caller keeps the lines


if __name__ == "__main__":
    main()
