"""The contract of claims on tasks: one holder, fenced by a token (P7), freed by time or by death."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from perdure.errors import Conflict, Stale
from perdure_testing.openers import AsyncOpener
from perdure_testing.races import AsyncRace


class AsyncClaimsContract:
    """The duties of every store with claims."""

    async def test_a_claim_keeps_others_off(self, opener: AsyncOpener) -> None:
        async with await opener(actor="alice") as a, await opener(actor="bob") if opener.shared else a as b:
            task = await (await a.session("s")).task("t")
            await task.claim(ttl="1h")
            assert (task.status, task.claimed_by, task.token) == ("doing", "alice", 1)
            assert task.claim_expires_at == task.at + timedelta(hours=1)
            (theirs,) = await (await b.session("s")).tasks()
            for verb in (theirs.claim, theirs.done, theirs.fail, theirs.release, partial(theirs.block, "mine")):
                with pytest.raises(Conflict) as refused:
                    await verb()
                assert refused.value.facts["claimed_by"] == "alice"
                assert refused.value.facts["holder"] == task.record.holder
            assert await (await b.session("s")).ready() == []
            await task.done("finished")
            assert (await theirs.refresh()).status == "done"

    async def test_a_claim_ends_with_its_time_and_the_old_one_is_fenced_off(self, opener: AsyncOpener) -> None:
        async with await opener() as a, await opener() if opener.shared else a as b:
            session, other = await a.session("s"), await b.session("s")
            old = await (await session.task("t")).claim(ttl="10s")
            opener.clock.advance("10s")
            (task,) = await other.ready()
            assert (task.status, task.abandoned) == ("doing", True)
            new = await task.claim(ttl="10s")
            assert new.token == old.token + 1
            for verb in (
                old.done,
                old.fail,
                old.release,
                old.cancel,
                partial(old.need, 1),
                partial(old.block, "x"),
            ):
                with pytest.raises(Stale):
                    await verb()
            assert (await old.refresh()).status == "doing"
            await new.done()

    async def test_whose_claim_nobody_took_may_still_finish(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            task = await (await (await store.session("s")).task("t")).claim(ttl="10s")
            opener.clock.advance("1h")
            assert (await task.done()).status == "done"

    async def test_a_dead_claimer_frees_its_tasks(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("a memory store dies with its process")
        async with await opener() as a, await opener() as b:
            session, other = await a.session("s"), await b.session("s")
            old = await (await session.task("t")).claim()
            assert await other.ready() == []
            opener.clock.advance("1h")  # no heartbeat comes any more
            new = await other.claim_next()
            assert new is not None
            assert (new.id, new.token) == (old.id, 2)
            with pytest.raises(Stale):
                await old.done()

    async def test_closing_a_store_frees_its_tasks_at_once(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("a memory store is gone when it is closed")
        a = await opener()
        await (await (await a.session("s")).task("t")).claim()
        await a.close()
        async with await opener() as b:
            (task,) = await (await b.session("s")).ready()
            assert task.abandoned
            assert (await task.claim()).token == 2

    async def test_anybody_may_cancel(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            task = await (await session.task("t")).claim()
            (listed,) = await session.tasks()
            await listed.cancel("no longer wanted")
            with pytest.raises(Stale):
                await task.done()
            assert (await task.refresh()).note == "no longer wanted"

    async def test_of_two_claimers_one_wins(self, opener: AsyncOpener) -> None:
        async with await opener() as a, await opener() if opener.shared else a as b:
            one, other = await a.session("s"), await b.session("s")
            for _ in range(6):
                task = await one.task("t")
                (theirs,) = await other.tasks(limit=1)
                outcomes = await AsyncRace.between(task.claim, theirs.claim)
                assert len(outcomes.won) == 1
                assert type(outcomes.refused[0]) is Conflict
                assert outcomes.refused[0].facts["holder"] == outcomes.won[0].record.holder
                await outcomes.won[0].done()

    async def test_of_two_who_take_over_one_wins(self, opener: AsyncOpener) -> None:
        async with await opener() as a, await opener() if opener.shared else a as b:
            one, other = await a.session("s"), await b.session("s")
            task = await one.task("t")
            for token in range(1, 5):
                (theirs,) = await other.tasks()
                outcomes = await AsyncRace.between(partial(task.claim, "10s"), partial(theirs.claim, "10s"))
                assert [won.token for won in outcomes.won] == [token]
                opener.clock.advance("10s")

    async def test_finishing_and_taking_over_do_not_both_happen(self, opener: AsyncOpener) -> None:
        async with await opener() as a, await opener() if opener.shared else a as b:
            one, other = await a.session("s"), await b.session("s")
            for _ in range(6):
                task = await (await one.task("t")).claim(ttl="10s")
                opener.clock.advance("10s")
                (theirs,) = await other.tasks(limit=1)
                outcomes = await AsyncRace.between(task.done, theirs.claim)
                assert len(outcomes.won) == 1
                assert isinstance(outcomes.refused[0], Conflict)
                await theirs.cancel() if outcomes.won == [theirs] else None

    async def test_workers_share_out_the_plan(self, opener: AsyncOpener) -> None:
        async with await opener() as a, await opener() if opener.shared else a as b:
            one, other = await a.session("s"), await b.session("s")
            ids = {(await one.task(f"t{i}")).id for i in range(12)}
            outcomes = await AsyncRace.between(*[handle.claim_next for handle in [one, other] * 7])
            assert outcomes.refused == []
            claims = [task.id for task in outcomes if task is not None]
            assert len(claims) == 12
            assert set(claims) == ids
            for task in outcomes:
                await task.done() if task is not None else None
            assert await one.ready() == []
