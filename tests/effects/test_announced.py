"""Two callers of one process and one key: the one that comes between the other's dispatch and its call finds it at work (P4)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import perdure
from perdure.model.crash_points import arm
from perdure.stores.in_flight import Flights

CALLS = [perdure.Call("c1", "post_once", {"letter": "a"}), perdure.Call("c2", "post_once", {"letter": "b"})]


@perdure.tool
def post_once(letter: str) -> str:
    """Nobody could say what became of it."""
    return letter


def between(first: Any, second: Any) -> list[Any]:
    """Run `first`; whenever it has dispatched something, and not begun to send it, run `second` in another thread."""
    met: list[Any] = []

    def meet() -> None:
        disarm()
        with ThreadPoolExecutor(1) as other:
            met.append(other.submit(second).exception())

    disarm = arm("effect.dispatch.after", meet)
    try:
        first()
    finally:
        disarm()
    return met


@pytest.fixture(params=["sqlite", "memory"])
def session(request, tmp_path):
    with perdure.open("memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/a.db") as store:
        yield store.session("s")


def act(session: perdure.Session) -> str:
    return session.act(post_once, "a", key="k")


def test_a_call_that_is_about_to_be_sent_is_not_in_doubt(session):
    (met,) = between(lambda: act(session), lambda: act(session))
    assert type(met) is perdure.Conflict
    assert "is being sent by" in str(met)
    assert [each.state for each in session.effects()] == ["committed"]


def test_nor_are_the_calls_of_a_batch(session):
    answer = lambda: session.respond("…", calls=CALLS, tools=[post_once], key="m")  # noqa: E731
    (met,) = between(answer, answer)
    assert type(met) is perdure.Conflict
    assert [each.state for each in session.effects()] == ["committed", "committed"]


def test_control_without_the_announcement_it_is_taken_for_doubt(session, monkeypatch):
    monkeypatch.setattr(Flights, "is_announced", lambda *_: False)
    (met,) = between(lambda: act(session), lambda: act(session))
    assert type(met) is perdure.InDoubt


def test_a_caller_that_is_stopped_before_it_sends_announces_nothing_any_more(session):
    def stop() -> None:
        raise KeyboardInterrupt

    disarm = arm("effect.dispatch.after", stop)
    with pytest.raises(KeyboardInterrupt):
        act(session)
    disarm()
    with pytest.raises(perdure.InDoubt):  # its sender has left it, and nobody knows whether it was sent
        act(session)
