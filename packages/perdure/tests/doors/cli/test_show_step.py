"""One step of a run on the command line: what it did, and what its model was given."""

from __future__ import annotations

import pytest

import perdure
from perdure import errors

HOSTILE = "\x1b[31mred"


def think(messages):
    return {"text": "hm", "usage": {"in": 3}}


@perdure.agent
def thinking(run):
    run.step(len, "abc")
    return run.model(think, [HOSTILE], pins={"model": "m1"})["text"]


@pytest.fixture
def stepped(tmp_path):
    url = f"sqlite:///{tmp_path}/steps.db"
    with perdure.open(url) as store:
        store.drive(thinking, key="k")
        run = store.runs()[0]
        return url, run.id, [step.seq for step in run.steps()]


def test_a_step_as_json(ask, stepped) -> None:
    url, name, (plain, model) = stepped
    found = ask("show", name, "--step", model, "--store", url)
    assert (found["step"]["name"], found["step"]["notes"]["model"]) == ("think", {"model": "m1"})
    assert found["input"] == {"args": [[HOSTILE]], "kwargs": {}}
    assert ask("show", name, "--step", plain, "--store", url)["input"] is None


def test_a_step_for_people(run, stepped) -> None:
    url, name, (_, model) = stepped
    said = run("show", name, "--step", model, "--store", url).output
    for word in ("think", "0//2", "m1", "red", "hm"):
        assert word in said
    assert "\x1b" not in said


def test_what_is_no_step_is_not_found(run, stepped) -> None:
    url, name, _ = stepped
    assert run("show", name, "--step", 1, "--store", url).exit_code == errors.NotFound.exit_code
    with perdure.open(url) as store:
        store.session("s")
    assert run("show", "s", "--step", 1, "--store", url).exit_code == 2
