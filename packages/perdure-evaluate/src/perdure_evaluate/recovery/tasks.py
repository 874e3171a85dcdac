"""The work: what long-running agents do, written once over the interface and deterministic by seed.

A step gets a random generator of the seed, its name and the life in which it is worked: a model that is asked again answers
something else. So a subject that forgets a step continues with another answer than the one that others have seen.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

WORDS = (
    "amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "jetty", "knoll", "ledge", "marsh",
    "north", "ocean", "prism", "quartz", "ridge",
)  # fmt: skip
REPORT_EVERY = 100  # tasks of a relay
PUBLISH_EVERY = 100  # loops of a research
FINDING_CHARS = 200


class Played(Protocol):
    """The interface as tasks call it: work takes a random generator."""

    def step(self, name: str, work: Callable[[random.Random], Any]) -> Any: ...  # noqa: D102 - see interface.Agent
    def act(self, name: str, kind: str, payload: Any) -> Any: ...  # noqa: D102
    def note(self, key: str, value: Any) -> None: ...  # noqa: D102
    def read(self, name: str, key: str) -> Any: ...  # noqa: D102
    def ask(self, name: str, question: str) -> str: ...  # noqa: D102
    def done(self, result: Any) -> None: ...  # noqa: D102


class RecoveryTask(msgspec.Struct, frozen=True):
    """A task. by_default: whether it is part of an evaluation that names none. long: too many boundaries to try them all.

    before: the program as it was until the ask `deploy` is answered; `play` is what was deployed then.
    """

    name: str
    about: str
    play: Callable[[Played], None]
    by_default: bool = True
    long: bool = False
    git: bool = False
    before: Callable[[Played], None] | None = None
    deploy: str = ""

    def version(self, inbox: Mapping[str, Any]) -> int:
        """Which version of the program a life has that knows these answers."""
        return 1 if self.before is not None and self.deploy not in inbox else 2

    def program(self, inbox: Mapping[str, Any]) -> Callable[[Played], None]:
        """The program of a life that knows these answers."""
        return self.before if self.before is not None and self.version(inbox) == 1 else self.play


# -- five dependent tasks ----------------------------------------------------------------------------------------


def _some_words(rng: random.Random, before: Any) -> Any:
    del before
    return rng.sample(WORDS, 5)


def _sorted_words(rng: random.Random, before: Any) -> Any:
    del rng
    return sorted(before)


def _reversed_words(rng: random.Random, before: Any) -> Any:
    del rng
    return [word[::-1] for word in before]


def _joined(rng: random.Random, before: Any) -> Any:
    del rng
    return "-".join(before)


def _counted(rng: random.Random, before: Any) -> Any:
    del rng
    return len(before)


RELAY = (_some_words, _sorted_words, _reversed_words, _joined, _counted)


def relay(agent: Played, count: int) -> None:
    """So many tasks, each on the result of the one before; a report now and then, and at the end."""
    value: Any = None
    total = 0
    for number in range(1, count + 1):
        work = RELAY[(number - 1) % 5]
        value = agent.step(f"work-{number}", lambda rng, work=work, before=value: work(rng, before))
        agent.note(f"task-{number}", value)
        total += value if isinstance(value, int) else 0
        if number % REPORT_EVERY == 0 or number == count:
            agent.act(f"report-{number}", "mail", {"to": "owner", "text": f"{number} tasks, {total} characters"})
    agent.done({"tasks": count, "characters": total})


# -- a support conversation --------------------------------------------------------------------------------------


def support(agent: Played) -> None:
    """Somebody wants money back: a refund, a ticket, a mail, and a person who agrees."""
    order = agent.step("understand", lambda rng: {"order": rng.randrange(10_000), "amount": rng.randrange(5, 90)})
    agent.note("order", order)
    reply = agent.step("draft", lambda rng: f"We refund {order['amount']} euros. {' '.join(rng.sample(WORDS, 3))}")
    agent.note("reply", reply)
    agreed = agent.ask("approval", f"Refund {order['amount']} euros?")
    paid = agent.act("refund", "refund", {**order, "agreed": agreed})
    agent.note("refunded", paid)
    agent.act("ticket", "ticket", {"order": order["order"], "state": "refunded", "by": paid["id"]})
    agent.act("mail", "mail", {"to": "customer", "text": reply})
    agent.note("closed", {"by": "agent"})
    agent.done({"order": order["order"], "refund": paid["id"]})


# -- a coding task -----------------------------------------------------------------------------------------------


def coding(agent: Played) -> None:
    """Two changes to a repository: written, committed, pushed; and a pull request."""
    shas: list[str] = []
    for number, path in enumerate(("auth.py", "test_auth.py"), 1):
        text = agent.step(f"write-{number}-text", lambda rng: f"NAME = {rng.choice(WORDS)!r}\nLIMIT = {rng.random()}\n")
        agent.act(f"write-{number}", "write", {"path": path, "content": text})
        shas.append(agent.act(f"commit-{number}", "commit", {"path": path, "title": f"Change {path}"})["id"])
        agent.note(f"committed-{number}", shas[-1])
    agent.act("push", "push", {"sha": shas[-1]})
    pull = agent.act("pull", "pull", {"title": "Log in on Safari", "head": shas[-1]})
    agent.note("opened", pull)
    agent.done({"pull": pull["id"], "head": shas[-1]})


# -- a research loop ---------------------------------------------------------------------------------------------


def research(agent: Played, count: int) -> None:
    """Read and note, again and again; the history grows; now and then something is published."""
    total = 0
    for number in range(1, count + 1):
        finding = agent.step(f"read-{number}", lambda rng, total=total: _finding(rng, total))
        agent.note(f"finding-{number}", finding)
        total += finding["weight"]
        if number % PUBLISH_EVERY == 0:
            agent.act(f"publish-{number}", "publish", {"findings": number, "weight": total})
    agent.done({"findings": count, "weight": total})


def _finding(rng: random.Random, total: int) -> dict[str, Any]:
    text = " ".join(rng.choice(WORDS) for _ in range(FINDING_CHARS // 6))
    return {"text": text, "weight": rng.randrange(1, 9), "after": total}


# -- a hand-over -------------------------------------------------------------------------------------------------


def handover(agent: Played) -> None:
    """One worker plans and begins; another one takes over, reads what was left, and ends it."""
    plan = agent.step("plan-made", lambda rng: {"goal": rng.choice(WORDS), "limit": rng.randrange(10, 90)})
    agent.note("plan", plan)
    opened = agent.act("opened", "ticket", {"goal": plan["goal"], "state": "begun"})
    agent.note("left", {"ticket": opened["id"], "next": "deliver"})
    taker = agent.ask("taker", "Who takes over?")
    agent.note("taken", {"by": taker})
    terms = agent.read("plan-read", "plan")
    rest = agent.read("left-read", "left")
    work = agent.step("work", lambda rng: f"{terms['goal']} within {terms['limit']}: {' '.join(rng.sample(WORDS, 2))}")
    agent.act("order", "refund", {"limit": terms["limit"], "ticket": rest["ticket"]})
    agent.act("delivered", "mail", {"to": "owner", "text": work})
    agent.done({"ticket": rest["ticket"], "limit": terms["limit"]})


# -- a deploy while a person is asked ----------------------------------------------------------------------------


class ProgramShape(NamedTuple):
    """The view of a case by one version of the program: how it finds it, and how it understands what an older one kept."""

    find: Callable[[random.Random], dict[str, Any]]
    upgrade: Callable[[dict[str, Any]], dict[str, Any]]


OLD = ProgramShape(lambda rng: {"customer": rng.randrange(10_000), "amount": rng.randrange(5, 90)}, lambda case: case)
NEW = ProgramShape(lambda rng: OLD.find(rng) | {"currency": "USD"}, lambda case: {"currency": "EUR", **case})


def deploy(agent: Played, shape: ProgramShape) -> None:
    """A case is kept, a person is asked; before the answer a version is deployed that keeps cases with a currency."""
    agent.note("case", agent.step("find", shape.find))
    draft = agent.step("draft", lambda rng: " ".join(rng.sample(WORDS, 3)))
    agent.note("reply", draft)
    agreed = agent.ask("approval", "Pay it back?")
    case = shape.upgrade(agent.read("case-read", "case"))
    agent.note("case-agreed", {**case, "agreed": agreed})
    paid = agent.act("refund", "refund", case)
    agent.act("ticket", "ticket", {"customer": case["customer"], "by": paid["id"]})
    agent.act("mail", "mail", {"to": "customer", "text": f"{draft}: {case['amount']} {case.get('currency', '')}"})
    agent.done({"case": case, "refund": paid["id"]})


TASKS = {
    task.name: task
    for task in (
        RecoveryTask("relay-5", "five tasks, each on the result of the one before", lambda agent: relay(agent, 5)),
        RecoveryTask("support", "a conversation: an answer to wait for, a refund, a ticket, a mail", support),
        RecoveryTask("coding", "file writes, commits, a push, a pull request", coding, git=True),
        RecoveryTask("handover", "one worker begins, another one takes over and ends it", handover),
        RecoveryTask(
            "deploy",
            "a person is asked; before the answer another version is deployed, with more in its state",
            lambda agent: deploy(agent, NEW),
            before=lambda agent: deploy(agent, OLD),
            deploy="approval",
        ),
        RecoveryTask("relay-500", "five hundred dependent tasks", lambda agent: relay(agent, 500), long=True),
        RecoveryTask("research-500", "500 steps with a growing history", lambda agent: research(agent, 500), long=True),
        RecoveryTask(
            "relay-50000",
            "fifty thousand dependent tasks",
            lambda agent: relay(agent, 50_000),
            by_default=False,
            long=True,
        ),
    )
}
