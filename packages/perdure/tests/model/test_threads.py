"""A system that gives out no more threads: nobody hangs, nothing that was committed is called a failure, and it mends itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

import perdure


@pytest.fixture
def exhausted(monkeypatch) -> Callable[[str], None]:
    """A function after which no thread of this name can be started; with no name, all can again."""
    real, none = threading.Thread.start, ""

    def start(thread: threading.Thread) -> None:
        if none and thread.name.startswith(none):
            raise RuntimeError("can't start new thread")
        real(thread)

    def set_name(name: str) -> None:
        nonlocal none
        none = name

    monkeypatch.setattr(threading.Thread, "start", start)
    return set_name


def test_async_callers_are_told_and_the_lane_is_free_for_others(tmp_path, exhausted):
    with perdure.open(f"sqlite:///{tmp_path}/a.db", timeout=5) as store:

        async def say(text: str) -> None:
            await store.aio.atomic(lambda tx: tx.session("s").say("user", text) and None)

        exhausted("perdure-lane")
        with pytest.raises(perdure.Unavailable, match="no thread"):
            asyncio.run(say("lost"))
        store.session("s").say("user", "sync")
        exhausted("")
        asyncio.run(say("async"))
        assert [turn.content for turn in store.session("s").turns()] == ["sync", "async"]


def test_a_turn_is_said_without_a_heartbeat_and_the_next_claim_begins_one(tmp_path, exhausted):
    url = f"sqlite:///{tmp_path}/a.db"
    with perdure.open(url) as store:
        session = store.session("s")
        exhausted("perdure-heartbeat")
        session.say("user", "hello")
        exhausted("")
        session.task("write it").claim()
        assert [thread for thread in threading.enumerate() if thread.name == "perdure-heartbeat"]
    with perdure.open(url) as store:
        assert [turn.content for turn in store.session("s").turns()] == ["hello"]


def test_a_store_without_a_heartbeat_is_closed(tmp_path, exhausted):
    store = perdure.open(f"sqlite:///{tmp_path}/a.db")
    exhausted("perdure-heartbeat")
    store.session("s").say("user", "hello")
    store.close()
    with pytest.raises(perdure.Refused, match="closed"):
        store.session("s")
