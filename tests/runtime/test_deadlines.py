"""A deadline of the program's own around a verb: it would see another thing at the next replay, and is told so (P13)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import perdure
from perdure.runtime.places import Branch


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/a.db"


def driven(url: str, doing: str) -> tuple[Any, list[str]]:
    """What a program gives that lets a verb be cancelled and goes on, and what it did outside."""
    seen: list[str] = []
    deadlines: list[asyncio.Timeout] = []

    async def slow() -> str:
        if len(seen) < 2:
            seen.append("slow")
            deadlines[-1].reschedule(asyncio.get_running_loop().time())  # it passes now, in the middle
            await asyncio.sleep(60)
        return "done"

    slowly = perdure.tool(kind="idempotent", name="slowly")(slow)

    @perdure.tool(name="told")
    async def told(what: str) -> None:
        seen.append(what)

    @perdure.agent(name="hasty")
    async def hasty(run: perdure.AsyncRun) -> str:
        verb = run.step(slow) if doing == "step" else run.act(slowly)
        try:
            async with asyncio.timeout(60) as deadline:
                deadlines.append(deadline)
                found = await (asyncio.create_task(verb) if doing == "task" else verb)
        except TimeoutError:
            found = "too slow"
        await run.act(told, found)
        return found

    async def story() -> Any:
        async with await perdure.aopen(url) as store:
            try:
                return await store.drive(hasty, key="k")
            except perdure.Failed as error:
                return error

    return asyncio.run(story()), seen


@pytest.mark.parametrize("doing", ["act", "step"])
def test_a_program_that_goes_on_after_a_cancelled_verb_is_told(url, doing):
    error, seen = driven(url, doing)
    assert isinstance(error, perdure.Failed)
    assert error.code == "Refused"
    assert "cancelled in the middle" in error.message
    assert "a deadline belongs to the tool" in error.message
    assert seen == ["slow"]


def test_what_is_stopped_in_a_task_of_its_own_is_stopped(url):
    assert driven(url, "task") == ("too slow", ["slow", "too slow"])


def test_control_nobody_notices(url, monkeypatch):
    monkeypatch.setattr(Branch, "interrupted", property(lambda _: "", lambda *_: None))
    assert driven(url, "act") == ("too slow", ["slow", "too slow"])
