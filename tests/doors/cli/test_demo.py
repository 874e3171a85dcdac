"""The tour: it holds on this machine, and it would notice if it did not."""

from __future__ import annotations

import re

import pytest

import perdure
from perdure import errors
from perdure.doors.cli import demo, tour
from perdure.doors.cli.tour_agent import SESSION, text_of


def test_the_tour_holds(run, tmp_path) -> None:
    result = run("demo", "--rounds", 2, "--seed", 3, "--keep", tmp_path / "tour")
    assert result.exit_code == 0, result.output
    assert "✗" not in result.stdout
    told = [line for line in result.stdout.splitlines() if line.startswith("  life ")]
    assert told[0].startswith("  life 1: found nothing, began, was told ")
    assert told[1].startswith("  life 2: found step ")
    assert told[1].endswith(' times "saved", then killed')
    assert "A small agent books transfers into one SQLite file. We kill it with SIGKILL, 2 times," in result.stdout
    assert re.search(r"verify: \d+ events and \d+ rows are exactly what was written", result.stdout)
    found = r"verify finds it: session tour, event \d+: its text was changed after it was written"
    assert re.search(found, result.stdout)
    assert re.search(r"Everything held: 2 kills, \d+ saved steps, 0 lost, 0 twice, 1 forgery found\.", result.stdout)


def test_what_is_kept_is_clean_and_never_overwritten(run, tmp_path) -> None:
    assert run("demo", "--rounds", 1, "--keep", tmp_path).exit_code == 0
    kept = {name: f"sqlite:///{tmp_path}/{name}.db" for name in ("tour", "tour-forged")}
    assert run("show", "tour", "--store", kept["tour"]).exit_code == 0
    assert run("verify", "--store", kept["tour"]).exit_code == 0
    assert run("verify", "--store", kept["tour-forged"]).exit_code == errors.Damaged.exit_code
    before = (tmp_path / "tour.db").read_bytes()
    again = run("demo", "--rounds", 1, "--keep", tmp_path)
    assert again.exit_code == errors.Conflict.exit_code
    assert f"{tmp_path}/tour.db exists already" in again.stderr
    assert (tmp_path / "tour.db").read_bytes() == before


def test_without_keep_the_next_step_is_named(run) -> None:
    assert "Next: the ten-line example in README.md, or  perdure demo --keep" in run("demo", "--rounds", 1).stdout


@pytest.mark.parametrize("words", [("--rounds", "0"), ("--rounds", "many"), ("--seed", "x")])
def test_wrong_arguments(run, words) -> None:
    assert run("demo", *words).exit_code == 2


def test_the_seed_decides() -> None:
    def draw(seed: int) -> list[int]:
        chance = tour.Chance(seed)
        return [chance.below(100) for _ in range(20)]

    assert draw(1) == draw(1) != draw(2)
    assert all(0 <= number < 100 for number in draw(1))


# -- controls: a tour over a store that lost, doubled or tore something says so -----------------------------


@pytest.fixture
def session():
    with perdure.open("memory:") as store:
        found = store.session(SESSION)
        for step in (1, 2, 3):
            found.say("user", text_of(step), key=f"step-{step}")
        found.set("step", 3)
        yield found


def life(*steps: int, resumed_after: int = 0, first_seq: int = 2) -> tour.Round:
    facts = [{"step": step, "turn": first_seq + step - 1, "decision": None} for step in steps]
    return tour.Round(resumed_after, facts, -9)


def failed(session, *lives: tour.Round) -> list[str]:
    return [check.claim for check in tour.check_nothing_lost(session, list(lives)) if not check.held]


def test_control_nothing_wrong(session) -> None:
    assert failed(session, life(1, 2), life(3, resumed_after=2)) == []


def test_a_lost_turn_is_noticed(session) -> None:
    assert failed(session, life(1, 2, 3, 4)) == ["all 4 acknowledged turns are there"]


def test_a_lost_decision_is_noticed(session) -> None:
    lost = tour.Round(0, [{"step": 1, "turn": 2, "decision": 99}], -9)
    assert failed(session, lost) == ["all 1 acknowledged decisions are there"]


def test_a_torn_step_is_noticed(session) -> None:
    session.set("step", 2)
    assert failed(session, life(1, 2, 3)) == ["no step is half there"]


def test_a_step_back_is_noticed(session) -> None:
    assert failed(session, life(1, 2, 3), life(3, resumed_after=1)) == ["each life went on where the one before it was"]


def test_a_forgery_that_verify_misses_is_noticed() -> None:
    with perdure.open("memory:") as store:
        store.session(SESSION).say("user", "x")
        assert not tour.check_caught(store, 2).held
        assert tour.check_clean(store).held


def test_the_teller_remembers_what_did_not_hold(capsys) -> None:
    teller = demo.Teller()
    teller.check(tour.Check("this holds", held=True))
    assert teller.held
    teller.check(tour.Check("this does not", held=False, detail="because \x1b[31m"))
    teller.check(tour.Check("this holds", held=True))
    assert not teller.held
    assert "✗ this does not (because \\x1b[31m)" in capsys.readouterr().out
