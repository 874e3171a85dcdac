"""User code, async: the same as in `user_sync`, awaited."""

from __future__ import annotations

from typing import assert_type

import perdure
from perdure import AsyncArtifact, AsyncDecision, AsyncTask, Page, Turn


async def forms() -> None:
    opened = await perdure.aopen("memory:")
    assert_type(opened, perdure.AsyncStore)
    async with await perdure.aopen("memory:") as awaited:
        assert_type(awaited, perdure.AsyncStore)


async def main() -> None:
    async with perdure.aopen("memory:", actor="me") as store:
        assert_type(store, perdure.AsyncStore)
        session = await store.session("typed", title="A title")
        assert_type(session, perdure.AsyncSession)
        turn = await session.say("user", "hello", key="m1")
        assert_type(turn, Turn)
        assert_type(turn.seq, int)
        for said in await session.turns(last=20):
            assert_type(said, Turn)
        decision = await session.decide("Use A", because="B is slow")
        await decision.close("worked")
        task = await session.task("Write the test")
        await task.claim()
        await task.done("written")
        await session.set("branch", "fix-42", expect=0)
        async with session.lock("deploy", ttl="30s") as lock:
            assert_type(lock.token, int)
        await session.set_goal("typed")
        assert_type(await session.attach("f", b"x"), AsyncArtifact)
        assert_type(await session.artifacts(), Page[AsyncArtifact])
        assert_type(decision, AsyncDecision)
        assert_type(task, AsyncTask)
        assert_type(await (await store.subscribe("s")).next(), perdure.AsyncBatch)
        await store.atomic(lambda tx: tx.session("a").say("user", "x"))
