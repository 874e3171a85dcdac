"""Drives that are cancelled from outside: the run continues from its records, and nothing is lost or done twice (P2, P4, P13).

The sweep in full: `PERDURE_ROUNDS=2000 pytest packages/perdure/tests/runtime/test_cancelled_drives.py -k sweep`,
or `cancelling.py` as a program.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, ClassVar

import apsw
import pytest

import perdure
from forked import Program
from installed import stores_here
from perdure.runtime import branch_waits, driver, shells
from perdure.runtime.run_engine import RunEngine
from perdure.runtime.run_state import is_cancellation
from perdure.upkeep import health
from perdure_testing.clock import FakeClock
from runtime import cancelling
from runtime.cancelling import Witness

ROUNDS = int(os.environ.get("PERDURE_ROUNDS", "0"))
CASES = {"sqlite": 12, "files": 4, "postgres": 4}
FIXTURE = Path(__file__).parents[4] / "tests" / "fixtures" / "interrupted" / "ff295087.sql"
IN_PROCESS = [way for way in cancelling.WAYS if way != "ctrl-c"]  # the last one forks, and this process has threads


def url_of(store: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if store == "postgres":
        return request.getfixturevalue("postgres_store")
    return f"sqlite:///{tmp_path}/a.db" if store == "sqlite" else f"files:///{tmp_path}/a"


@pytest.mark.parametrize("store", stores_here(*CASES))
def test_a_sweep_over_the_steps_of_the_event_loop(store, request, tmp_path) -> None:
    url = url_of(store, request, tmp_path)
    most = cancelling.CASES_A_PROGRAM if ROUNDS else 4
    counts, faults = cancelling.sweep(url, ROUNDS or CASES[store], 0, tmp_path, most, IN_PROCESS)
    assert faults == []
    assert counts["whole"] == counts["cases"]
    assert counts["cancelled"] >= CASES[store]


async def in_one_task(engine: RunEngine, shell: Any) -> Any:
    """`shells._apart`, as it was: nobody can tell whose cancellation it is."""
    return await shell.run(driver.drive_run(engine))


judged = driver._raised_by_agent


def raised_before(engine: RunEngine, error: BaseException) -> bool:
    """`driver._raised_by_agent`, as it was."""
    task = asyncio.current_task()
    return not (is_cancellation(error) and task is not None and task.cancelling()) and judged(engine, error)


def test_control_a_drive_that_records_what_its_own_end_interrupted_is_stranded(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(shells, "_apart", in_one_task)
    monkeypatch.setattr(driver, "_raised_by_agent", raised_before)
    monkeypatch.setattr(branch_waits, "OVERDUE_US", 200_000)
    url = f"sqlite:///{tmp_path}/a.db"
    count, expected = cancelling.expectation(url, 0, "expected", tmp_path)
    faults: list[str] = []
    for case in cancelling.cases(0, count, 40, IN_PROCESS):
        Witness.path.write_text("")
        faults.append(cancelling.lived(url, case, expected, f"k{case.point}").fault)
        if faults[-1].startswith("stranded: parked"):
            return
    raise AssertionError(faults)


@pytest.mark.parametrize("point", [40, 90, 150])
def test_ctrl_c(tmp_path, point) -> None:
    url, seed = f"sqlite:///{tmp_path}/a.db", 0
    _, expected = cancelling.expectation(url, seed, "expected", tmp_path)
    Witness.path = tmp_path / "outside"
    Witness.path.write_text("")
    words = [cancelling.__file__, "life", url, str(seed), "k", str(point), str(Witness.path)]
    with Program(*words, cwd=Path(__file__).parent.parent) as life:
        assert life.wait(60) == 1

    async def others() -> Any:
        async with await perdure.aopen(url, actor="me") as store:
            return (await cancelling.carry_on(store, seed, "k"))[0]

    assert cancelling.fault_of(asyncio.run(others()), expected) == ""


# -- whoever cancels it ---------------------------------------------------------------------------------------------------


class World:
    """The outside: a step that hangs beside an effect that is under way, until somebody has had enough."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.at_work = asyncio.Event()
        self.hangs = True
        self.post = perdure.tool(kind="idempotent", name="post")(self._post)

    async def look(self) -> str:
        self.seen.append("look")
        if self.hangs:
            await asyncio.Event().wait()
        return "found"

    async def _post(self) -> str:
        self.seen.append("post")
        self.at_work.set()
        if self.hangs:
            await asyncio.Event().wait()
        return "posted"


def pair(world: World) -> Any:
    @perdure.agent(name="pair")
    async def pair(run: perdure.AsyncRun) -> list[str]:
        return [*await asyncio.gather(run.step(world.look), run.act(world.post))]

    return pair


async def by_wait_for(drive: Callable[[], Awaitable[Any]], world: World) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(at_work(drive, world), 60)


async def by_timeout(drive: Callable[[], Awaitable[Any]], world: World) -> None:
    async def limited() -> None:
        async with asyncio.timeout(60):
            await at_work(drive, world)

    with pytest.raises(TimeoutError):
        await limited()


async def by_a_sister(drive: Callable[[], Awaitable[Any]], world: World) -> None:
    async def fail() -> None:
        await world.at_work.wait()
        raise ValueError

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(drive())  # type: ignore[arg-type]
            group.create_task(fail())

    with pytest.raises(ExceptionGroup):
        await both()


async def by_cancel(drive: Callable[[], Awaitable[Any]], world: World) -> None:
    task = asyncio.ensure_future(drive())
    await world.at_work.wait()
    task.cancel("enough")
    with pytest.raises(asyncio.CancelledError):
        await task


async def while_it_is_cancelled(drive: Callable[[], Awaitable[Any]], world: World) -> None:
    """A caller that drives while it is being cancelled itself, and is cancelled once more."""

    async def stubborn() -> Any:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return await drive()

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    task.cancel()
    await world.at_work.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def at_work(drive: Callable[[], Awaitable[Any]], world: World) -> Any:
    """A drive whose caller's deadline passes as soon as it is at work."""

    async def pass_deadline() -> None:
        await world.at_work.wait()
        for handle in asyncio.get_running_loop()._scheduled:  # type: ignore[attr-defined]
            if not handle.cancelled() and handle.when() > asyncio.get_running_loop().time() + 50:
                handle._run()
                handle.cancel()

    passing = asyncio.create_task(pass_deadline())
    try:
        return await drive()
    finally:
        passing.cancel()


WAYS = [by_wait_for, by_timeout, by_a_sister, by_cancel, while_it_is_cancelled]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/a.db"


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_recorded_as_cancelled_by_the_program(url, way) -> None:
    async def story() -> None:
        world = World()
        agent = pair(world)
        async with await perdure.aopen(url, actor="me") as store:
            await way(lambda: store.drive(agent, key="k"), world)
            run = await store.run(agent="pair", key="k")
            assert run.record.status == "ready"
            assert await run.steps() == []
            world.hangs = False
            assert await store.drive(agent, key="k") == ["found", "posted"]
            assert (await store.verify()).ok

    asyncio.run(story())


def test_a_cancelled_recovery_gives_its_run_back(url) -> None:
    async def story() -> None:
        world = World()
        agent = pair(world)
        async with await perdure.aopen(url, actor="me") as store:
            await store.start(agent, key="k")
            await by_cancel(lambda: store.recover([agent]), world)
            world.hangs = False
            assert [each.status for each in (await store.recover([agent])).runs] == ["completed"]

    asyncio.run(story())


@pytest.mark.parametrize("answer", ["returns", "raises", "continues"])
def test_whatever_its_program_makes_of_it_the_run_is_given_back(url, answer) -> None:
    async def story() -> None:
        world = World()

        @perdure.agent(name="stubborn")
        async def stubborn(run: perdure.AsyncRun) -> Any:
            try:
                return await asyncio.gather(run.step(world.look), run.act(world.post))
            except asyncio.CancelledError:
                if answer == "raises":
                    raise ValueError from None
                if answer == "continues":
                    return await run.act(world.post)
                return "caught"

        async with await perdure.aopen(url, actor="me") as store:
            await by_cancel(lambda: store.drive(stubborn, key="k"), world)
            run = await store.run(agent="stubborn", key="k")
            assert run.record.status == "ready"
            world.hangs = False
            assert await store.drive(stubborn, key="k") == ["found", "posted"]

    asyncio.run(story())


def test_a_program_that_cancels_its_own_task_ends_by_that(url) -> None:
    @perdure.agent(name="own")
    async def own(run: perdure.AsyncRun) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await run.step(len, "")

    async def story() -> None:
        async with await perdure.aopen(url, actor="me") as store:
            with pytest.raises(perdure.Failed) as failed:
                await store.drive(own, key="k")
            assert failed.value.code == "CancelledError"

    asyncio.run(story())


def test_a_sync_agent_goes_on_in_its_thread(url) -> None:
    async def story() -> None:
        at_work, goes_on = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def hold() -> str:
            loop.call_soon_threadsafe(at_work.set)
            asyncio.run_coroutine_threadsafe(goes_on.wait(), loop).result(60)
            return "held"

        @perdure.agent(name="sync")
        def sync(run: perdure.Run) -> str:
            return run.step(hold)

        async with await perdure.aopen(url, actor="me") as store:
            drive = asyncio.create_task(store.drive(sync, key="k"))
            await at_work.wait()
            drive.cancel()
            await asyncio.wait([drive])
            assert drive.cancelled()
            goes_on.set()
            run = await store.run(agent="sync", key="k")
            assert await run.result(timeout="60s") == "held"

    asyncio.run(story())


# -- what waits to be cancelled again --------------------------------------------------------------------------------------


class Cancels:
    """A program that cancels a step of its own in its first life, and not in the others."""

    def __init__(self, beside: Callable[[perdure.AsyncRun], Awaitable[Any]] | None = None, lasts: str = "1ms") -> None:
        self.clock = FakeClock()
        self.cancels, self.calls = True, 0
        self.beside = beside
        self.lasts = lasts
        self.agent = perdure.agent(name="cancels", hold="5m")(self.program)

    async def slow(self) -> str:
        self.calls += 1
        if self.cancels:
            self.clock.advance(self.lasts)
            await asyncio.Event().wait()
        return "done"

    async def program(self, run: perdure.AsyncRun) -> list[Any]:
        slow = asyncio.create_task(run.step(self.slow))
        beside = asyncio.create_task(self.beside(run)) if self.beside and not self.cancels else None  # type: ignore[arg-type]
        await asyncio.sleep(0.001)
        if self.cancels:
            slow.cancel()
        [found] = await asyncio.gather(slow, return_exceptions=True)
        if beside is not None:
            await beside
        return [str(found), await run.ask("?")]

    async def begin(self, store: perdure.AsyncStore) -> None:
        """Its first life: it records that it cancelled the step, and asks."""
        with pytest.raises(perdure.Waiting):
            await store.drive(self.agent, key="k")
        await store.answer((await store.asks())[0].id, "yes")
        self.cancels = False

    async def drive(self, store: perdure.AsyncStore) -> asyncio.Task[Any]:
        """Another life, at the point where it waits to be cancelled again."""
        drive = asyncio.create_task(store.drive(self.agent, key="k"))
        await until(lambda: bool(self.waits()))
        return drive

    def waits(self) -> bool:
        return "waits until its program stops" in Heard.text()


class Heard(logging.Handler):
    """The log of runs."""

    lines: ClassVar[list[str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    @classmethod
    def text(cls) -> str:
        return "\n".join(cls.lines)


@pytest.fixture(autouse=True)
def heard(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(branch_waits, "CANCELLATION_LOOK_SECONDS", 0.005)
    log, handler = logging.getLogger("perdure.run"), Heard(logging.INFO)
    level = log.level
    Heard.lines.clear()
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield
    log.removeHandler(handler)
    log.setLevel(level)


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not check():  # noqa: ASYNC110 - it looks at a log
            await asyncio.sleep(0.005)


async def looks(times: int = 20) -> None:
    """Let it look some times."""
    for _ in range(times):
        await asyncio.sleep(0.005)


async def parked(drive: asyncio.Task[Any]) -> perdure.Parked:
    with pytest.raises(perdure.Parked) as error:
        await asyncio.wait_for(drive, 60)
    return error.value


def test_what_nobody_cancels_again_is_overdue_after_a_minute_and_retry_takes_it_back(url, tmp_path) -> None:
    async def story() -> None:
        life = Cancels()
        async with await perdure.aopen(url, actor="me", clock=life.clock) as store:
            await life.begin(store)
            drive = await life.drive(store)
            life.clock.advance("59s")
            await looks()
            assert not drive.done()
            life.clock.advance("2s")
            error = await parked(drive)
            assert error.facts["reason"] == "interrupted"
            run = await store.run(agent="cancels", key="k")
            assert f"perdure retry {run.id}" in error.hint
            assert [each.id for each in await store.runs(errors=True)] == [run.id]
            await run.retry()
            assert [each.name for each in await run.steps()] == []
            assert await store.drive(life.agent, key="k") == ["done", "yes"]
            assert life.calls == 2
            assert (await store.verify()).ok

    asyncio.run(asyncio.wait_for(story(), 120))


def test_doctor_names_it(url) -> None:
    async def story() -> str:
        life = Cancels()
        async with await perdure.aopen(url, actor="me", clock=life.clock) as store:
            await life.begin(store)
            drive = await life.drive(store)
            life.clock.advance("61s")
            await parked(drive)
            return (await store.run(agent="cancels", key="k")).id

    name = asyncio.run(asyncio.wait_for(story(), 120))
    says = [f"{each.says}: {each.fix}" for each in health.examine(url).findings]
    assert any(name in each and f"perdure retry {name}" in each for each in says)


def test_it_has_twice_the_time_of_the_drive_that_recorded_it(url) -> None:
    async def story() -> None:
        life = Cancels(lasts="10m")
        async with await perdure.aopen(url, actor="me", clock=life.clock) as store:
            await life.begin(store)
            drive = await life.drive(store)
            life.clock.advance("19m")
            await looks()
            assert not drive.done()
            life.clock.advance("2m")
            await parked(drive)

    asyncio.run(asyncio.wait_for(story(), 120))


def test_a_branch_that_can_move_by_itself_may_still_cancel_it(url) -> None:
    async def story() -> None:
        async def beside(_: perdure.AsyncRun) -> None:
            await asyncio.sleep(3600)  # a timer of its own

        life = Cancels(beside)
        async with await perdure.aopen(url, actor="me", clock=life.clock) as store:
            await life.begin(store)
            drive = await life.drive(store)
            life.clock.advance("2m")
            await until(lambda: "does not stop it again" in Heard.text())
            await looks()
            assert not drive.done()
            life.clock.advance("5m")  # as a held verb: nothing of the run has moved for `hold=`
            await parked(drive)

    asyncio.run(asyncio.wait_for(story(), 120))


def test_a_branch_at_work_is_waited_for(url) -> None:
    async def story() -> None:
        goes_on = asyncio.Event()

        async def beside(run: perdure.AsyncRun) -> None:
            await run.step(goes_on.wait)

        life = Cancels(beside)
        async with await perdure.aopen(url, actor="me", clock=life.clock) as store:
            await life.begin(store)
            drive = await life.drive(store)
            life.clock.advance("1h")
            await looks()
            life.clock.advance("1h")
            await looks()
            assert not drive.done()
            goes_on.set()
            await looks()
            life.clock.advance("1h")
            await parked(drive)

    asyncio.run(asyncio.wait_for(story(), 120))


# -- a store that was stranded before -----------------------------------------------------------------------------------------


async def look_up(topic: str) -> str:
    return f"{topic} leaves"


@perdure.tool(name="order")
async def order(topic: str) -> str:
    raise AssertionError(f"{topic} was ordered already")


@perdure.agent(name="fetching")
async def fetching(run: perdure.AsyncRun, topic: str) -> list[str]:
    found = await asyncio.gather(run.step(look_up, topic), run.act(order, topic))
    return [*found, await run.step(str.upper, topic)]


def test_a_run_that_an_earlier_version_stranded_is_parked_and_tried_again(url, tmp_path) -> None:
    with closing(apsw.Connection(str(tmp_path / "a.db"))) as raw:
        raw.execute(FIXTURE.read_text("utf-8"))
    clock = FakeClock(2_000_000_000_000_000)

    async def story() -> None:
        async with await perdure.aopen(url, actor="me", clock=clock) as store:
            with pytest.raises(perdure.Waiting):
                await store.drive(fetching, "tea", key="k")
            (effect,) = await store.effects(in_doubt=True)
            await effect.settle(perdure.Happened("ordered"), by="ann")
            drive = asyncio.create_task(store.drive(fetching, "tea", key="k"))
            await until(lambda: Heard.text().count("waits until its program stops") == 2)
            clock.advance("61s")
            await parked(drive)
            await (await store.run(agent="fetching", key="k")).retry()
            assert await store.drive(fetching, "tea", key="k") == ["tea leaves", "ordered", "TEA"]
            assert (await store.verify()).ok

    asyncio.run(asyncio.wait_for(story(), 120))
