"""perdure advise: every combination of answers has a recommendation, an answer that asks for more never gets less, reasons are
true; and options that once were are refused with a hint."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator

import pytest

from perdure import errors
from perdure.cli.advise import PARTS, QUESTIONS, RULES, USUAL, begin, choose
from perdure.cli.init import SCENARIOS

ANSWERS = {name: tuple(answers) for name, (_, answers) in QUESTIONS.items()}
PREFERENCES = {"readable", "server"}  # what one would like, not what one needs: they may lead either way
MODEST = {name: answers[0] for name, answers in ANSWERS.items()}

Point = tuple[str, ...]


@pytest.fixture(scope="module")
def space() -> dict[Point, dict[str, str]]:
    """Every combination of answers, and what is chosen for it."""
    points = itertools.product(*ANSWERS.values())
    return {point: choose(dict(zip(ANSWERS, point, strict=True)))[0] for point in points}


def steps_up(point: Point) -> Iterator[Point]:
    """The same answers with one of them asking for a little more."""
    for at, (name, answer) in enumerate(zip(ANSWERS, point, strict=True)):
        above = dict(itertools.pairwise(ANSWERS[name])).get(answer)
        if above is not None and name not in PREFERENCES:
            yield (*point[:at], above, *point[at + 1 :])


def less_for_more(space: dict[Point, dict[str, str]]) -> Iterator[tuple[str, Point]]:
    """Where asking for more leads to something smaller."""
    for point, choice in space.items():
        for further in steps_up(point):
            for part in ("store", "artifacts"):
                if PARTS[part].index(space[further][part]) < PARTS[part].index(choice[part]):
                    yield part, point


def test_an_answer_that_asks_for_more_never_gets_less(space) -> None:
    assert len(space) == 3**6 * 2**6
    assert list(less_for_more(space)) == []
    for part in ("store", "artifacts"):
        assert {choice[part] for choice in space.values()} == set(PARTS[part])
    assert {choice["scenario"] for choice in space.values()} == set(SCENARIOS)


def test_control_a_rule_that_lowers_is_caught(space) -> None:
    first = next(iter(space))  # asks for nothing
    raised = {**space, first: {**space[first], "store": "files"}}
    assert next(less_for_more(raised)) == ("store", first)


def test_what_must_last_is_never_kept_in_memory_and_several_machines_share_a_server(space) -> None:
    for point, choice in space.items():
        answers = dict(zip(ANSWERS, point, strict=True))
        if choice["store"] == "memory":
            assert (answers["twice"] != "hurts", answers["stopped"] != "goes-on", answers["audit"]) == (
                True,
                True,
                "none",
            )
        if answers["writers"] == "machines":
            assert choice["store"] == "postgresql"
        assert (choice["scenario"] == "local") == (choice["store"] != "postgresql")
        assert shlex.split(begin(choice))


@pytest.mark.parametrize(
    ("answers", "store", "scenario"),
    [
        ({}, "memory", "local"),
        ({"lasts": "session", "readable": "yes"}, "files", "local"),
        ({"lasts": "persistent", "stopped": "goes-on", "twice": "hurts"}, "sqlite", "local"),
        ({"owners": "team", "stopped": "goes-on", "server": "yes"}, "postgresql", "team"),
        ({"owners": "tenants", "writers": "machines"}, "postgresql", "platform"),
        ({"owners": "team", "audit": "proof"}, "postgresql", "compliance"),
        ({"rate": "high", "writers": "machines"}, "postgresql", "throughput"),
    ],
)
def test_known_cases(answers, store, scenario) -> None:
    choice, _ = choose({**MODEST, **answers})
    assert (choice["store"], choice["scenario"]) == (store, scenario)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule[2][:30])
def test_every_rule_decides_somewhere(rule) -> None:
    """A rule that never decides anything is a sentence, not a rule."""
    _, _, because, when = rule
    needed = {"lasts": "persistent"} if "durable" in when else {}
    answers = {name: values.split()[0] for name, values in when.items() if name in ANSWERS}
    _, reasons = choose({**MODEST, **needed, **answers})
    [reason] = [reason for reason in reasons if reason["because"] == because]
    assert all(value in when[name].split() for name, value in reason["answers"].items())


# -- the command -------------------------------------------------------------------------------------------------


def test_what_is_not_said_is_assumed_and_named(ask) -> None:
    advice = ask("advise", "--twice", "hurts")
    assert advice["answers"] == {**USUAL, "twice": "hurts"}
    assert advice["assumed"] == [name for name in QUESTIONS if name != "twice"]
    assert advice["recommendation"]["choice"]["store"] == "sqlite"


def test_all_answers_as_options(ask) -> None:
    words = [word for name, answers in ANSWERS.items() for word in (f"--{name}", answers[-1])]
    advice = ask("advise", *words)
    assert advice["assumed"] == []
    assert advice["recommendation"]["choice"] == {
        "store": "postgresql", "artifacts": "object storage", "scenario": "compliance",
    }  # fmt: skip


def test_for_people_it_says_why_and_the_command_that_it_names_works(run) -> None:
    shown = run("advise", "--twice", "hurts").stdout
    assert "\nWhy\n" in shown
    line = next(line for line in shown.splitlines() if line.startswith("begin with"))
    assert run(*line.split()[3:]).exit_code == 0
    assert run("doctor").exit_code == 0


@pytest.mark.parametrize("words", [("--lasts", "forever"), ("--twice",), (".",)])
def test_wrong_words_are_refused(run, words) -> None:
    assert run("advise", *words).exit_code == 2


@pytest.mark.parametrize("words", [("--inventory",), ("folder", "--inventory"), ("--hot", "yes"), ("--evolves", "no")])
def test_an_option_that_once_was_is_refused_with_a_hint(run, words) -> None:
    result = run("advise", *words)
    assert result.exit_code == errors.Invalid.exit_code
    assert "docs/guide/choosing.md" in result.stderr
    assert "--inventory" not in run("advise", "--help").stdout
