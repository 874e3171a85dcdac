"""The contract of handles themselves: what they show of themselves, and what cannot be set on them."""

from __future__ import annotations

import pytest

from perdure.stores.url import without_password
from perdure_testing.contract.aio.feed import emit_some
from perdure_testing.openers import AsyncOpener


class AsyncHandlesContract:
    """The look of handles in a debugger or a log."""

    async def test_a_handle_says_what_it_is(self, opener: AsyncOpener) -> None:
        async with await opener(actor="ann") as store:
            session = await store.session("issue-42")
            turn = await session.say("user", "hi")
            kind, store_kind = type(session).__name__, type(store).__name__
            assert repr(store) == f"{store_kind}({without_password(opener.url)!r}, actor='ann')"
            assert repr(session) == f"{kind}('issue-42')"
            assert repr(await session.at(turn.seq)) == f"{kind}('issue-42', at={turn.seq})"
            assert repr(await session.fork(name="f")) == f"{kind}('f')"
            await emit_some(store, 1)
            batch = await (await store.subscribe("reader")).next()
            assert len(batch) > 1
            assert repr(batch) == f"{type(batch).__name__}({len(batch)} events)"

    async def test_records_of_sessions_are_one_line(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a", title="A\ntitle" * 100)
            (header,) = await store.sessions()
            for record in (header, await session.info()):
                line = repr(record)
                assert line.startswith(f"{type(record).__name__}('a', 'A\\ntitle")
                assert "active, 1 event, last 20" in line
                assert "\n" not in line
                assert len(line) < 200

    async def test_what_does_not_exist_cannot_be_set(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            task = await session.task("t")
            decision = await session.decide("d", because="b")
            artifact = await session.attach("f", b"x")
            lock, batch = session.lock("l"), await (await store.subscribe("r")).next()
            for handle in (store, session, await store.scope("s"), task, decision, artifact, lock, batch):
                with pytest.raises(AttributeError):
                    setattr(handle, "gaol", "x")  # noqa: B010 - a checker would see it
                assert not hasattr(handle, "__dict__")

    # async-only
    async def test_the_goal_is_not_set_by_assignment(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            with pytest.raises(AttributeError, match=r"await session\.set_goal"):
                session.goal = "x"  # type: ignore[assignment] - wrong on purpose
            with pytest.raises(AttributeError, match=r"await session\.get_goal"):
                _ = session.goal
            with pytest.raises(AttributeError, match=r"await session\.get_status"):
                _ = session.status
            assert await session.get_goal() is None

    # end
