"""bench: the door alone; what is measured has tests of its own."""

from __future__ import annotations

import json

import pytest

from perdure import errors
from perdure_evaluate.bench import run as benches
from perdure_evaluate.bench.case import Benchmark, at_most


@pytest.fixture
def cases(monkeypatch):
    made = {
        "good": Benchmark("good", "always met", lambda context: [at_most("work", context.scale, 10, "s", "detail")]),
        "bad": Benchmark("bad", "never met", lambda _: [at_most("work", 11, 10, "s")]),
        "pg": Benchmark("pg", "needs PostgreSQL", lambda _: [], needs_postgres=True),
    }
    monkeypatch.setattr(benches, "CASES", made)
    monkeypatch.setattr(benches, "_own_postgres", lambda *_: None)


@pytest.mark.usefixtures("cases")
def test_figures_beside_their_targets(run) -> None:
    result = run("bench", "--case", "good", "--quick", "--check")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].split() == ["good", "work", "0.05", "s", "≤", "10", "yes", "detail"]
    assert result.stderr == "good: done\n"


@pytest.mark.usefixtures("cases")
def test_without_check_a_figure_is_a_figure(run) -> None:
    result = run("bench", "--case", "bad", "--quick")
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["case", "measure", "value", "detail"],
        ["bad", "work", "11", "s"],
    ]


@pytest.mark.usefixtures("cases")
def test_a_missed_target_is_exit_1(run) -> None:
    result = run("bench", "--case", "good", "--case", "bad", "--json", "--check")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert [(figure["case"], figure["met"]) for figure in found["figures"]] == [
        ("good", True),
        ("bad", False),
    ]
    assert found["met"] is False


@pytest.mark.usefixtures("cases")
def test_what_cannot_be_measured_is_said(run) -> None:
    found = json.loads(run("bench", "--case", "pg", "--json").stdout)
    assert "no PostgreSQL" in found["skipped"]["pg"]


@pytest.mark.usefixtures("cases")
def test_an_unknown_case_and_the_list(run) -> None:
    assert run("bench", "--case", "zzz").exit_code == errors.Invalid.exit_code
    assert json.loads(run("bench", "--case", "list", "--json").stdout)["good"] == "always met"
    assert "never met" in run("bench", "--case", "list").stdout


@pytest.mark.parametrize("words", [("--scale", "0"), ("--folder", "no-such-folder")])
def test_wrong_arguments(run, words) -> None:
    assert run("bench", *words).exit_code == 2


@pytest.mark.parametrize("option", ["--peers", "--install-peers"])
def test_the_speed_of_others_is_no_longer_measured_and_says_what_is(run, option: str) -> None:
    result = run("bench", option)
    assert result.exit_code == errors.Invalid.exit_code
    assert "perdure evaluate --install-peers" in result.stderr
    assert option not in run("bench", "--help").stdout
