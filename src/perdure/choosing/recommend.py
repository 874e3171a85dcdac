"""From answers to a recommendation: pure, total, and no answer that asks for more ever gets less.

Called by `perdure advise`. Every question is given its other answers in turn, to compute what would change the recommendation.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import msgspec

from perdure.choosing import rules
from perdure.choosing.questions import QUESTIONS, Option, PlainAnswer, Questionnaire
from perdure.choosing.rules import Artifacts, Cache, ChoosingRule, Rung, Runtime, Scenario, Store, When

SMALLEST: dict[str, Option] = {
    "durable": PlainAnswer.NO, "store": Store.MEMORY, "artifacts": Artifacts.STORE,
    "runtime": Runtime.FUNCTION, "cache": Cache.NONE,
}  # fmt: skip
PARTS = ("durable", "store", "artifacts", "runtime", "cache", "scenario", "rung")
URLS = {
    Store.MEMORY: "memory:",
    Store.FILES: "files:///state",
    Store.SQLITE: "sqlite:///agent.db",
    Store.POSTGRESQL: "postgresql://USER@HOST/DATABASE",
}

PLACE_URLS = {Artifacts.FOLDER: "file:///srv/artifacts", Artifacts.OBJECTS: "s3://BUCKET/PREFIX"}


class Reason(msgspec.Struct, frozen=True):
    """Why a part is not smaller: the answers that ask for it. `decides` if nothing less would do because of it."""

    part: str
    wants: str
    answers: dict[str, str]
    because: str
    decides: bool


class Alternative(msgspec.Struct, frozen=True):
    """The effect of another answer to one question on the recommendation: part -> what it would be."""

    question: str
    answer: str
    gives: dict[str, str]


class Risk(msgspec.Struct, frozen=True):
    """A failure that the recommendation does not take away, and what to do about it."""

    fails: str
    against: str


class StoreChoice(msgspec.Struct, frozen=True):
    """The recommendation."""

    durable: PlainAnswer
    store: Store
    artifacts: Artifacts
    runtime: Runtime
    cache: Cache
    scenario: Scenario
    rung: Rung


class Recommendation(msgspec.Struct, frozen=True):
    """A choice with its reasons, what would change it, and what can still fail."""

    choice: StoreChoice
    reasons: list[Reason]
    rungs: list[Rung]
    changes: list[Alternative]
    remaining: list[Risk]
    expect: str
    begin: str


Facts = dict[str, str]


def recommend(answers: Questionnaire) -> Recommendation:
    """The recommendation for these answers. Total: every combination has one; contradictory answers get the larger of both."""
    choice, held = _choose(answers)
    facts = {**msgspec.structs.asdict(answers), **msgspec.structs.asdict(choice)}
    return Recommendation(
        choice=choice,
        reasons=[_reason(rule, facts) for rule in held],
        rungs=_rungs(facts),
        changes=list(_changes(answers, choice)),
        remaining=[Risk(found.fails, found.against) for found in rules.REMAINING if holds(found.when, facts)],
        expect=rules.EXPECT[choice.store],
        begin=_begin(choice),
    )


def choose(answers: Questionnaire) -> StoreChoice:
    """The choice alone."""
    return _choose(answers)[0]


def holds(when: When, facts: Facts) -> bool:
    """Whether every condition is met. A loop, not `all`: every combination of answers is tried by the tests."""
    for name, wanted in when.items():  # noqa: SIM110 - as said
        if facts[name] not in wanted:
            return False
    return True


def _choose(answers: Questionnaire) -> tuple[StoreChoice, list[ChoosingRule]]:
    parts, held = dict(SMALLEST), []
    facts: Facts = {**msgspec.structs.asdict(answers), **parts}
    for rule in rules.RULES:
        if holds(rule.when, facts):
            held.append(rule)
            facts[rule.part] = parts[rule.part] = max(parts[rule.part], rule.at_least, key=lambda found: found.rank)
    scenario = next(found for found, when in rules.SCENARIOS if holds(when, facts))
    return StoreChoice(**parts, scenario=scenario, rung=max(_rungs(facts), key=lambda found: found.rank)), held  # type: ignore[arg-type]


def _rungs(facts: Facts) -> list[Rung]:
    found = [rung for rung, when in rules.RUNGS if holds(when, facts)]
    return [rung for rung in Rung if rung in found] or [Rung.PURE]


def _reason(rule: ChoosingRule, facts: Facts) -> Reason:
    answers = {name: str(facts[name]) for name in rule.when}
    return Reason(rule.part, rule.at_least, answers, rule.because, decides=facts[rule.part] == rule.at_least)


def _changes(answers: Questionnaire, choice: StoreChoice) -> Iterator[Alternative]:
    """Every other answer to one question that leads elsewhere, the others kept."""
    for question in QUESTIONS:
        for other in question.answers:
            if other == getattr(answers, question.name):
                continue
            found = choose(msgspec.structs.replace(answers, **{question.name: other}))
            gives = {part: str(getattr(found, part)) for part in PARTS if getattr(found, part) != getattr(choice, part)}
            if gives:
                yield Alternative(question.name, other, gives)


def _begin(choice: StoreChoice) -> str:
    """The command that makes it so. On SQLite and files large artifacts lie beside the store by themselves."""
    if choice.store is Store.MEMORY:
        return 'perdure.open("memory:")'
    place = PLACE_URLS.get(choice.artifacts, "")
    beside = choice.artifacts is Artifacts.FOLDER and choice.store is not Store.POSTGRESQL
    url = URLS[choice.store] + (f"?artifacts={place}" if place and not beside else "")
    return f"perdure init --scenario {choice.scenario} --store {shlex.quote(url)}"
