"""Branches of sync agents: known by their names, in threads, in any order."""

from __future__ import annotations

import asyncio
import gc
import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import perdure
from perdure.planes.execution import waits
from perdure.runtime.agent import DECLARED
from perdure.runtime.branch_waits import LOOK_SECONDS, QUIET_LOOKS
from perdure_testing.clock import FakeClock

SEEN: list[str] = []


def look(name: str) -> str:
    SEEN.append(name)
    return name


@perdure.tool
def send(name: str) -> str:
    SEEN.append(f"sent {name}")
    return name


@perdure.agent
def fan(run: perdure.Run, names: list[str]) -> list[str]:
    def work(branch: perdure.Run, name: str) -> str:
        return branch.step(look, name) + branch.act(send, name)

    branches = {name: run.branch(name) for name in names}
    order = random.sample(names, len(names))
    with ThreadPoolExecutor(3) as threads:
        found = dict(zip(order, threads.map(lambda name: work(branches[name], name), order), strict=True))
    said = run.ask("?")
    return [*(found[name] for name in names), said]


@pytest.fixture
def store(tmp_path):
    SEEN.clear()
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        yield store


def test_named_branches_replay_in_any_order(store):
    names = list("abcdef")
    handle = store.start(fan, names, key="k")
    for _ in range(3):
        with pytest.raises(perdure.Waiting):
            store.drive(fan, names, key="k")
        handle.resume()
    store.answer(store.asks()[0].id, "yes")
    assert store.drive(fan, names, key="k") == [*(name * 2 for name in names), "yes"]
    assert sorted(SEEN) == sorted([*names, *(f"sent {name}" for name in names)])
    assert store.verify().ok


@perdure.agent
async def awaits(run: perdure.AsyncRun) -> int:
    return await run.step(abs, -1)


def test_an_async_agent_is_driven_by_a_sync_store_also_inside_an_event_loop(store):
    async def main() -> int:
        return store.drive(awaits, key="inside")

    assert store.drive(awaits, key="outside") == asyncio.run(main()) == 1


def test_an_async_tool_is_called_by_a_sync_store_also_inside_an_event_loop(store):
    @perdure.tool
    async def send_later(n: int) -> int:
        await asyncio.sleep(0)
        return n

    async def main() -> int:
        return store.session("s").act(send_later, 2)

    assert store.session("s").act(send_later, 2) == asyncio.run(main()) == 2


@perdure.agent
async def racing(run: perdure.AsyncRun, rival: str) -> str:
    """A signal against something that does not come; then a cut."""
    if run.restored:
        return await run.wait("end")
    rivals = {"ask": lambda: run.ask("?"), "sleep": lambda: run.sleep("1h"), "child": lambda: run.call(racing, "ask")}
    race = [asyncio.create_task(run.wait("go")), asyncio.create_task(rivals[rival]())]
    _, lost = await asyncio.wait(race, return_when=asyncio.FIRST_COMPLETED)
    for each in lost:
        each.cancel()
    await asyncio.wait(lost)
    await run.checkpoint("cut")
    return await run.wait("end")


def raced(store: perdure.Store, rival: str) -> perdure.RunHandle:
    """A run in which a signal won."""
    handle = store.start(racing, rival, key="k")
    with pytest.raises(perdure.Waiting):
        store.drive(racing, rival, key="k")
    handle.signal("go")
    return handle


@pytest.mark.parametrize("rival", ["ask", "sleep"])
def test_what_lost_a_race_is_withdrawn_by_a_cut(store, rival):
    handle = raced(store, rival)
    with pytest.raises(perdure.Waiting):
        store.drive(racing, rival, key="k")
    assert not store.asks()
    handle.signal("end", "of it")
    assert store.drive(racing, rival, key="k") == "of it"


def test_a_child_that_lost_a_race_is_not_cut_off(store):
    raced(store, "child")
    with pytest.raises(perdure.Failed, match="an open wait of the run"):
        store.drive(racing, "child", key="k")


@perdure.agent
async def racing_on(run: perdure.AsyncRun) -> str:
    """A signal against the clock; then something else is waited for."""
    race = [asyncio.create_task(run.wait("go")), asyncio.create_task(run.sleep("1h"))]
    _, lost = await asyncio.wait(race, return_when=asyncio.FIRST_COMPLETED)
    for each in lost:
        each.cancel()
    return await run.ask("And now?")


def test_the_time_of_what_lost_a_race_wakes_nobody_again_and_again(tmp_path):
    clock = FakeClock()
    with perdure.open(f"sqlite:///{tmp_path}/a.db", clock=clock) as store:
        handle = store.start(racing_on)
        handle.signal("go")
        store.recover([racing_on])
        clock.advance("2h")
        for _ in range(2):  # at most once, by the time that it was to sleep
            store.recover([racing_on])
        assert (handle.refresh().status, handle.record.reason, handle.record.wake_at) == ("waiting", "ask", None)
        assert store.recover([racing_on]).runs == ()
        store.answer(store.asks()[0].id, "done")
        store.recover([racing_on])
        assert handle.result() == "done"


@perdure.agent
async def turning(run: perdure.AsyncRun) -> str:
    """Turns until it is stopped; what loses in one turn is waited for anew in the next."""
    for turn in range(9):
        tick, stop = (asyncio.create_task(run.wait(name)) for name in ("tick", "stop"))
        won, lost = await asyncio.wait({tick, stop}, return_when=asyncio.FIRST_COMPLETED)
        for each in lost:
            each.cancel()
        if stop in won:
            return f"stopped in turn {turn}"
    return "never stopped"


@pytest.mark.parametrize("when", ["after", "before"])
def test_a_signal_is_not_taken_by_what_lost_a_race(store, when):
    handle = store.start(turning)
    handle.signal("tick")
    if when == "after":  # what lost in the first turn is recorded, and is begun at every replay
        store.recover([turning])
    handle.signal("tick")
    handle.signal("stop")
    store.recover([turning])
    assert handle.refresh().status == "completed"
    assert handle.result().startswith("stopped")
    assert store.verify().ok


@perdure.agent
async def answering(run: perdure.AsyncRun) -> str:
    """Somebody whom it asks, or a child of its own."""
    return await run.ask("Late?")


@perdure.agent
async def not_waiting(run: perdure.AsyncRun, rival: str, further: str) -> str:
    """A signal against something slow; what comes of that later is no longer waited for."""
    slow = asyncio.create_task(run.ask("Slow?") if rival == "ask" else run.call(answering))
    go = asyncio.create_task(run.wait("go"))
    won, lost = await asyncio.wait({go, slow}, return_when=asyncio.FIRST_COMPLETED)
    for each in lost:
        each.cancel()
    if slow in won:
        return "slow"
    verb = run.ask("And now?")
    return await (asyncio.create_task(verb) if further == "branch" else verb)


@pytest.mark.parametrize("further", ["trunk", "branch"])
@pytest.mark.parametrize("rival", ["ask", "child"])
def test_what_comes_late_for_what_lost_a_race_changes_nothing(store, rival, further):
    handle, agents = store.start(not_waiting, rival, further), [not_waiting, answering]
    for _ in range(2):
        store.recover(agents)
    handle.signal("go")
    store.recover(agents)
    for question in ("Slow?", "Late?"):
        for late in [each for each in store.asks() if each.question == question]:
            store.answer(late.id, "late")
    for _ in range(3):
        store.recover(agents)
    assert handle.refresh().status == "waiting"  # not parked: it did not change
    store.answer(next(each.id for each in store.asks() if each.question == "And now?"), "done")
    store.recover(agents)
    assert handle.result() == "done"


@perdure.agent
async def first_of_two(run: perdure.AsyncRun) -> str:
    """Whatever comes first; what does not come is stopped."""
    race = [asyncio.create_task(run.wait("go")), asyncio.create_task(run.ask("?"))]
    won, lost = await asyncio.wait(race, return_when=asyncio.FIRST_COMPLETED)
    for each in lost:
        each.cancel()
    return won.pop().result()


def test_a_run_does_not_rest_while_one_of_its_branches_takes_a_signal(store, monkeypatch):
    """However long that takes: a signal that was taken wakes nobody a second time."""
    handle = store.start(first_of_two, key="k")
    with pytest.raises(perdure.Waiting):
        store.drive(first_of_two, key="k")
    handle.signal("go", "went")
    take = waits.take_signal

    def slowly(*about: Any) -> Any:
        time.sleep(20 * LOOK_SECONDS * QUIET_LOOKS)
        return take(*about)

    monkeypatch.setattr(waits, "take_signal", slowly)
    assert store.drive(first_of_two, key="k") == "went"


@perdure.agent
async def breaking(run: perdure.AsyncRun, name: str) -> None:
    raise ValueError(f"{name} is broken")


@perdure.agent
async def asking(run: perdure.AsyncRun) -> Any:
    return await run.ask("Sure?")


@perdure.agent
async def grouping(run: perdure.AsyncRun) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(run.call(breaking, "one"))
        group.create_task(run.call(breaking, "two"))


@perdure.agent
async def gathering(run: perdure.AsyncRun) -> Any:
    found = await asyncio.gather(run.call(breaking, "one"), run.call(asking), run.ask("?"), return_exceptions=True)
    await run.act(send, f"{type(found[0]).__name__}, {found[1]}, {found[2]}")
    return str(found[0])


def test_a_group_that_fails_says_what_failed_in_it(store):
    with pytest.raises(perdure.Failed, match="is broken"):
        store.drive(grouping, key="g")
    error = next(run.record.error for run in store.runs(agent="grouping"))
    assert error.code == "ExceptionGroup"
    assert "one is broken" in error.message


def test_what_is_declared_here_is_what_children_are_driven_with():
    assert DECLARED["asking"] is asking  # another module has one too


def test_exceptions_that_are_gathered_are_those_of_the_program_and_no_rest(store):
    """While one of them waits, what rests the run is nothing that the program could take for a result."""
    agents = [breaking, asking]
    SEEN.clear()
    for _ in range(2):
        with pytest.raises(perdure.Waiting):
            store.drive(gathering, key="k")
        assert SEEN == []
        store.recover(agents=agents)
        store.answer(store.asks()[0].id, "yes")
        store.recover(agents=agents)
    assert "one is broken" in store.drive(gathering, key="k")
    assert SEEN == ["sent Failed, yes, yes"]


def test_coroutines_that_begin_by_chance_are_refused_before_they_do_anything_and_tasks_are_not(store):
    names = [f"n{number}" for number in range(8)]
    as_tasks: list[bool] = []
    begun: list[Any] = []

    @perdure.agent(name="completing")
    async def completing(run: Any) -> list[str]:
        async def work(name: str) -> str:
            return await run.act(send, name)

        works = [asyncio.create_task(work(name)) if as_tasks else work(name) for name in names]
        begun.extend(works)
        found = [await each for each in asyncio.as_completed(works)]
        return [*sorted(found), await run.ask("?")]

    with pytest.raises(perdure.Failed, match="in no fixed order") as refused:
        store.drive(completing, key="k")
    for each in begun:
        each.close()  # which nobody has awaited
    assert SEEN == []
    assert "asyncio.create_task" in str(refused.value.__cause__.hint)
    as_tasks.append(True)
    store.runs()[0].retry()
    with pytest.raises(perdure.Waiting):
        store.drive(completing, key="k")
    store.answer(store.asks()[0].id, "yes")
    assert store.drive(completing, key="k") == [*names, "yes"]
    assert sorted(SEEN) == [f"sent {name}" for name in names]


def test_a_pause_in_a_branch_is_not_printed_as_an_error_that_nobody_saw(store, caplog):
    @perdure.agent(name="racing")
    async def racing(run: Any, broken: bool) -> str:
        async def nap() -> None:
            await run.sleep("1h")

        async def fail() -> None:
            raise LookupError("unseen")

        tasks = {asyncio.create_task(run.wait("go")), asyncio.create_task(fail() if broken else nap())}
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        tasks.clear()
        return "over"

    def unseen() -> list[str]:
        gc.collect()
        return [each.message for each in caplog.records if each.name == "asyncio"]

    with pytest.raises(perdure.Waiting):
        store.drive(racing, False)
    assert unseen() == []
    store.drive(racing, True)  # the control: what a program itself left unseen is said
    assert "exception was never retrieved" in unseen()[0]
