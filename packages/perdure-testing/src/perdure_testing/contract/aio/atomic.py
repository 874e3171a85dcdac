"""The contract of `atomic`: one commit or nothing, and what becomes of handles that outlive it (P1, P5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure.errors import Invalid, Refused
from perdure.handles.aio.store import AsyncStore
from perdure.handles.atomic import Atomic
from perdure.stores.store import Fault, FaultKind
from perdure_testing.openers import AsyncOpener
from perdure_testing.sample_mistakes import awaited, generated


class Kept:
    """An atomic function that keeps what it made, and fails as often as it is told to."""

    def __init__(self, *failures: BaseException) -> None:
        self.failures = list(failures)
        self.runs: list[list[Callable[[], Any]]] = []  # for each run, one call on everything that it kept
        self.tx: Atomic | None = None

    def __call__(self, tx: Atomic) -> Any:
        """Make one of each."""
        self.tx = tx
        session, scope = tx.session("a"), tx.scope("user:x")
        task, decision = session.task("t"), session.decide("d", because="b")
        artifact, lock = session.attach("f", b"content"), session.lock("l")
        self.runs.append([
            lambda: session.say("user", "late"), lambda: session.set("late", 1), lambda: session.get("x"),
            lambda: session.emit("late.emitted"), session.turns, lambda: session.attach("late", [b"x"]),
            lambda: scope.set("late", 1), task.claim, task.refresh, lambda: decision.close("late"),
            decision.refresh, artifact.read, lock.__enter__, lambda: session.fork(name="late"),
            session.close, lambda: session.checkpoint({}),
        ])  # fmt: skip
        if self.failures:
            raise self.failures.pop(0)
        return session


async def events_of(store: AsyncStore) -> list[tuple[str, int, str]]:
    """All that is recorded."""
    return [(event.session, event.seq, event.kind) for event in await store.events(limit=1000)]


def refuse_all(calls: list[Callable[[], Any]]) -> None:
    """Each call is refused, with the way out."""
    for call in calls:
        with pytest.raises(Refused) as refused:
            call()
        assert (type(refused.value), refused.value.path) == (Refused, "atomic")
        assert "through the store" in refused.value.hint


async def check_they_go_on(store: AsyncStore) -> None:
    """Each verb of what was kept is a commit of its own now. Sync stores only."""
    keeper = Kept()
    session = await store.atomic(keeper)
    again = await store.session("a")
    assert session.say("user", "x") == (await again.turns())[-1]
    for call in keeper.runs[0]:
        call()
    assert (await again.get("late"), await (await store.scope("user:x")).get("late")) == (1, 1)
    assert (await again.tasks())[0].status == "doing"
    assert (await again.decisions())[0].outcome == "late"
    with pytest.raises(Refused):
        await store.atomic(lambda _: session.say("user", "from outside"))


class AsyncAtomicContract:
    """Several verbs in one commit."""

    async def test_nothing_that_a_failed_function_kept_can_be_used(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            keeper = Kept(ZeroDivisionError())
            before = await events_of(store)
            with pytest.raises(ZeroDivisionError):
                await store.atomic(keeper)
            refuse_all(keeper.runs[0])
            assert await events_of(store) == before
            await (await store.session("b")).say("user", "the lane is whole")

    async def test_what_the_first_of_two_runs_kept_cannot_be_used(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            keeper = Kept(Fault(FaultKind.RACED, "somebody was faster"))
            await store.atomic(keeper)
            assert len(keeper.runs) == 2
            before = await events_of(store)
            refuse_all(keeper.runs[0])
            assert await events_of(store) == before

    async def test_a_transaction_that_is_over_opens_nothing(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            keeper = Kept()
            await store.atomic(keeper)
            before = await events_of(store)
            assert keeper.tx is not None
            over = keeper.tx
            refuse_all([lambda: over.session("a"), lambda: over.session("b"), lambda: over.scope("user:x")])
            assert await events_of(store) == before

    # async-only
    async def test_handles_are_refused_afterwards_because_they_would_block(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            keeper = Kept()
            session = await store.atomic(keeper)
            before = await events_of(store)
            refuse_all(keeper.runs[0])
            refuse_all([lambda: session.say("user", "x")])
            assert await events_of(store) == before

    # end
    # sync: def test_handles_go_on_by_themselves_afterwards(self, opener: Opener) -> None:
    # sync:     with opener() as store:
    # sync:         return check_they_go_on(store)

    async def test_an_async_function_is_refused_and_nothing_is_written(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            before = await events_of(store)
            for fn in (awaited, generated, 7, lambda tx: (tx.session("never"), awaited(tx))[1]):
                with pytest.raises(Invalid) as refused:
                    await store.atomic(fn)  # type: ignore[arg-type] - wrong on purpose
                assert refused.value.path == "fn"
            assert await events_of(store) == before

    async def test_update_and_fold_refuse_async_functions(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            for fn in (awaited, lambda value: awaited(value, 1)):
                with pytest.raises(Invalid) as refused:
                    await session.update("x", fn)
                assert refused.value.path == "fn"
            reducers: list[Any] = [awaited, lambda state, event: awaited(event, state)]
            for reducer, events in zip(reducers, (0, 1), strict=True):  # the first is refused before it has any
                for _ in range(events):
                    await session.emit("n.added")
                with pytest.raises(Invalid) as refused:
                    await session.fold(reducer)
                assert refused.value.path == "reducer"
            assert await session.entry("x") is None
