"""The life that is swept: agents with every kind of effect against a witness, and the person who answers them.

`live` is a whole story in one process: it starts or goes on with every run of a case, answers, signals, settles, cancels and
retries as a person would, and ends when all of them are over. It may be killed anywhere and called again. What must have arrived
at the witness afterwards is in `expected`: no more, no less.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from typing import Any, ClassVar

import perdure
from perdure.model.crash_points import reach
from perdure_testing import witness

LANDS_WITHIN = 0.05
PAUSE_SECONDS = 0.005
CASE_CHARS = 6  # of the name of a case: the mark of its chapter follows
ROUNDS_MAX = 60
BATCH = ("pay", "push", "mail", "refuse")


class World:
    """The other side, as this process reaches it. slow: how long things take to land, in seconds, by tool. told: the chapter and
    the tool of each thing that arrived, in order: the n-th is at the n-th `tool.told`.
    """

    port = 0
    told: ClassVar[list[tuple[str, str]]] = []
    slow: ClassVar[dict[str, float]] = {}
    store: Any = None


def tell(what: str, tool: str, key: str | None = None) -> int:
    arrived = witness.tell(World.port, what, key=key, lands=World.slow.get(tool, 0.0), sent=lambda: reach("tool.sent"))
    World.told.append((what[CASE_CHARS:].partition("/")[0], tool))
    reach("tool.told")
    return arrived


def first_time(what: str) -> bool:
    """Whether this is the first time that something is tried, over all processes."""
    return witness.tell(World.port, f"{what}/knock") == 1


def found(what: str) -> perdure.Happened | perdure.Absent:
    return perdure.Happened(what) if witness.count(World.port, what) else perdure.Absent()


# -- tools ------------------------------------------------------------------------------------------------------


@perdure.tool(kind="read")
def look(case: str) -> list[str]:
    return [case, "seen"]


@perdure.tool(kind="idempotent", retries=3, backoff=0.001)
def label(what: str) -> str:
    """Arrives, and breaks the first time: doubt, and once more."""
    tell(what, "label")
    if first_time(what):
        raise OSError("the answer was lost")
    return what


@perdure.tool(kind="keyed", retries=3)
def pay(what: str, *, key: str) -> str:
    tell(what, "pay", key)
    return what


def undo_push(what: str) -> None:
    tell(f"{what}/undo", "undo")


@perdure.tool(probe=found, lands_within=LANDS_WITHIN, undo=undo_push)
def push(what: str) -> str:
    tell(what, "push")
    return what


@perdure.tool(probe=found, lands_within=LANDS_WITHIN, retries=2)
def shove(what: str) -> str:
    """Breaks the first time before anything is sent: doubt, absent, and once more."""
    if first_time(what):
        raise OSError("no way there")
    tell(what, "shove")
    return what


@perdure.tool(probe=found, lands_within=2.0)
def drift(what: str) -> str:
    """May be under way for long."""
    tell(what, "drift")
    return what


@perdure.tool(undo=undo_push)
def mail(what: str) -> str:
    """Unsafe: nobody but a person knows whether it arrived."""
    tell(what, "mail")
    return what


@perdure.tool(kind="keyed", retries=2, backoff=0.001)
def ring(what: str, *, key: str) -> str:
    """Busy the first time: nothing was sent."""
    if first_time(what):
        raise perdure.Unavailable("busy")
    tell(what, "ring", key)
    return what


@perdure.tool
def refuse(what: str) -> str:
    raise perdure.Failed("no", code="No")


@perdure.tool(guards=[lambda *_: perdure.Refuse("not here")])
def forbidden(what: str) -> str:
    return tell(what, "forbidden") and what


@perdure.tool(kind="keyed")
def stumble(what: str, *, key: str) -> str:
    """Says no the first time, and yes when a person tries it again."""
    if first_time(what):
        raise perdure.Failed("not yet", code="NotYet")
    tell(what, "stumble", key)
    return what


UNDO_FAILS = 3  # times: at first, after `unpark` and after `resume`; each of them tries it again, and so does `retry`


@perdure.tool(kind="idempotent")
def undo_badly(what: str) -> None:
    if witness.tell(World.port, f"{what}/knock") <= UNDO_FAILS:
        raise perdure.Failed("cannot be undone now", code="Stuck")
    tell(f"{what}/undo", "undo")


@perdure.tool(kind="keyed", undo=undo_badly)
def lend(what: str, *, key: str) -> str:
    tell(what, "lend", key)
    return what


# -- agents -----------------------------------------------------------------------------------------------------


@perdure.agent
def journey(run: perdure.Run, case: str) -> list[str]:
    """Every kind of effect, wait and pause; a checkpoint in the middle."""
    seen = run.restored
    if seen is None:
        seen = first_half(run, case)
        run.checkpoint(seen)
    return [*seen, *second_half(run, case)]


def first_half(run: perdure.Run, case: str) -> list[str]:
    done = [*run.step(look, case), run.act(label, f"{case}/label")]
    done += [run.act(pay, f"{case}/pay"), run.act(push, f"{case}/push"), run.act(mail, f"{case}/mail")]
    done += [run.act(shove, f"{case}/shove"), run.act(ring, f"{case}/ring")]
    done.append(run.act(pay, f"{case}/approved", approve="Pay that, too?"))
    return [*done, undone(run, case), unwanted(run, case)]


def undone(run: perdure.Run, case: str) -> str:
    """A saga that does not come to its end."""
    try:
        with run.saga():
            run.act(push, f"{case}/booked")
            run.act(mail, f"{case}/invited")
            run.act(refuse, f"{case}/refused")
    except perdure.Failed as no:
        return no.code
    return ""


def unwanted(run: perdure.Run, case: str) -> str:
    try:
        run.act(forbidden, f"{case}/forbidden")
    except perdure.Failed as no:
        return no.code
    return ""


def second_half(run: perdure.Run, case: str) -> list[str]:
    done = [run.ask("Go on?", choices=["yes", "no"]), run.ask("Anything?", timeout=0.01, default="nothing")]
    run.sleep(0.005)
    done += [run.wait("ci.done"), run.call(errand, case)]
    left, right = run.branch("left"), run.branch("right")
    done += [left.act(pay, f"{case}/left"), right.act(mail, f"{case}/right"), left.act(push, f"{case}/left-push")]
    run.atomic(say)
    return done


def say(tx: Any) -> None:
    tx.session("journal").say("user", "all done")


@perdure.agent
def errand(run: perdure.Run, case: str) -> str:
    run.act(push, f"{case}/errand-push")
    return run.act(mail, f"{case}/errand-mail")


@perdure.agent
def stumbler(run: perdure.Run, case: str) -> str:
    """Fails, and is tried again by a person."""
    run.act(mail, f"{case}/before-the-fall")
    return run.act(stumble, f"{case}/stumble")


@perdure.agent
def limper(run: perdure.Run, case: str) -> str:
    """Ends by a step that failed, though another branch went on after it; a person tries that step again."""
    left, right = run.branch("left"), run.branch("right")
    try:
        left.step(limp, case)
    finally:
        right.step(look, case)
    return run.act(mail, f"{case}/limped")


def limp(case: str) -> None:
    if first_time(f"{case}/limp"):
        raise OSError("not yet")


@perdure.agent
def borrower(run: perdure.Run, case: str) -> str:
    """Its undo fails: it is parked, and a person lets it go on."""
    try:
        with run.saga():
            run.act(lend, f"{case}/lent")
            run.act(refuse, f"{case}/refused")
    except perdure.Failed as no:
        return no.code
    return ""


@perdure.agent
def clerk(run: perdure.Run, case: str) -> list[Any]:
    """Carries out a model's batch: each result lands with the next dispatch."""
    reply = run.respond(think, case, tools=[pay, push, mail, look, refuse])
    return [each.error.code if each.error else each.result for each in reply.answers]


def think(case: str) -> dict[str, Any]:
    wanted = [
        *((name, {"what": f"{case}/{name}"}) for name in BATCH),
        ("look", {"case": case}),
        ("pay", {"what": f"{case}/last"}),
    ]
    return {"calls": [perdure.Call(f"c{n}", name, args) for n, (name, args) in enumerate(wanted)]}


@perdure.agent
def patient(run: perdure.Run, case: str) -> Any:
    """Waits for what never comes, until a person cancels it."""
    run.act(mail, f"{case}/waited")
    return run.ask("Ever?") if case.endswith("a") else run.wait("never")


@perdure.agent
def fickle(run: perdure.Run, case: str) -> str:
    """Is interrupted once, and cancels itself while it runs."""
    run.step(interrupt, case)
    run.step(cancel_me, run.id)
    return run.act(mail, f"{case}/never")


def interrupt(case: str) -> None:
    if first_time(f"{case}/interrupt"):
        raise KeyboardInterrupt


@perdure.tool(probe=found, lands_within=LANDS_WITHIN)
async def waft(what: str) -> str:
    """The same in the other colour."""
    tell(what, "waft")
    return what


@perdure.agent
async def flock(run: perdure.AsyncRun, case: str) -> list[str]:
    """Several at once, of every kind."""
    sent = [run.act(waft, f"{case}/waft"), run.act(pay, f"{case}/pay"), run.act(push, f"{case}/push")]
    done = await asyncio.gather(*sent, run.act(mail, f"{case}/mail"), run.step(look, case))
    return [*done[:4], await run.act(waft, f"{case}/last")]


@perdure.agent
def drifter(run: perdure.Run, case: str) -> str:
    return run.act(drift, f"{case}/drift")


def cancel_me(run: str) -> None:
    Person.store.run(run).cancel("itself")


# -- a loop that a user owns ---------------------------------------------------------------------------------------


def owned(case: str) -> list[Any]:
    """No agent: effects in a session, under keys of the user's own, for a call, and carried out by hand."""
    session = World.store.session(case)
    call = perdure.Call("c1", "pay", {"what": f"{case}/called"})
    session.say("assistant", "I pay", key="said", calls=[call])
    session.act(pay, f"{case}/called", call=call)
    done = [session.act(tool, f"{case}/{tool.name}", key=tool.name) for tool in (pay, push, mail)]
    calls = [perdure.Call(name, name, {"what": f"{case}/batch-{name}"}) for name in BATCH]
    done += [
        each.result
        for each in session.respond("So be it", calls=calls, tools=[pay, push, mail, refuse])
        if not each.error
    ]
    answers = [turn for turn in session.turns() if turn.role == "tool"]
    return [*done, by_hand(session, f"{case}/by-hand"), len(answers)]


def by_hand(session: Any, what: str) -> str:
    effect = session.begin("mail", {"what": what}, key="by-hand")
    if effect.state == "in_doubt":
        Person.settle(effect)
    if not effect.settled:
        effect.dispatch()
        tell(what, "mail")
        effect.commit(what, checkpoint={"done": what})
    return effect.result


# -- a person ----------------------------------------------------------------------------------------------------


class Unsettled(Exception):
    """A person is needed who knows more than this one: effects that may still be sent."""


class Person:
    """Whoever sits before the store. may_deny: whether to say that something did not happen, because nobody can send it now."""

    store: Any = None
    may_deny = True
    settled: ClassVar[list[str]] = []

    @classmethod
    def attend(cls, waiting: perdure.Waiting) -> None:
        """Do what a waiting run waits for."""
        run = cls.store.run(waiting.facts["run"])
        for each in run.effects(open=True):
            if each.state == "in_doubt":
                cls.settle(each)
        for wait in run.waits():
            with suppress(perdure.Conflict):  # another person was first, and the run may be over by now
                cls.answer(run, wait)

    @classmethod
    def settle(cls, effect: Any) -> None:
        """Say what the witness knows. A careful person does not deny what may still be sent."""
        verdict = found(effect.record.args["what"])
        if isinstance(verdict, perdure.Absent) and not cls.may_deny:
            raise Unsettled(effect.id)
        effect.settle(verdict, by="ada", force=True)  # a hasty one insists, though the sender lives
        cls.settled.append(effect.record.args["what"])

    @classmethod
    def answer(cls, run: Any, wait: Any) -> None:
        if wait.kind == "signal" and wait.name != "never":
            run.signal(wait.name, "green")
        elif wait.kind == "approval":
            cls.store.answer(wait.id, "approve", by="ada")
        elif wait.kind == "ask" and wait.expires_at is None and wait.choices:
            cls.store.answer(wait.id, wait.choices[0], by="ada")
        elif wait.kind in ("ask", "sleep"):
            time.sleep(PAUSE_SECONDS)


def carried(agent: Any, case: str) -> Any:
    """Drive a run to its end, whatever a person must do for it."""
    for _ in range(ROUNDS_MAX):
        try:
            return owned(case) if agent is owned else World.store.drive(agent, case, key=case)
        except perdure.Cancelled:
            return "cancelled"
        except (perdure.Error, KeyboardInterrupt) as stopped:
            help_on(stopped, agent, case)
    raise AssertionError(f"{agent} of {case} does not come to its end")


def help_on(stopped: BaseException, agent: Any, case: str) -> None:
    """What a person does about a run that stopped. Raises what nobody expected."""
    people = Person.store
    match stopped:
        case perdure.Waiting() if agent is patient and not stopped.facts["doubts"]:
            people.run(stopped.facts["run"]).cancel("enough")
        case perdure.Waiting():
            Person.attend(stopped)
        case perdure.InDoubt():
            Person.settle(people.effect(stopped.facts["effect"]))
        case perdure.Failed() if agent in (stumbler, limper):
            people.start(agent, case, key=case).retry()
        case perdure.Parked() if stopped.facts["reason"] == "undo":
            go_on(people.start(agent, case, key=case))
        case perdure.Conflict() if "holder" in stopped.facts:
            time.sleep(PAUSE_SECONDS)
        case KeyboardInterrupt():
            pass
        case _:
            raise stopped


def go_on(run: Any) -> None:
    """Unpark it, then pin and resume it, each of which tries the undo again and parks it again; then try again what failed."""
    tried = witness.tell(World.port, f"{run.id}/decided/knock")
    if tried == 1:
        run.unpark()
    elif tried == 2:
        run.pin(run.record.program)
        run.resume()
    else:
        run.retry()


SYNC = [(journey, ""), (stumbler, "s"), (borrower, "b"), (patient, "a"), (patient, "p"), (fickle, "f"), (clerk, "c"),
        (limper, "l"), (owned, "o")]  # fmt: skip
CHAPTERS: dict[str, list[tuple[Any, str]]] = {
    "all": [*SYNC, (flock, "g")],
    "sync": SYNC,  # one thread does everything: system calls can be counted
    "journey": SYNC[:1],
    "owned": SYNC[-1:],
    "drifter": [(drifter, "d")],
    "none": [],
}


def live(url: str, case: str, *, actor: str, chapter: str, patience: float) -> list[Any]:
    """Live through the whole story, or one chapter: start it or go on with it. Returns what every run gave."""
    with perdure.open(url, actor=actor, timeout=patience) as store:
        World.store, Person.store = store, store.as_("ada")
        return [carried(agent, f"{case}{mark}") for agent, mark in CHAPTERS[chapter]]


LISTS = {
    "o": ("pay", "push", "mail", "batch-pay", "batch-push", "batch-mail", "by-hand"),
    "g": ("waft", "pay", "push", "mail", "last"),
}


def result(case: str, chapter: str) -> list[Any]:
    """What `live` returns."""
    first = [
        case,
        "seen",
        *(f"{case}/{what}" for what in ("label", "pay", "push", "mail", "shove", "ring", "approved")),
    ]
    second = ["yes", "nothing", "green", *(f"{case}/{what}" for what in ("errand-mail", "left", "right", "left-push"))]
    all_of = {mark: [f"{case}{mark}/{what}" for what in names] for mark, names in LISTS.items()}
    given = {
        "": [*first, "No", "Refused", *second], "s": f"{case}s/stumble", "b": "No", "a": "cancelled", "p": "cancelled",
        "f": "cancelled", "d": f"{case}d/drift", "l": f"{case}l/limped", "o": [*all_of["o"], 5], "g": all_of["g"],
        "c": [*(f"{case}c/{name}" for name in BATCH[:3]), "No", [f"{case}c", "seen"], f"{case}c/last"],
    }  # fmt: skip
    return [given[mark] for _, mark in CHAPTERS[chapter]]


ONCE = (
    "/pay", "/push", "/mail", "/shove", "/ring", "/approved", "/booked", "/invited", "/errand-mail", "/errand-push", "/left",
    "/right", "/left-push", "s/before-the-fall", "s/stumble", "b/lent", "a/waited", "p/waited", "d/drift",
    "o/called", "o/pay", "o/push", "o/mail", "o/by-hand", "o/batch-pay", "o/batch-push", "o/batch-mail",
    "l/limped", "c/pay", "c/push", "c/mail", "c/last", "g/waft", "g/pay", "g/push", "g/mail", "g/last",
)  # fmt: skip
AT_LEAST_ONCE = ("/label", "/booked/undo", "/invited/undo", "b/lent/undo")


def judge(case: str, chapter: str, arrived: Counter[str]) -> tuple[list[str], list[str]]:
    """What arrived twice (or never should have), and what is lost."""
    marks = tuple(f"{mark}/" for _, mark in CHAPTERS[chapter])
    once, often = ({f"{case}{what}" for what in each if what.startswith(marks)} for each in (ONCE, AT_LEAST_ONCE))
    seen = {what: times for what, times in arrived.items() if not what.endswith("/knock")}
    twice = sorted(what for what, times in seen.items() if what not in often and (what not in once or times > 1))
    return twice, sorted((once | often) - seen.keys())
