"""The contract of requests: one piece of work for one key, one answer however often it is asked for; questions in a session."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import Conflict, Invalid, KeyReused
from perdure_testing.openers import AsyncOpener


def decide(tx: Any) -> dict[str, Any]:
    """Decide something, and say under which number."""
    return {"seq": tx.session("s").decide("Use A", because="B breaks").seq}


class AsyncRequestsContract:
    """Requests that come again, on every store."""

    async def test_a_request_is_carried_out_once_and_answered_alike(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            first = await session.once("k", decide, asked=["decide", "Use A"])
        async with await opener() as store:
            session = await store.session("s")
            assert await session.once("k", decide, asked=["decide", "Use A"]) == first
            assert [decision.seq for decision in await session.decisions()] == [first["seq"]]
            assert await session.once("another", decide) != first

    async def test_a_key_stands_for_one_request(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session, other = await store.session("s"), await store.session("t")
            await session.once("k", decide, asked=1)
            with pytest.raises(KeyReused) as caught:
                await session.once("k", decide, asked=2)
            assert caught.value.path == "key"
            assert caught.value.facts["stored"] != caught.value.facts["given"]
            await other.once("k", decide, asked=2)  # keys belong to a session
            assert len(await session.decisions()) == 2

    async def test_what_fails_leaves_nothing_and_may_be_tried_again(self, opener: AsyncOpener) -> None:
        def fail(tx: Any) -> None:
            decide(tx)
            raise RuntimeError("no")

        def unkept(tx: Any) -> Any:
            return tx.session("s").decide("a", because="b")

        async with await opener() as store:
            session = await store.session("s")
            with pytest.raises(RuntimeError):
                await session.once("k", fail)
            with pytest.raises(Invalid, match="answer"):
                await session.once("k", unkept)
            assert await session.decisions() == []
            assert (await session.once("k", decide))["seq"]

    async def test_an_answer_is_about_whom_the_work_is(self, opener: AsyncOpener) -> None:
        """Also where a part of the work was let go of before its end."""

        def work(tx: Any) -> dict[str, Any]:
            here = tx.session("s")
            here.say("user", "Bo calls", about=["user:bo"])
            tx.inside(lambda inside: inside.relieve())
            here.say("user", "Al calls", about=["user:al"])
            return {"said": 2}

        async with await opener() as store:
            session = await store.session("s")
            await session.once("plain", decide)
            await session.once("k", work, about=["user:cy"])
            for whom in ("user:bo", "user:al", "user:cy"):
                events = await store.events(about=whom)
                assert [event.kind for event in events if event.session.startswith("requests/")] == ["value.set"]

    async def test_an_effect_is_dispatched_once_for_a_request(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            effect = await session.begin("send", {"to": "a"}, key="e")

            def dispatch(tx: Any) -> list[Any]:
                dispatched = tx.effect(effect.id).dispatch()
                return [dispatched.state.value, dispatched.record.attempt]

            assert await session.once("d", dispatch) == await session.once("d", dispatch) == ["dispatched", 1]
            with pytest.raises(Conflict):
                await session.once("another", dispatch)

    async def test_a_question_in_a_session_is_listed_and_answered_once(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            question = await session.ask("Merge?", choices=["merge", "hold"], detail={"pr": 7})
            other = await (await store.session("other")).ask("Deploy?")
            assert [ask.id for ask in await store.asks()] == [other.id, question.id]
            assert [ask.id for ask in await store.asks(session="s", limit=1)] == [question.id]
            assert await store.asks(session="nobody's") == []
            await store.answer(other.id, "no")
            with pytest.raises(Invalid):
                await store.answer(question.id, "perhaps")
            assert (await store.answer(question.id, "merge", by="alice")).answer == "merge"
            with pytest.raises(Conflict):
                await store.answer(question.id, "hold")
            assert await store.asks() == []
