"""Sagas in branches that are stopped: undone before the run ends by itself, kept when it goes on elsewhere (P3, P4, P13)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

import perdure
from perdure.errors import Conflict, Failed, Waiting
from perdure.runtime.run_engine import RunEngine


class Stop(BaseException):
    """The process stops."""


class Trip:
    """A hotel is booked in a saga of one branch, which is then busy for ever; a sister fails meanwhile."""

    def __init__(self, then: Callable[[perdure.AsyncRun], Awaitable[Any]] | None = None) -> None:
        self.seen: list[str] = []
        self.booked = asyncio.Event()
        self.then = then
        self.stops_at = ""
        self.hesitates = self.is_quick = False
        undo = perdure.tool(kind="idempotent", name="unbook")(self._unbook)
        self.book = perdure.tool(undo=undo, name="book")(self._book)
        self.pay = perdure.tool(name="pay")(self._pay)
        self.agent = perdure.agent(name="traveller")(self._travel)

    async def _book(self, what: str) -> None:
        self.seen.append(f"+{what}")

    async def _unbook(self, what: str) -> None:
        self.seen.append(f"-{what}")
        if self.stops_at == what:
            self.stops_at = ""
            raise Stop

    async def _pay(self) -> None:
        await self.booked.wait()
        raise Failed("declined")

    async def _busy(self) -> None:
        self.booked.set()
        if not self.is_quick:
            await asyncio.Event().wait()

    async def _stay(self, run: perdure.AsyncRun) -> None:
        await run.act(self.book, "map")
        async with run.saga():
            await run.act(self.book, "room")
            if self.hesitates:
                await asyncio.Event().wait()
            async with run.saga():
                await run.act(self.book, "bath")
                await run.step(self._busy)

    async def both(self, run: perdure.AsyncRun) -> None:
        """Both branches: the failure of one stops the other."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._stay(run))
            group.create_task(run.act(self.pay))

    async def _travel(self, run: perdure.AsyncRun) -> Any:
        assert run.restored is None
        if self.then is None:
            return await self.both(run)
        try:
            await self.both(run)
        except* Failed:
            self.seen.append("caught")
        return await self.then(run)


BOOKED = ["+map", "+room", "+bath"]
UNDONE = ["-bath", "-room"]


@pytest.fixture
def store(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        yield store


def driven(store: perdure.Store, trip: Trip) -> Any:
    """What one drive came to: its result, or what it raised."""
    try:
        return store.drive(trip.agent, key="k")
    except (Failed, Waiting) as error:
        return error


def test_a_saga_that_a_failing_sister_stops_is_undone(store):
    trip = Trip()
    assert type(driven(store, trip)) is Failed
    assert trip.seen == [*BOOKED, *UNDONE]
    (run,) = store.runs()
    with pytest.raises(Conflict, match="undone"):
        run.retry()


def test_control_a_saga_that_was_left_is_not_remembered(store, monkeypatch):
    monkeypatch.setattr(RunEngine, "undo_left_sagas", lambda *_: iter(()))
    trip = Trip()
    assert type(driven(store, trip)) is Failed
    assert trip.seen == BOOKED


def test_it_is_undone_before_the_run_completes_whose_program_caught_the_failure(store):
    async def then(_: perdure.AsyncRun) -> str:
        return "home"

    trip = Trip(then)
    assert driven(store, trip) == "home"
    assert trip.seen == [*BOOKED, "caught", *UNDONE]


def test_it_is_undone_before_a_cut_loses_sight_of_it(store):
    async def then(run: perdure.AsyncRun) -> str:
        assert await run.checkpoint({"at": "home"})
        trip.seen.append("cut")
        return "home"

    trip = Trip(then)
    assert driven(store, trip) == "home"
    assert trip.seen == [*BOOKED, "caught", *UNDONE, "cut"]


def test_a_saga_of_a_task_that_the_program_stops_or_leaves_is_undone(store):
    async def travel(run: perdure.AsyncRun, cancels: bool) -> None:
        task = asyncio.create_task(trip._stay(run))
        await trip.booked.wait()
        if cancels:
            task.cancel()

    made = perdure.agent(name="leaver")(travel)
    for cancels in (True, False):
        trip = Trip()
        store.drive(made, cancels, key=str(cancels))
        assert trip.seen == [*BOOKED, *UNDONE]


def test_a_run_that_waits_undoes_nothing_until_it_ends(store):
    async def then(run: perdure.AsyncRun) -> Any:
        return await run.wait("home")

    trip = Trip(then)
    assert type(driven(store, trip)) is Waiting
    assert trip.seen == [*BOOKED, "caught"]
    (run,) = store.runs()
    run.signal("home", "now")
    assert driven(store, trip) == "now"
    assert trip.seen == [*BOOKED, "caught", "caught", *UNDONE]


def test_a_drive_that_is_stopped_undoes_nothing(store, tmp_path):
    """The run goes on later, and the saga with it."""

    async def forever() -> None:
        await asyncio.Event().wait()

    async def story() -> None:
        async with await perdure.aopen(f"sqlite:///{tmp_path}/a.db") as same:
            drive = asyncio.create_task(same.drive(trip.agent, key="k"))
            await trip.booked.wait()
            drive.cancel()
            with pytest.raises(asyncio.CancelledError):
                await drive

    trip = Trip()
    trip.pay = perdure.tool(name="pay", kind="idempotent")(forever)
    asyncio.run(story())
    (run,) = store.runs()
    assert (trip.seen, run.status) == (BOOKED, "ready")


@pytest.mark.parametrize("catches", [True, False])
@pytest.mark.parametrize(
    ("at", "undone"), [("bath", ["-bath", "-bath", "-room"]), ("room", ["-bath", "-room", "-room"])]
)
def test_undoing_goes_on_where_it_was_stopped(store, at, undone, catches):
    async def then(_: perdure.AsyncRun) -> str:
        return "home"

    trip = Trip(then if catches else None)
    trip.stops_at = at
    with pytest.raises(Stop):
        store.drive(trip.agent, key="k")
    assert (type(driven(store, trip)) is Failed) is not catches
    assert [each for each in trip.seen if each != "caught"] == [*BOOKED, *undone]


def test_what_the_branch_did_in_an_earlier_drive_is_undone_too(store):
    """When the sister's failure is recorded, the branch is stopped sooner than it was."""

    async def then(run: perdure.AsyncRun) -> Any:
        return await run.wait("home")

    trip = Trip(then)
    assert type(driven(store, trip)) is Waiting
    trip.hesitates = True
    (run,) = store.runs()
    run.signal("home", "now")
    assert driven(store, trip) == "now"
    assert trip.seen == [*BOOKED, "caught", "caught", *UNDONE]


def test_what_a_branch_did_after_it_left_a_saga_is_not_in_it(store):
    async def careless(run: perdure.AsyncRun) -> None:
        try:
            async with run.saga():
                await run.act(trip.book, "room")
                trip.booked.set()
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            await run.act(trip.book, "tent")
            raise

    async def travel(run: perdure.AsyncRun) -> None:
        task = asyncio.create_task(careless(run))
        await trip.booked.wait()
        task.cancel()
        await asyncio.wait([task])

    trip = Trip()
    store.drive(perdure.agent(name="careless")(travel), key="k")
    assert trip.seen == ["+room", "+tent", "-room"]


def test_what_was_begun_to_be_undone_is_undone_though_its_saga_ends_well_this_time(store):
    """A program that is not the same at every replay leaves nothing half undone."""

    async def travel(run: perdure.AsyncRun) -> None:
        task = asyncio.create_task(trip._stay(run))
        await trip.booked.wait()
        if trip.is_quick:
            await task

    trip = Trip()
    trip.stops_at = "bath"
    made = perdure.agent(name="wavering")(travel)
    with pytest.raises(Stop):
        store.drive(made, key="k")
    trip.is_quick = True
    store.drive(made, key="k")
    (run,) = store.runs()
    assert [each.state.value for each in run.effects() if each.tool == "book"] == ["committed", "committed", "undone"]


def test_a_saga_of_a_sync_agent_that_is_left_by_what_is_no_error_is_undone(store):
    seen: list[str] = []
    book = perdure.tool(name="book_now", undo=lambda: seen.append("-"))(lambda: seen.append("+"))

    def travel(run: perdure.Run) -> str:
        with suppress(Stop), run.saga():
            run.act(book)
            raise Stop
        return "home"

    assert store.drive(perdure.agent(name="sync_traveller")(travel), key="k") == "home"
    assert seen == ["+", "-"]
