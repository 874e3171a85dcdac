"""The forecast of a fork says what is kept and what would be done anew, and the fork then does just that."""

from __future__ import annotations

from typing import Any

import pytest

import perdure


@perdure.tool(name="mail", kind="idempotent")
def mail(text: str) -> str:
    return text


@perdure.agent(name="forecasted")
def forecasted(run: perdure.Run) -> Any:
    run.step(len, "abc")
    run.act(mail, "first")
    run.step(len, "abcd")
    run.act(mail, "second")
    return run.ask("Go on?", choices=["yes", "no"])


@pytest.fixture
def handle(tmp_path) -> Any:
    with perdure.open(f"sqlite:///{tmp_path}/a.db", actor="alice") as store:
        with pytest.raises(perdure.Waiting):
            store.drive(forecasted, key="f")
        yield store.run(agent="forecasted", key="f")


def fates(found: Any) -> list[tuple[str, str]]:
    return [(each.name, each.then) for each in found.again]


def test_effects_after_the_place_are_held_for_approval(handle: Any) -> None:
    first = next(iter(handle.effects()))
    found = handle.forecast(first.record.seq)
    assert found.kept == 2  # the step before it, and the effect itself
    assert fates(found) == [("len", "runs again"), ("mail", "held for approval"), ("Go on?", "asked again")]
    assert found.by_fate == {"runs again": 1, "held for approval": 1, "asked again": 1}


def test_a_fork_that_may_act_does_them_a_second_time(handle: Any) -> None:
    first = next(iter(handle.effects()))
    assert ("mail", "done a second time") in fates(handle.forecast(first.record.seq, allow_effects=True))


def test_the_fork_asks_for_what_was_forecast(handle: Any, tmp_path) -> None:
    first = next(iter(handle.effects()))
    forked = handle.fork(first.record.seq, "another")
    with perdure.open(f"sqlite:///{tmp_path}/a.db", actor="alice") as store:
        store.recover([forecasted])
        asked = [each for each in store.asks() if each.stream == forked.id]
    assert [each.kind.value for each in asked] == ["approval"]
    assert asked[0].detail["args"] == {"text": "second"}


def test_a_place_that_is_not_there_is_named(handle: Any) -> None:
    with pytest.raises(perdure.NotFound, match="no step, effect or answer"):
        handle.forecast(999)
    with pytest.raises(perdure.Conflict, match="no result yet"):
        handle.forecast(next(iter(handle.waits())).seq)
