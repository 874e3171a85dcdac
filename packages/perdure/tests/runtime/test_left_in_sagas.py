"""Sagas that end while something of theirs is under way in another branch: it is settled, and undone like the rest (P4)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import perdure
from perdure.model.crash_points import arm
from perdure.runtime.run_engine import RunEngine


class Stop(BaseException):
    """The process stops right after a call."""


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/a.db"


class Trip:
    """A hotel is booked in one branch and the process stops right then; when it goes on, a sister fails by what is recorded."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.lives = 0
        given: dict[str, Any] = {"probe": self._probe, "lands_within": 0.001, "name": "hotel"}
        self.book = perdure.tool(undo=self._unbook, **given)(self._book)
        self.pay = perdure.tool(name="declined")(self._pay)
        self.agent = perdure.agent(name="traveller")(self._travel)

    async def _book(self) -> None:
        self.seen.append("+")

    async def _unbook(self) -> None:
        self.seen.append("-")

    def _probe(self) -> Any:
        return perdure.Happened() if self.seen else perdure.Absent()

    async def _pay(self) -> None:
        raise perdure.Failed("declined")

    async def _travel(self, run: perdure.AsyncRun) -> None:
        self.lives += 1
        async with run.saga():
            both = run.act(self.pay), run.act(self.book)
            for each in await asyncio.gather(*both, return_exceptions=self.lives == 1):
                if isinstance(each, Stop):
                    raise each


def ended(url: str) -> tuple[list[str], list[str]]:
    """What was done outside, and how the effects stand."""
    trip = Trip()

    def stop() -> None:
        raise Stop

    async def story() -> list[str]:
        async with await perdure.aopen(url) as store:
            disarm = arm("effect.call.after", stop)
            with pytest.raises(Stop):
                await store.drive(trip.agent, key="k")
            disarm()
            with pytest.raises(perdure.Failed, match="declined"):
                await store.drive(trip.agent, key="k")
            (run,) = await store.runs()
            return [each.state.value for each in await run.effects()]

    return trip.seen, asyncio.run(story())


def test_what_was_sent_in_a_branch_that_was_stopped_is_settled_and_undone(url):
    seen, states = ended(url)
    assert (seen, sorted(states)) == (["+", "-"], ["committed", "failed", "undone"])


def test_control_what_was_under_way_is_not_looked_at(url, monkeypatch):
    monkeypatch.setattr(RunEngine, "_settle_effects_in", lambda *_: iter(()))
    assert ended(url)[0] == ["+"]
