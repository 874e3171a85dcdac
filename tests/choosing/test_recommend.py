"""Choosing: every combination of answers has one recommendation, who asks for more never gets less, and reasons are true."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.choosing import recommend, rules
from perdure.choosing.questions import (
    QUESTIONS,
    Audit,
    Option,
    Owners,
    PlainAnswer,
    Questionnaire,
    Twice,
    WhenStopped,
    Writers,
)
from perdure.choosing.recommend import StoreChoice, choose
from perdure.choosing.rules import Artifacts, Cache, Runtime, Scenario, Store

BY_NAME = {question.name: question for question in QUESTIONS}
PREFERENCES = {"readable", "server"}  # what one would like, not what one needs: they may lead either way
SEEN_BY_NO_RULE = {"evolves"}  # it adds a failure that remains, and no part depends on it
NAMES = [question.name for question in QUESTIONS if question.name not in SEEN_BY_NO_RULE]
ABOVE = {question.name: dict(itertools.pairwise(question.answers)) for question in QUESTIONS}
RANKED = ("durable", "store", "artifacts", "runtime", "cache", "rung")
ANSWERS = st.builds(Questionnaire, **{question.name: st.sampled_from(question.answers) for question in QUESTIONS})

Point = tuple[Option, ...]


@pytest.fixture(scope="module")
def space() -> dict[Point, StoreChoice]:
    """Every combination of answers that a rule can tell apart, and what is chosen for it."""
    points = itertools.product(*(BY_NAME[name].answers for name in NAMES))
    return {point: choose(answers_at(point)) for point in points}


def answers_at(point: Point) -> Questionnaire:
    return Questionnaire(**dict(zip(NAMES, point, strict=True)))


def answered(said: dict[str, str]) -> Questionnaire:
    return msgspec.convert(said, Questionnaire)


def steps_up(point: Point) -> Iterator[Point]:
    """The same answers with one of them asking for a little more."""
    for at, (name, answer) in enumerate(zip(NAMES, point, strict=True)):
        above = ABOVE[name].get(answer)
        if above is not None and name not in PREFERENCES:
            yield (*point[:at], above, *point[at + 1 :])


@pytest.fixture(scope="module")
def ranks(space) -> dict[Point, list[int]]:
    return {point: ranks_of(choice) for point, choice in space.items()}


def ranks_of(choice: StoreChoice) -> list[int]:
    return [getattr(choice, part).rank for part in RANKED]


def less_for_more(ranks: dict[Point, list[int]]) -> Iterator[tuple[str, Point]]:
    """Where asking for more leads to something smaller."""
    for point, now in ranks.items():
        for further in steps_up(point):
            more = ranks[further]
            if more != now:
                yield from ((part, point) for part, new, old in zip(RANKED, more, now, strict=True) if new < old)


# -- all combinations --------------------------------------------------------------------------------------


def test_all_combinations_have_a_choice_and_each_is_met_somewhere(space) -> None:
    assert len(space) == 3**6 * 2**7
    for part, kind in (("store", Store), ("artifacts", Artifacts), ("runtime", Runtime), ("cache", Cache)):
        assert {getattr(choice, part) for choice in space.values()} == set(kind)
    assert {choice.scenario for choice in space.values()} == set(Scenario)


def test_who_asks_for_more_never_gets_less(ranks) -> None:
    assert list(less_for_more(ranks)) == []


def test_control_a_rule_that_lowers_is_caught(space, ranks) -> None:
    first = next(iter(space))  # asks for nothing
    raised = msgspec.structs.replace(space[first], store=Store.FILES)
    assert next(less_for_more({**ranks, first: ranks_of(raised)}))[1] == first


def test_the_preset_is_local_unless_a_server_is_needed(space) -> None:
    assert all((found.scenario is Scenario.LOCAL) == (found.store is not Store.POSTGRESQL) for found in space.values())


def test_several_machines_always_share_a_server(space) -> None:
    at = NAMES.index("writers")
    assert {choice.store for point, choice in space.items() if point[at] is Writers.MACHINES} == {Store.POSTGRESQL}


def test_what_must_last_is_never_kept_in_memory(space) -> None:
    for point, choice in space.items():
        if choice.store is Store.MEMORY:
            said = answers_at(point)
            assert said.twice is not Twice.HURTS
            assert said.stopped is not WhenStopped.GOES_ON
            assert said.audit is Audit.NONE


# -- cases that are known -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "store", "runtime", "scenario"),
    [
        ({}, Store.MEMORY, Runtime.FUNCTION, Scenario.LOCAL),
        ({"lasts": "session"}, Store.MEMORY, Runtime.LOOP, Scenario.LOCAL),
        ({"lasts": "session", "readable": "yes"}, Store.FILES, Runtime.LOOP, Scenario.LOCAL),
        ({"lasts": "persistent", "readable": "yes"}, Store.FILES, Runtime.LOOP, Scenario.LOCAL),
        ({"lasts": "persistent", "stopped": "goes-on", "twice": "hurts"}, Store.SQLITE, Runtime.DRIVEN, Scenario.LOCAL),
        ({"owners": "team", "stopped": "goes-on", "server": "yes"}, Store.POSTGRESQL, Runtime.WORKERS, Scenario.TEAM),
        ({"owners": "team", "lasts": "session"}, Store.SQLITE, Runtime.LOOP, Scenario.LOCAL),
        ({"owners": "tenants", "writers": "machines"}, Store.POSTGRESQL, Runtime.FLEET, Scenario.PLATFORM),
        ({"owners": "team", "audit": "proof"}, Store.POSTGRESQL, Runtime.LOOP, Scenario.COMPLIANCE),
        ({"rate": "high", "writers": "machines"}, Store.POSTGRESQL, Runtime.FLEET, Scenario.THROUGHPUT),
    ],
)
def test_known_cases(said, store, runtime, scenario) -> None:
    found = choose(answered(said))
    assert (found.store, found.runtime, found.scenario) == (store, runtime, scenario)


# -- reasons, changes, what remains -----------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(ANSWERS)
def test_reasons_are_tied_to_answers_and_decide(answers: Questionnaire) -> None:
    found = recommend.recommend(answers)
    for reason in found.reasons:
        assert reason.because
        for name, value in reason.answers.items():
            assert value == str(getattr(answers if name in BY_NAME else found.choice, name))
    for part, smallest in recommend.SMALLEST.items():
        deciding = [reason for reason in found.reasons if reason.part == part and reason.decides]
        assert bool(deciding) == (getattr(found.choice, part) != smallest)


@settings(max_examples=100, deadline=None)
@given(ANSWERS)
def test_changes_are_what_the_other_answer_gives(answers: Questionnaire) -> None:
    found = recommend.recommend(answers)
    named = {(change.question, change.answer): change.gives for change in found.changes}
    for question in QUESTIONS:
        for other in set(question.answers) - {getattr(answers, question.name)}:
            elsewhere = choose(msgspec.structs.replace(answers, **{question.name: other}))
            pairs = [(part, getattr(elsewhere, part), getattr(found.choice, part)) for part in recommend.PARTS]
            assert named.get((question.name, other), {}) == {part: str(new) for part, new, old in pairs if new != old}


@settings(max_examples=100, deadline=None)
@given(ANSWERS)
def test_something_can_always_fail(answers: Questionnaire) -> None:
    found = recommend.recommend(answers)
    assert all(risk.fails and risk.against for risk in found.remaining)
    assert found.remaining
    assert found.expect
    assert shlex.split(found.begin)


def needed(rule: rules.ChoosingRule) -> dict[str, str]:
    """Answers that make the parts that a rule looks at what it wants."""
    if "durable" in rule.when:
        return {"lasts": "persistent"}
    stores = {Store.POSTGRESQL: {"writers": "machines"}, Store.FILES: {"lasts": "persistent", "readable": "yes"}}
    return next((dict(said) for store, said in stores.items() if store in rule.when.get("store", ())[:1]), {})


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.because[:30])
def test_every_rule_decides_somewhere(rule: rules.ChoosingRule) -> None:
    """A rule that never decides anything is a sentence, not a rule."""
    said = {name: wanted[0] for name, wanted in rule.when.items() if name in BY_NAME}
    found = recommend.recommend(answered({**needed(rule), **said}))
    assert any(reason.because == rule.because and reason.decides for reason in found.reasons)


def test_every_failure_that_remains_is_met_somewhere(space) -> None:
    rare = [Questionnaire(evolves=PlainAnswer.YES), Questionnaire(twice=Twice.HARMLESS)]
    tried = [*rare, *(answers_at(point) for point in itertools.islice(space, 0, None, 97))]
    met = {risk.fails for answers in tried for risk in recommend.recommend(answers).remaining}
    assert met == {found.fails for found in rules.REMAINING}


def test_the_rung_is_the_highest_that_is_asked_for() -> None:
    found = recommend.recommend(Questionnaire(twice=Twice.HURTS, audit=Audit.HISTORY))
    assert found.choice.rung == "auditable"
    assert [str(rung) for rung in found.rungs] == ["effectful", "auditable"]
    assert recommend.recommend(Questionnaire()).rungs == [rules.Rung.PURE]


def test_questions_and_answers_belong_together() -> None:
    assert [question.name for question in QUESTIONS] == list(Questionnaire.__struct_fields__)
    assert all(len(question.means) == len(question.answers) for question in QUESTIONS)
    assert Questionnaire() == Questionnaire(**{question.name: question.answers[0] for question in QUESTIONS})


def test_artifacts_of_a_server_are_named_in_its_url() -> None:
    many = recommend.recommend(Questionnaire(writers=Writers.MACHINES, large=PlainAnswer.YES))
    near = recommend.recommend(Questionnaire(owners=Owners.TEAM, server=PlainAnswer.YES, large=PlainAnswer.YES))
    assert "artifacts=s3://" in many.begin
    assert "artifacts=file:///" in near.begin
    assert (
        "artifacts" not in recommend.recommend(Questionnaire(stopped=WhenStopped.GOES_ON, large=PlainAnswer.YES)).begin
    )
