"""Evidence in budget: of what answers a task, boot shows more than the last turns do, and more than printing all and cutting.

A history of our own: facts that somebody wrote down or only said, far apart, between turns about other matters.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

import pytest

import perdure
from perdure.model.tokens import estimate

BUDGETS = (1_000, 4_000, 16_000)
TURNS = 1_200
RULES = ("Never push to main", "Ask before deleting data", "All money is in integer cents")


class Fact(NamedTuple):
    """Something that is known, as what, and the task for which it is needed."""

    kind: str
    text: str
    task: str


FACTS = (
    Fact("turn", "The staging database runs on port 6543 behind pgbouncer", "connect to the staging database"),
    Fact(
        "turn",
        "Customer Nakamura reported that invoices show the wrong timezone",
        "who saw invoices in the wrong timezone?",
    ),
    Fact(
        "turn",
        "The flaky test is test_lease_renewal, it fails when the clock jumps",
        "why does test_lease_renewal fail",
    ),
    Fact("turn", "We agreed on 72 hours as the expiry of idempotency keys", "how long are idempotency keys kept"),
    Fact(
        "turn", "src/gateway/retry.py swallows the ConnectionResetError", "find out where ConnectionResetError is lost"
    ),
    Fact("turn", "Grafana dashboard number 118 shows the queue depth", "which dashboard has the queue depth?"),
    Fact("turn", "The licence of the font forbids embedding it into PDF files", "may we embed the font into the PDF?"),
    Fact("turn", "用户希望登录页面支持深色模式", "登录页面的深色模式"),
    Fact("decision", "Use cursor pagination for the orders endpoint", "paginate the orders endpoint"),
    Fact("decision", "Store uploads in object storage, not in the database", "where do uploads go?"),
    Fact("decision", "Drop support for Python 3.10", "which Python versions do we support"),
    Fact("decision", "Webhooks are signed with HMAC-SHA256", "verify the signature of a webhook"),
    Fact("decision", "Feature flags are read once at start", "when are feature flags read"),
    Fact("workflow", "Tests run with make check, after docker compose up", "run the tests"),
    Fact("fact", "The release branch is cut every second Tuesday", "when is the release branch cut"),
    Fact("preference", "Alice wants commit messages in the imperative", "write a commit message for alice"),
    Fact("snippet", "psql -c 'select pg_reload_conf()' reloads the settings", "reload the settings of postgres"),
    Fact("fact", "The billing service is owned by team Heron", "who owns the billing service?"),
    Fact(
        "failed_approach",
        "Caching the session in Redis lost logins on failover",
        "make session logins faster with a cache",
    ),
    Fact(
        "failed_approach", "Raising the pool size to 200 exhausted the database", "raise the pool size of the database"
    ),
    Fact("lesson", "A migration that locks the users table must run at night", "migrate the users table"),
)
_ABOUT = (
    "layout",
    "header",
    "sidebar",
    "colour",
    "margin",
    "footer",
    "icon",
    "button",
    "tooltip",
    "banner",
    "spinner",
    "grid",
)


def chatter(rng: random.Random, number: int) -> str:
    words = " ".join(rng.choices(_ABOUT, k=12))
    return f"Step {number}: moved the {words} a little, and looked at it again in the browser"


@pytest.fixture(scope="module")
def store() -> Iterator[perdure.Store]:
    rng = random.Random(7)
    places = dict(zip(sorted(rng.sample(range(TURNS), len(FACTS))), rng.sample(FACTS, len(FACTS)), strict=True))
    with perdure.open("memory://") as opened:
        session = opened.session("s")
        for rule in RULES:
            session.remember(rule, kind="rule")
        for number in range(TURNS):
            session.say("user" if number % 2 else "assistant", chatter(rng, number))
            if (fact := places.get(number)) is not None:
                write(session, fact)
        yield opened


def write(session: perdure.Session, fact: Fact) -> None:
    if fact.kind == "turn":
        session.say("user", fact.text)
    elif fact.kind == "decision":
        session.decide(fact.text, because="we talked about it").close("worked")
    else:
        session.remember(fact.text, kind=fact.kind)


def within(texts: Iterator[str], budget: int) -> str:
    """As many of these as fit."""
    taken: list[str] = []
    for text in texts:
        budget -= estimate(f"{text}\n")
        if budget < 0:
            break
        taken.append(text)
    return "\n".join(taken)


def last_turns(session: perdure.Session, budget: int) -> str:
    return within((str(turn.content) for turn in reversed(session.turns(last=1_000))), budget)


def printed(session: perdure.Session, budget: int) -> str:
    """Everything in the order in which a dump prints it, cut where the budget ends."""

    def lines() -> Iterator[str]:
        yield from (memory.text for memory in session.memories(limit=1_000))
        yield from (f"{decision.text}: {decision.because}" for decision in session.decisions(limit=1_000))
        after = 0
        while page := session.turns(after=after, limit=500):
            yield from (str(turn.content) for turn in page)
            after = page[-1].seq

    return within(lines(), budget)


def share(texts: dict[str, str], kinds: tuple[str, ...]) -> float:
    wanted = [fact for fact in FACTS if fact.kind in kinds]
    return sum(fact.text in texts[fact.task] for fact in wanted) / len(wanted)


CLASSES = {
    "said": ("turn",),
    "decided": ("decision",),
    "remembered": ("workflow", "fact", "preference", "snippet"),
    "failed": ("failed_approach", "lesson"),
}


@pytest.mark.parametrize("budget", BUDGETS)
def test_boot_shows_more_of_the_evidence_than_the_last_turns_or_a_cut(store: perdure.Store, budget: int) -> None:
    session = store.session("s")
    packs = {fact.task: session.boot(budget=budget, task=fact.task) for fact in FACTS}
    booted = {task: pack.text for task, pack in packs.items()}
    last = dict.fromkeys(booted, last_turns(session, budget))
    cut = dict.fromkeys(booted, printed(session, budget))
    assert all(rule in text for rule in RULES for text in booted.values())
    assert all(pack.tokens <= budget for pack in packs.values())
    for name, kinds in CLASSES.items():
        mine, theirs, dumped = share(booted, kinds), share(last, kinds), share(cut, kinds)
        assert (mine > theirs, mine >= dumped, mine >= 0.85) == (True, True, True), (name, mine, theirs, dumped)
    assert share(booted, ("turn",)) > share(cut, ("turn",))


def test_control_without_the_task_what_was_only_said_is_not_shown(store: perdure.Store) -> None:
    text = store.session("s").boot(budget=1_000).text
    assert share({fact.task: text for fact in FACTS}, ("turn",)) < 0.5
