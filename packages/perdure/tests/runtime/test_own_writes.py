"""A run knows its own writes, heard of or not: it rests when nobody else has written, and is not driven in a circle (P13)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import perdure
from perdure.planes.execution import leases


class Again(BaseException):
    """It is driven again and again."""


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/a.db"


@perdure.tool(name="own-mail")
async def mail() -> None:
    """Send something."""


async def stopped(run: perdure.AsyncRun) -> None:
    """A branch is stopped while the commit of its dispatch is under way."""
    sending = asyncio.create_task(run.act(mail))
    for _ in range(2):
        await asyncio.sleep(0)
    sending.cancel()
    await asyncio.wait({sending})


async def together(run: perdure.AsyncRun) -> None:
    """Branches write in one commit."""
    await asyncio.gather(*(run.step(lambda: 1) for _ in range(5)))


def drives(url: str, doing: Any) -> int:
    """How often a run is driven before it waits for its answer."""
    seen: list[int] = []

    @perdure.agent(name="asker")
    async def asker(run: perdure.AsyncRun) -> None:
        seen.append(1)
        if len(seen) > 3:
            raise Again
        await doing(run)
        await run.ask("?")

    async def story() -> int:
        async with await perdure.aopen(url) as store:
            with pytest.raises(perdure.Waiting):
                await store.drive(asker, key="k")
            return len(seen)

    return asyncio.run(story())


@pytest.mark.parametrize("doing", [stopped, together])
def test_a_run_rests_after_its_own_writes(url, doing):
    assert drives(url, doing) == 1


def test_control_a_write_that_nobody_heard_of_counts_as_somebody_elses(url, monkeypatch):
    monkeypatch.setattr(leases, "HEADS", 0)
    assert (
        drives(url, stopped) == 2
    )  # and not for ever: the second drive knows that it was stopped there, and writes nothing


def test_what_another_wrote_is_not_missed(url):
    seen: list[int] = []

    @perdure.agent(name="told")
    async def told(run: perdure.AsyncRun) -> object:
        seen.append(1)
        if len(seen) == 1:
            asked = asyncio.create_task(run.ask("?"))
            while not (open_ones := await stores[0].asks()):  # noqa: ASYNC110 - a commit takes its time
                await asyncio.sleep(0.001)
            await stores[0].answer(open_ones[0].id, "yes")  # before the run has come to rest
            return await asked
        return await asyncio.create_task(run.ask("?"))

    stores: list[Any] = []

    async def story() -> object:
        async with await perdure.aopen(url) as store:
            stores.append(store)
            return await store.drive(told, key="k")

    assert asyncio.run(story()) == "yes"
