"""Two callers of one process and one key: the one that comes between the other's dispatch and its call finds it at work (P4)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

import pytest

import perdure
from perdure.effects.effect_engine import EffectEngine
from perdure.model.crash_points import arm
from perdure.stores.in_flight import InFlight

CALLS = [perdure.Call("c1", "post_once", {"letter": "a"}), perdure.Call("c2", "post_once", {"letter": "b"})]

DISPATCHES, RESPONDS = "perdure.effects.commits.dispatch_for_call", "perdure.effects.commits.respond_and_plan_batch"


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
    monkeypatch.setattr(InFlight, "is_announced", lambda *_: False)
    (met,) = between(lambda: act(session), lambda: act(session))
    assert type(met) is perdure.InDoubt


def test_nor_is_a_call_whose_id_was_used_before(session):
    session.say("assistant", "one", calls=[CALLS[0]])
    session.result("c1", "a")
    session.say("assistant", "two", calls=[CALLS[0]])
    call = lambda: session.act(post_once, "a", call=CALLS[0])  # noqa: E731
    (met,) = between(call, call)
    assert type(met) is perdure.Conflict
    assert [each.state for each in session.effects()] == ["committed"]


def stop() -> None:
    raise KeyboardInterrupt


def test_a_caller_that_is_stopped_before_it_sends_says_so(session):
    disarm = arm("effect.dispatch.after", stop)
    with pytest.raises(KeyboardInterrupt):
        act(session)
    disarm()
    assert [each.state for each in session.effects()] == ["planned"]
    assert act(session) == "a"  # and nobody is asked


def test_control_nobody_says_it(session, monkeypatch):
    monkeypatch.setattr(EffectEngine, "_take_back_dispatch", lambda *_: ())
    disarm = arm("effect.dispatch.after", stop)
    with pytest.raises(KeyboardInterrupt):
        act(session)
    disarm()
    assert [each.state for each in session.effects()] == ["dispatched"]
    with pytest.raises(perdure.InDoubt):  # its sender announces nothing any more
        act(session)


async def cancel_inside(patch: pytest.MonkeyPatch, verb: str, acting: Coroutine[Any, Any, Any]) -> None:
    """Cancel a task while a verb of its is in the transaction: it does not hear what came of it. verb: where it is named."""
    module, _, name = verb.rpartition(".")
    real = getattr(import_module(module), name)
    task = asyncio.ensure_future(acting)

    def cancelled(*args: Any, **kwargs: Any) -> Any:
        told = threading.Event()
        task.get_loop().call_soon_threadsafe(lambda: (task.cancel(), told.set()))
        assert told.wait(30)
        return real(*args, **kwargs)

    with patch.context() as patched:
        patched.setattr(verb, cancelled)
        with pytest.raises(asyncio.CancelledError):
            await task


async def states(session: perdure.AsyncSession) -> list[str]:
    return [each.state for each in await session.effects()]


def test_a_task_that_is_cancelled_while_it_dispatches_says_that_it_was_not_sent(tmp_path, monkeypatch):
    async def acted() -> None:
        async with perdure.aopen(f"sqlite:///{tmp_path}/a.db") as store:
            session = await store.session("s")
            await cancel_inside(monkeypatch, DISPATCHES, session.act(post_once, "a", key="k"))
            assert await states(session) == ["planned"]
            assert await session.act(post_once, "a", key="k") == "a"

    asyncio.run(acted())


def test_and_so_does_one_that_begins_a_batch(tmp_path, monkeypatch):
    async def responded() -> None:
        async with perdure.aopen(f"sqlite:///{tmp_path}/a.db") as store:
            session = await store.session("s")
            await cancel_inside(monkeypatch, RESPONDS, session.respond("…", calls=CALLS, tools=[post_once], key="m"))
            assert await states(session) == ["planned", "planned"]
            answers = await session.respond("…", calls=CALLS, tools=[post_once], key="m")
            assert [each.result for each in answers] == ["a", "b"]

    asyncio.run(responded())


def test_doubt_that_was_recorded_meanwhile_is_taken_back(session, monkeypatch):
    def stop_in_doubt() -> None:
        disarm()
        with monkeypatch.context() as patched:
            patched.setattr(InFlight, "is_announced", lambda *_: False)
            with ThreadPoolExecutor(1) as other:
                assert type(other.submit(act, session).exception()) is perdure.InDoubt
        raise KeyboardInterrupt

    disarm = arm("effect.dispatch.after", stop_in_doubt)
    with pytest.raises(KeyboardInterrupt):
        act(session)
    assert [each.state for each in session.effects()] == ["planned"]


def test_a_caller_takes_back_only_what_it_dispatched_itself(tmp_path, monkeypatch):
    async def beside_another() -> None:
        async with perdure.aopen(f"sqlite:///{tmp_path}/a.db") as store:
            session = await store.session("s")
            effect = await session.begin(post_once, {"letter": "a"}, key="k")
            await effect.dispatch()  # a loop of the user's own is at it
            await cancel_inside(monkeypatch, DISPATCHES, session.act(post_once, "a", key="k"))
            assert await states(session) == ["dispatched"]
            await effect.commit("a")

    asyncio.run(beside_another())


def test_control_without_the_word_it_seems_to_be_sent_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(EffectEngine, "_take_back_dispatch", lambda *_: ())

    async def acted() -> None:
        async with perdure.aopen(f"sqlite:///{tmp_path}/a.db") as store:
            session = await store.session("s")
            await cancel_inside(monkeypatch, DISPATCHES, session.act(post_once, "a", key="k"))
            await session.say("user", "after it")
            assert await states(session) == ["dispatched"]
            assert not await store.effects(in_doubt=True)

    asyncio.run(acted())
