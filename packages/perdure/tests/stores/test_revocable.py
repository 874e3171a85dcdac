"""A lock, a task, a dispatch or a batch that a caller took without hearing of it, being stopped, is given back (P13, P15)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

import pytest

import perdure
from perdure.errors import Conflict
from perdure.stores.revocable import RevocableVerb

LOCKS, CLAIMS, CLAIMS_NEXT, DISPATCHES, DELIVERS = (
    "perdure.planes.recovery.locks.acquire",
    "perdure.planes.execution.tasks.claim",
    "perdure.planes.execution.tasks.claim_next",
    "perdure.effects.commits.dispatch_by_user",
    "perdure.planes.audit.subscriptions.take",
)


async def lock(session: perdure.AsyncSession) -> None:
    async with session.lock("deploy", ttl="1h"):
        pass


async def claim(session: perdure.AsyncSession) -> None:
    await (await session.task("write it", key="t")).claim()


async def claim_next(session: perdure.AsyncSession) -> None:
    await session.task("write it", key="t")
    assert await session.claim_next() is not None


async def dispatch(session: perdure.AsyncSession) -> None:
    await (await session.begin("send_mail", key="k")).dispatch()


async def next_batch(session: perdure.AsyncSession) -> None:
    await session.emit("mail.came")
    subscription = await perdure.AsyncStore(session._caller, owner=False).subscribe("reader", kinds=["mail.*"])
    assert await subscription.next(lease="1h")


WAYS = pytest.mark.parametrize(
    ("verb", "take"),
    [(LOCKS, lock), (CLAIMS, claim), (CLAIMS_NEXT, claim_next), (DISPATCHES, dispatch), (DELIVERS, next_batch)],
)
Take = Callable[[perdure.AsyncSession], Awaitable[None]]


async def cancel_inside(patch: pytest.MonkeyPatch, verb: str, taking: Awaitable[None]) -> None:
    """Cancel a task while a verb of its is in the transaction: it does not hear what came of it. verb: where it is named."""
    module, _, name = verb.rpartition(".")
    real = getattr(import_module(module), name)
    task = asyncio.ensure_future(taking)

    def cancelled(*args: Any, **kwargs: Any) -> Any:
        told = threading.Event()
        task.get_loop().call_soon_threadsafe(lambda: (task.cancel(), told.set()))
        assert told.wait(30)
        return real(*args, **kwargs)

    with patch.context() as patched:
        patched.setattr(verb, cancelled)
        with pytest.raises(asyncio.CancelledError):
            await task


async def cancelled_and_again(url: str, patch: pytest.MonkeyPatch, verb: str, take: Take) -> None:
    async with perdure.aopen(url) as store:
        session = await store.session("s")
        await cancel_inside(patch, verb, take(session))
        await take(session)


@WAYS
def test_a_task_that_is_cancelled_while_it_takes_something_gives_it_back(
    tmp_path, monkeypatch, verb: str, take: Take
) -> None:
    asyncio.run(cancelled_and_again(f"sqlite:///{tmp_path}/a.db", monkeypatch, verb, take))


@WAYS
def test_control_without_that_nobody_can_have_it(tmp_path, monkeypatch, verb: str, take: Take) -> None:
    monkeypatch.setattr(RevocableVerb, "take_back", lambda *_: None)
    monkeypatch.setattr("perdure.effects.commits.take_back_dispatch", lambda *_: None)
    with pytest.raises((perdure.Conflict, AssertionError)):
        asyncio.run(cancelled_and_again(f"sqlite:///{tmp_path}/a.db", monkeypatch, verb, take))


def test_a_claim_or_lock_of_another_call_stays() -> None:
    async def beside_another() -> None:
        async with perdure.aopen("memory:") as store:
            session = await store.session("s")
            task = await session.task("write it", key="t")
            await task.claim()
            with pytest.raises(perdure.Conflict):
                await (await session.task("write it", key="t")).claim()
            async with session.lock("deploy"):
                with pytest.raises(perdure.Conflict):
                    await session.lock("deploy").__aenter__()
            await task.done()

    asyncio.run(beside_another())


def test_what_a_lost_race_rolled_back_is_not_taken_back():
    """The verb made something, was run again, and was refused: there is nothing to undo any more."""
    undone: list[str] = []
    outcomes = iter(["made", Conflict("another one has it")])

    def verb(_tx: Any, _stream: Any) -> str:
        found = next(outcomes)
        if isinstance(found, Exception):
            raise found
        return found

    tx: Any = None
    taking = RevocableVerb(verb, lambda _tx, _stream, made: undone.append(made))
    assert taking(tx, tx) == "made"
    with pytest.raises(Conflict):
        taking(tx, tx)
    taking.take_back(tx, tx)
    assert undone == []
