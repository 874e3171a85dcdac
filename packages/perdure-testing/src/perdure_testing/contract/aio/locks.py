"""The contract of locks: one holder, a token that grows, a deadline, and Stale for whoever lost it (P7)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from perdure.errors import Conflict, Invalid, Refused, Stale, TimedOut
from perdure_testing.openers import AsyncOpener
from perdure_testing.races import AsyncRace


class AsyncLocksContract:
    """The duties of every store with locks."""

    async def test_a_lock_has_one_holder(self, opener: AsyncOpener) -> None:
        async with await opener(actor="alice") as a, await opener(actor="bob") if opener.shared else a as b:
            one, other = await a.session("s"), await b.session("s")
            async with one.lock("deploy", ttl="30s") as lock:
                with pytest.raises(Conflict) as refused:
                    await other.lock("deploy").__aenter__()
                assert refused.value.path == "lock"
                assert refused.value.facts["holder"].startswith("alice@")
                assert refused.value.facts["deadline"] == lock.deadline
                async with other.lock("another") as free:
                    assert free.token == 1
            async with other.lock("deploy") as next_lock:
                assert next_lock.token == 2

    async def test_the_token_grows_for_ever(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            tokens = []
            for _ in range(3):
                async with session.lock("x") as lock:
                    tokens.append(lock.token)
            assert tokens == [1, 2, 3]

    async def test_a_lock_is_free_when_its_time_is_over(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            old = await session.lock("x", ttl="10s").__aenter__()
            opener.clock.advance("10s")
            with pytest.raises(Stale):
                await old.check()
            async with session.lock("x", ttl="10s") as new:
                assert new.token == old.token + 1
                await new.check()
                for verb in (old.check, old.renew):
                    with pytest.raises(Stale) as refused:
                        await verb()
                    assert refused.value.facts["token"] == new.token
                with pytest.raises(Stale):
                    await old.__aexit__(None, None, None)
                await new.check()

    async def test_a_deadline_that_passed_inside_is_told_on_leaving(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            with pytest.raises(Stale):
                async with session.lock("x", ttl="10s"):
                    opener.clock.advance("10s")
            async with session.lock("x"):
                pass

    async def test_a_lost_lock_writes_nothing(self, opener: AsyncOpener) -> None:
        async with await opener(actor="alice") as a, await opener(actor="bob") if opener.shared else a as b:
            mine, theirs = await a.session("s"), await b.session("s")
            again, scope = await a.session("s"), await a.scope("project:acme")
            task, decision = await mine.task("t"), await mine.decide("d", because="b")
            lock = await mine.lock("deploy", ttl="10s").__aenter__()
            await mine.set("version", "old")
            opener.clock.advance("10s")
            if opener.shared:
                await theirs.lock("deploy", ttl="1h").__aenter__()
                await theirs.set("version", "new")
            writes: list[Callable[[], Any]] = [
                lambda: mine.set("version", "older"),
                lambda: again.set("version", "older"),
                lambda: scope.set("version", "older"),
                lambda: mine.say("user", "x"),
                lambda: mine.emit("x"),
                lambda: mine.checkpoint({}),
                task.claim,
                lambda: decision.close("worked"),
                lambda: mine.fork(name="f"),
                lambda: a.atomic(lambda tx: tx.session("s").set("version", "older")),
            ]
            for write in writes:
                with pytest.raises(Stale) as refused:
                    await write()
                assert refused.value.path == "lock"
                assert refused.value.facts["token"] == (2 if opener.shared else 1)
            with pytest.raises(Stale):
                await lock.__aexit__(None, None, None)
            assert await mine.get("version") == ("new" if opener.shared else "old")
            assert await scope.get("version") is None
            await mine.set("after", 1)  # the block is over, and so is its fence

    async def test_an_effect_of_a_lost_lock_keeps_what_became_of_it(self, opener: AsyncOpener) -> None:
        calls: list[str] = []

        async def lose() -> str:
            opener.clock.advance("10s")
            calls.append("sent")
            return "done"

        async with await opener() as store:
            session = await store.session("s")
            await session.lock("x", ttl="10s").__aenter__()
            effect = await session.begin("by_hand", key="h")
            await effect.dispatch()
            with pytest.raises(Stale):
                await session.act(lose, key="k")
            await effect.commit("known")
            with pytest.raises(Stale):
                await session.act(lose, key="another")
            assert calls == ["sent"]  # an effect under a lost lock is not sent
            states = {e.tool: e.state.value for e in await session.effects()}
            assert states == {"by_hand": "committed", "lose": "committed"}

    async def test_an_inner_lock_is_released_when_the_outer_is_lost(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            outer = await session.lock("outer", ttl="10s").__aenter__()
            async with session.lock("inner", ttl="1h") as inner:
                opener.clock.advance("10s")
                with pytest.raises(Stale):
                    await session.set("x", 1)
                await inner.check()
            with pytest.raises(Stale):
                await outer.__aexit__(None, None, None)
            async with session.lock("inner") as inner:
                assert inner.token == 2

    async def test_an_exception_on_its_way_goes_before_stale(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")

            async def lose_it_and_fail() -> None:
                async with session.lock("x", ttl="10s"):
                    opener.clock.advance("10s")
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError) as failed:
                await lose_it_and_fail()
            assert any("no longer held" in note for note in failed.value.__notes__)
            with pytest.raises(ZeroDivisionError):
                async with session.lock("x"):
                    raise ZeroDivisionError
            async with session.lock("x"):
                pass

    async def test_renewing_moves_the_deadline(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            async with session.lock("x", ttl="10s") as lock:
                was = lock.deadline
                opener.clock.advance("9s")
                await lock.renew()
                assert lock.deadline == was + timedelta(seconds=9)
                opener.clock.advance("9s")
                await lock.check()
                await lock.renew("1h")
                opener.clock.advance("59m")
                await lock.check()

    async def test_of_two_who_acquire_one_gets_it(self, opener: AsyncOpener) -> None:
        async with await opener() as a, await opener() if opener.shared else a as b:
            one, other = await a.session("s"), await b.session("s")
            for i in range(8):
                locks = [handle.lock(f"n{i}") for handle in (one, other, one)]
                outcomes = await AsyncRace.between(*[lock.__aenter__ for lock in locks])
                assert len(outcomes.won) == 1
                assert {type(error) for error in outcomes.refused} == {Conflict}
                await outcomes.won[0].check()

    async def test_of_two_who_take_over_one_gets_it(self, opener: AsyncOpener) -> None:
        async with await opener() as a, await opener() if opener.shared else a as b:
            one, other = await a.session("s"), await b.session("s")
            for _ in range(5):
                old = await one.lock("x", ttl="10s").__aenter__()
                opener.clock.advance("10s")
                outcomes = await AsyncRace.between(
                    one.lock("x", ttl="10s").__aenter__, other.lock("x", ttl="10s").__aenter__
                )
                assert [lock.token for lock in outcomes.won] == [old.token + 1]
                opener.clock.advance("10s")

    async def test_waiting_gets_it_when_it_is_released(self, opener: AsyncOpener) -> None:
        async with await opener() as a, await opener() if opener.shared else a as b:
            one, other = await a.session("s"), await b.session("s")
            held = await one.lock("x").__aenter__()

            async def release() -> None:
                await held.__aexit__(None, None, None)

            outcomes = await AsyncRace.between(other.lock("x", wait="30s").__aenter__, release)
            assert outcomes.refused == []
            assert outcomes[0].token == 2

    async def test_waiting_ends(self, opener: AsyncOpener) -> None:
        async with await opener(actor="alice") as store:
            session = await store.session("s")
            async with session.lock("x") as lock:
                with pytest.raises(TimedOut) as late:
                    await session.lock("x", wait=0.001).__aenter__()
                assert late.value.facts["holder"].startswith("alice@")
                assert late.value.facts["deadline"] == lock.deadline

    async def test_a_lock_that_was_not_entered_says_so(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            lock = (await store.session("s")).lock("x")
            with pytest.raises(Refused):
                _ = lock.token

    @pytest.mark.parametrize(
        ("name", "options", "path"),
        [
            ("", {}, "name"),
            ("a\0", {}, "name"),
            ("x", {"ttl": "never"}, "ttl"),
            ("x", {"ttl": 0}, "ttl"),
            ("x", {"ttl": 10**12}, "ttl"),
            ("x", {"wait": "long"}, "wait"),
        ],
    )
    async def test_bad_input_is_refused_with_its_path(
        self, opener: AsyncOpener, name: str, options: dict[str, Any], path: str
    ) -> None:
        async with await opener() as store:
            session = await store.session("s")
            with pytest.raises(Invalid) as refused:
                await session.lock(name, **options).__aenter__()
            assert refused.value.path == path

    async def test_scopes_have_locks_of_their_own(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session, scope = await store.session("s"), await store.scope("s")
            async with session.lock("'; DROP TABLE locks; --"), scope.lock("'; DROP TABLE locks; --") as lock:
                await lock.check()

    async def test_nothing_waits_inside_atomic(self, opener: AsyncOpener) -> None:
        def inside(tx: Any) -> None:
            with tx.session("s").lock("x", wait="5s"):
                pass

        async with await opener() as store:
            session = await store.session("s")
            await store.atomic(inside)
            async with session.lock("x"):
                with pytest.raises(Refused) as refused:
                    await store.atomic(inside)
                assert refused.value.path == "wait"
