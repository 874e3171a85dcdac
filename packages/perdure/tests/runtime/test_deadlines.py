"""A deadline of the program's own around a verb: it sees the same at every replay, and no effect is forgotten (P4, P13)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import perdure
from perdure.runtime.journal import Journal
from perdure.runtime.run_engine import RunEngine


class Slow:
    """What is too slow the first time, and quick from then on; the deadline around it passes while it is called."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.deadline: asyncio.Timeout | None = None
        self.sister: asyncio.Event | None = None

    async def look(self) -> str:
        self.seen.append("slow")
        if self.seen.count("slow") == 1:
            if self.sister is not None:
                self.sister.set()
            if self.deadline is not None:
                self.deadline.reschedule(asyncio.get_running_loop().time())
            await asyncio.Event().wait()
        return "done"

    async def fail(self) -> None:
        assert self.sister is not None
        await self.sister.wait()
        raise ValueError("no")

    async def within(self, verb: Any) -> str:
        """What a verb gives, within a time of the program's own, which at a replay is a short one."""
        try:
            async with asyncio.timeout(60 if not self.seen else 0.01) as self.deadline:
                return await verb
        except TimeoutError:
            return "too slow"


async def beside(run: perdure.AsyncRun, slow: Slow, verb: Any) -> str:
    """What a verb gives beside a sister that fails, which stops it."""
    slow.sister, found = asyncio.Event(), ""
    try:
        async with asyncio.TaskGroup() as group:
            doing = group.create_task(verb)
            group.create_task(run.step(slow.fail))
        found = doing.result()
    except* perdure.Failed:
        found = "stopped"
    return found


WAYS: dict[str, Callable[[perdure.AsyncRun, Slow, Any], Any]] = {
    "in place": lambda _run, slow, verb: slow.within(verb),
    "in a task": lambda _run, slow, verb: slow.within(asyncio.create_task(verb)),
    "by wait_for": lambda _run, slow, verb: slow.within(asyncio.wait_for(verb, 60)),
    "in a group": beside,
}
IN_PLACE = ("in place", "by wait_for")  # in the branch of its caller, whether or not this Python makes a task of it


def hasty(slow: Slow, doing: str, way: str, kind: str = "idempotent") -> Any:
    """An agent that gives up on a verb, and goes on."""
    slowly = perdure.tool(kind=kind, name="slowly")(slow.look)  # type: ignore[call-overload]

    @perdure.agent(name="hasty")
    async def agent(run: perdure.AsyncRun, *, asks: bool) -> list[Any]:
        verb = run.act(slowly) if doing == "act" else getattr(run, doing)(slow.look)
        found = await WAYS[way](run, slow, verb)
        told = await run.step(str.upper, found)
        return [found, told, await run.ask("?") if asks else None]

    return agent


async def driven(store: perdure.AsyncStore, agent: Any, *, asks: bool) -> Any:
    try:
        return await store.drive(agent, key="k", asks=asks)
    except perdure.Error as error:
        return error


def told(url: str, slow: Slow, doing: str, way: str) -> Any:
    """What a program gives that gave up on a verb, and was driven three times after that."""

    async def story() -> Any:
        agent = hasty(slow, doing, way)
        async with await perdure.aopen(url) as store:
            for _ in range(3):
                ended = await driven(store, agent, asks=True)
                await (await store.runs())[0].resume()
            assert isinstance(ended, perdure.Waiting), ended
            await store.answer((await store.asks())[0].id, "yes")
            ended = await driven(store, agent, asks=True)
            assert (await store.verify()).ok
            return ended

    return asyncio.run(story())


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/a.db"


@pytest.mark.parametrize(("doing", "way"), [(doing, way) for doing in ("step", "model") for way in WAYS])
def test_what_a_program_gave_up_on_stays_so_at_every_replay_and_is_not_called_again(url, doing, way):
    slow = Slow()
    found = "stopped" if way == "in a group" else "too slow"
    assert told(url, slow, doing, way) == [found, found.upper(), "yes"]
    assert slow.seen == ["slow"]


@pytest.mark.parametrize("way", [way for way in WAYS if way not in IN_PLACE])
def test_an_effect_too_and_it_is_settled_before_the_run_ends(url, way):
    slow = Slow()
    found = "stopped" if way == "in a group" else "too slow"
    assert told(url, slow, "act", way) == [found, found.upper(), "yes"]
    assert slow.seen == ["slow", "slow"]  # its rule says to call it again
    with perdure.open(url) as store:
        assert [each.state for each in store.effects()] == ["committed"]


def test_control_a_journal_that_does_not_know_goes_another_way(url, monkeypatch):
    monkeypatch.setattr(Journal, "interruption", lambda *_: None)
    with pytest.raises(AssertionError, match="the program does not do what this run did"):
        told(url, Slow(), "step", "in a task")


@pytest.mark.parametrize("way", IN_PLACE)
def test_a_program_that_goes_on_in_the_branch_of_a_cancelled_effect_is_told(url, way):
    slow = Slow()

    async def story() -> Any:
        async with await perdure.aopen(url) as store:
            return await driven(store, hasty(slow, "act", way), asks=False)

    error = asyncio.run(story())
    assert isinstance(error, perdure.Failed)
    assert error.code == "Refused"
    assert "cancelled in the middle" in error.message
    assert "a deadline belongs to the tool" in error.message


def test_what_was_stopped_by_a_failure_is_done_anew_when_that_is(url):
    slow, mended = Slow(), False

    async def quick() -> None:
        if not mended:
            await slow.fail()

    @perdure.agent(name="both")
    async def both(run: perdure.AsyncRun) -> Any:
        slow.sister = asyncio.Event()
        failed: list[BaseException] = []
        try:
            async with asyncio.TaskGroup() as group:
                doing = group.create_task(run.step(slow.look))
                group.create_task(run.step(quick))
        except* perdure.Failed as error:
            failed.append(error.exceptions[0])
        if failed:
            await run.step(len, "it goes on, so that the failure is kept")
            raise failed[0]
        return doing.result()

    async def story() -> None:
        nonlocal mended
        async with await perdure.aopen(url) as store:
            with pytest.raises(perdure.Failed, match="no"):
                await store.drive(both, key="k")
            (handle,) = await store.runs()
            assert "run.interrupted" in [each.name for each in await handle.steps()]
            mended = True
            await handle.retry()
            with pytest.raises(
                perdure.Changed
            ):  # it went on after the failure, and now does not: that is named, not waited for
                await store.drive(both, key="k")

    asyncio.run(asyncio.wait_for(story(), 60))
    assert slow.seen == ["slow", "slow"]


# -- what was interrupted is settled -----------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_waits_for_doubt_that_only_a_person_can_settle(url, fails):
    slow = Slow()
    inner = hasty(slow, "act", "in a group", "unsafe")

    @perdure.agent(name="outer")
    async def outer(run: perdure.AsyncRun, *, asks: bool) -> Any:
        found = await inner.fn(run, asks=asks)
        if fails:
            raise ValueError("after all")
        return found

    async def story() -> None:
        async with await perdure.aopen(url) as store:
            waiting = await driven(store, outer, asks=False)
            assert isinstance(waiting, perdure.Waiting), waiting
            (effect,) = await store.effects(in_doubt=True)
            assert waiting.facts["doubts"] == [effect.id]
            await effect.settle(perdure.Happened("it did"), by="ann")
            ended = await driven(store, outer, asks=False)
            assert getattr(ended, "code", ended) == ("ValueError" if fails else ["stopped", "STOPPED", None])
            assert [each.status for each in await store.runs()] == ["failed" if fails else "completed"]
            assert (await store.verify()).ok

    asyncio.run(story())
    assert slow.seen == ["slow"]


def test_control_a_run_that_ends_leaves_its_doubt_to_nobody(url, monkeypatch):
    def nothing(_: Any, *, completes: bool) -> Iterator[Any]:
        assert completes
        yield from ()

    monkeypatch.setattr(RunEngine, "settle_open_effects", nothing)

    async def story() -> None:
        async with await perdure.aopen(url) as store:
            assert await driven(store, hasty(Slow(), "act", "in a group", "unsafe"), asks=False) == [
                "stopped",
                "STOPPED",
                None,
            ]
            assert len(await store.effects(in_doubt=True)) == 1

    asyncio.run(story())
