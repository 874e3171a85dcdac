"""Permission in sessions: asked with the plan, and waited for by whoever acts next under the key (P2, P15)."""

from __future__ import annotations

import pytest

import perdure
from perdure.effects import commits, ledger
from perdure.model.crash_points import arm


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/a.db"


SENT: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_sent() -> None:
    SENT.clear()


@perdure.tool(name="drop")
def drop(name: str) -> str:
    SENT.append(name)
    return name


def asked_and_called_again(url: str) -> None:
    """Somebody is asked; the same key is used again without a question."""
    with perdure.open(url) as store:
        session = store.session("a")
        with pytest.raises(perdure.Waiting):
            session.act(drop, "db", key="k", approve="Really?")
        with pytest.raises(perdure.Waiting, match="Really"):
            session.act(drop, "db", key="k")
        assert SENT == []
        store.answer(store.asks()[0].id, "approve", by="ann")
        assert session.act(drop, "db", key="k") == "db"


def test_who_was_asked_is_waited_for_whoever_calls_next(url):
    asked_and_called_again(url)
    assert SENT == ["db"]


def test_control_nobody_looks_whether_somebody_was_asked(url, monkeypatch):
    def dispatched_unasked(tx, stream, intent, dispatcher):
        return ledger.dispatch(tx, stream, intent, dispatcher.sender)

    monkeypatch.setattr(commits, "dispatch_for_call", dispatched_unasked)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        asked_and_called_again(url)


def test_a_question_lands_with_the_plan(url):
    def stopped() -> None:
        raise KeyboardInterrupt

    with perdure.open(url) as store:
        session = store.session("a")
        disarm = arm("effect.plan.after", stopped)
        with pytest.raises(KeyboardInterrupt):
            session.act(drop, "db", key="k", approve="Really?", approve_within="1h")
        disarm()
        (ask,) = store.asks()
        assert (ask.question, ask.expires_at is not None) == ("Really?", True)
        with pytest.raises(perdure.Waiting):
            session.begin(drop, {"name": "db"}, key="k").dispatch()
        store.answer(ask.id, "refuse", by="ann")
        for _ in range(2):
            with pytest.raises(perdure.Failed, match="ann did not approve"):
                session.act(drop, "db", key="k", approve="Really?")
        assert SENT == []
