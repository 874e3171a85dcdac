"""Programs whose trunk waits for something that only a branch at a wait would move: the run rests, and continues (P13).

A branch that waits for a person leaves its program by an exception. A trunk at an `asyncio.Event` never hears of it: without a
word to its first task the run stayed `running`, and `store.drive` hung.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import forked
import perdure
from perdure.handles.colours import run_for
from perdure.handles.working import open_for_worker
from perdure.model.instants import SECOND_US
from perdure.runtime import standstill
from perdure.runtime.worker import Worker, WorkerSettings
from perdure_testing.clock import FakeClock
from runtime import own_waits_life

BOUND_SECONDS = 3  # a bound, not a speed
SENT: list[str] = []


@perdure.tool(name="own-waits.send")
def send(what: str) -> str:
    """Unsafe: once, or a person is asked."""
    SENT.append(what)
    return f"sent {what}"


@perdure.tool(name="own-waits.lose")
def lose(what: str) -> str:
    SENT.append(what)
    raise OSError("the answer was lost")


# -- programs: each asks in a branch, and its trunk waits for what that branch does afterwards ---------------------------


async def ask(run: perdure.AsyncRun) -> str:
    return await run.ask("Which?")


Asking = Callable[[perdure.AsyncRun], Awaitable[str]]


async def by_event(run: perdure.AsyncRun, ask: Asking) -> str:
    heard, answers = asyncio.Event(), []

    async def branch() -> None:
        answers.append(await ask(run))
        heard.set()

    task = asyncio.create_task(branch())
    await heard.wait()
    await task
    return answers[0]


async def by_join(run: perdure.AsyncRun, ask: Asking) -> str:
    work: asyncio.Queue[int] = asyncio.Queue()
    answers: list[str] = []

    async def worker() -> None:
        while True:
            await work.get()
            answers.append(await ask(run))
            work.task_done()

    workers = [asyncio.create_task(worker()) for _ in range(2)]
    work.put_nowait(1)
    await work.join()
    for each in workers:
        each.cancel()
    return answers[0]


async def by_get(run: perdure.AsyncRun, ask: Asking) -> str:
    answers: asyncio.Queue[str] = asyncio.Queue()

    async def branch() -> None:
        await answers.put(await ask(run))

    task = asyncio.create_task(branch())
    answer = await answers.get()
    await task
    return answer


async def by_lock(run: perdure.AsyncRun, ask: Asking) -> str:
    """A lock that its branch gives back only when it came to its end."""
    lock, answers = asyncio.Lock(), []
    await lock.acquire()

    async def branch() -> None:
        answers.append(await ask(run))
        lock.release()

    task = asyncio.create_task(branch())
    async with lock:
        await task
    return answers[0]


async def by_semaphore(run: perdure.AsyncRun, ask: Asking) -> str:
    """In a task of its own, which the trunk awaits beside the one that asks."""
    free, answers = asyncio.Semaphore(0), []

    async def branch() -> None:
        answers.append(await ask(run))
        free.release()

    async def other() -> None:
        await free.acquire()

    await asyncio.wait([asyncio.create_task(branch()), asyncio.create_task(other())])
    return answers[0]


async def by_condition(run: perdure.AsyncRun, ask: Asking) -> str:
    changed, answers = asyncio.Condition(), []

    async def branch() -> None:
        answer = await ask(run)
        async with changed:
            answers.append(answer)
            changed.notify_all()

    async def other() -> str:
        async with changed:
            await changed.wait_for(lambda: answers)
        return answers[0]

    task = asyncio.create_task(branch())
    answer = await asyncio.create_task(other())
    await task
    return answer


async def stubbornly(run: perdure.AsyncRun, ask: Asking) -> str:
    """Takes no for an answer three times."""
    heard, answers, told = asyncio.Event(), [], 0

    async def branch() -> None:
        answers.append(await ask(run))
        heard.set()

    task = asyncio.create_task(branch())
    while not heard.is_set():
        try:
            await heard.wait()
        except asyncio.CancelledError:
            told += 1
            if told > 3:
                raise
    await task
    return answers[0]


PROGRAMS = [by_event, by_join, by_get, by_lock, by_semaphore, by_condition, stubbornly]


def agent_of(program: Callable[..., Awaitable[str]], ask: Asking = ask) -> Any:
    """An agent that acts before its program, and after it."""

    @perdure.agent(name="own-waits")
    async def agent(run: perdure.AsyncRun) -> str:
        await run.act(send, "before")
        return await run.act(send, await program(run, ask))

    return agent


# -- drives, of every kind ---------------------------------------------------------------------------------------------


def drive(url: str, agent: Any) -> Any:
    with perdure.open(url, actor="me") as store:
        return store.drive(agent, key="k")


def adrive(url: str, agent: Any) -> Any:
    async def driven() -> Any:
        async with await perdure.aopen(url, actor="me") as store:
            return await asyncio.wait_for(store.drive(agent, key="k"), BOUND_SECONDS)

    return asyncio.run(driven())


def work(url: str, agent: Any) -> Any:
    """A worker, until the run rests or is over."""

    async def working() -> None:
        with perdure.open(url, actor="me") as store:
            run = store.start(agent, key="k")
            caller = open_for_worker(url, actor="w", tenant="default", lease_seconds=30)
            made = Worker(caller, {agent.name: agent}, WorkerSettings(poll_seconds=0.02, grace_seconds=0), run_for)
            task = asyncio.create_task(made.run())
            try:
                async with asyncio.timeout(BOUND_SECONDS):
                    while run.refresh().record.status in ("ready", "running"):  # noqa: ASYNC110 - played, not timed
                        await asyncio.sleep(0.01)
            finally:
                made.stop()
                await task
                await made.close()

    asyncio.run(working())
    return drive(url, agent)


DRIVES = [drive, adrive, work]


@pytest.fixture
def url(tmp_path: Path) -> str:
    SENT.clear()
    return f"sqlite:///{tmp_path}/a.db"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standstill, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(standstill, "STILL_LOOKS", 5)


def answer(url: str, text: str = "after") -> None:
    with perdure.open(url, actor="ada") as store:
        (question,) = store.asks()
        store.answer(question.id, text)


# -- they rest, and continue -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("driven", DRIVES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_that_waits_for_its_branch_rests_and_continues(
    program: Callable[..., Awaitable[str]], driven: Callable[..., Any], url: str
) -> None:
    agent = agent_of(program)
    for _ in range(2):  # again, though nothing came
        with pytest.raises(perdure.Waiting) as waiting:
            driven(url, agent)
        assert len(waiting.value.facts["asks"]) == 1
    answer(url)
    assert driven(url, agent) == "sent after"
    assert SENT == ["before", "after"]


def wakes_at(store: perdure.Store) -> Any:
    (run,) = store.runs(status="waiting")
    return run.record.reason, run.record.wake_at


def test_a_sleep_in_a_branch_wakes_the_run_in_its_time(url: str) -> None:
    async def sleep(run: perdure.AsyncRun) -> str:
        await run.sleep("1h")
        return "rested"

    agent, clock = agent_of(by_event, sleep), FakeClock()
    with perdure.open(url, actor="me", clock=clock) as store:
        begun_us = clock.now_us
        with pytest.raises(perdure.Waiting):
            store.drive(agent, key="k")
        reason, wake_at = wakes_at(store)
        assert (reason, wake_at.timestamp() * SECOND_US) == ("sleep", begun_us + 3600 * SECOND_US)
        clock.advance("1h")
        assert store.drive(agent, key="k") == "sent rested"
    assert SENT == ["before", "rested"]


def test_the_time_of_a_question_wakes_the_run_too(url: str) -> None:
    async def ask_for_an_hour(run: perdure.AsyncRun) -> str:
        return await run.ask("Which?", timeout="1h", default="any")

    agent, clock = agent_of(by_join, ask_for_an_hour), FakeClock()
    with perdure.open(url, actor="me", clock=clock) as store:
        with pytest.raises(perdure.Waiting):
            store.drive(agent, key="k")
        assert wakes_at(store)[1].timestamp() * SECOND_US == clock.now_us + 3600 * SECOND_US
        clock.advance("1h")
        assert store.drive(agent, key="k") == "sent any"


def test_a_signal_and_a_child(url: str) -> None:
    @perdure.agent(name="own-waits.child")
    def child(run: perdure.Run) -> str:
        return run.ask("Child?")

    async def both(run: perdure.AsyncRun) -> str:
        return f"{await run.wait('go')} {await run.call(child)}"

    agent = agent_of(by_get, both)
    with perdure.open(url, actor="me") as store:
        with pytest.raises(perdure.Waiting):
            store.drive(agent, key="k")
        store.signal(store.runs()[0].id, "go", "gone")
        with pytest.raises(perdure.Waiting):
            store.drive(agent, key="k")
    answer(url, "home")
    assert drive(url, agent) == "sent gone home"


def test_doubt_in_a_branch(url: str) -> None:
    async def act(run: perdure.AsyncRun) -> str:
        return await run.act(lose, "letter")

    agent = agent_of(by_event, act)
    with pytest.raises(perdure.Waiting) as waiting:
        drive(url, agent)
    with perdure.open(url, actor="ada") as store:
        store.effect(waiting.value.facts["doubts"][0]).settle(perdure.Happened("found"), by="ada")
    assert drive(url, agent) == "sent found"
    assert SENT == ["before", "letter", "found"]


def test_a_changed_program_is_parked(url: str) -> None:
    def asks(question: str) -> Asking:
        async def asked(run: perdure.AsyncRun) -> str:
            return await run.ask(question)

        return asked

    with pytest.raises(perdure.Waiting):
        drive(url, agent_of(by_event, asks("Which?")))
    answer(url)
    with pytest.raises(perdure.Parked):
        drive(url, agent_of(by_event, asks("What else?")))


def test_a_run_that_is_cancelled_ends_and_undoes_its_saga(url: str) -> None:
    @perdure.tool(name="own-waits.take-back", kind="idempotent")
    def take_back(what: str) -> None:
        SENT.append(f"{what} taken back")

    @perdure.tool(name="own-waits.book", undo=take_back)
    def book(what: str) -> str:
        SENT.append(what)
        return what

    async def until_cancelled(run: perdure.AsyncRun) -> str:
        for number in range(1000):
            await run.step(cancel_at, number)
        return ""

    def cancel_at(number: int) -> int:
        if number == 3:
            with perdure.open(url, actor="ada") as store:
                store.runs()[0].cancel("enough")
        return number

    @perdure.agent(name="own-waits.books")
    async def books(run: perdure.AsyncRun) -> str:
        async with run.saga():
            await run.act(book, "seat")
            return await by_event(run, until_cancelled)

    with pytest.raises(perdure.Cancelled):
        drive(url, books)
    with perdure.open(url) as store:
        assert store.runs()[0].record.status == "cancelled"
    assert SENT == ["seat", "seat taken back"]


# -- work of its own -----------------------------------------------------------------------------------------------------


class Work:
    """Work that a program does beside a branch at a wait. It ends after many looks of the vigil, or is stopped."""

    ended = stopped = False

    def __init__(self, monkeypatch: pytest.MonkeyPatch, looks: int = 40) -> None:
        self.gate = threading.Event()
        self.looks = 0
        self.at_look: Callable[[], None] = lambda: None
        self._end_after = looks
        look = standstill.Vigil._look

        def looking(vigil: standstill.Vigil) -> None:
            self.looks += 1
            self.at_look()
            if self.looks == self._end_after:
                self.gate.set()
            look(vigil)

        monkeypatch.setattr(standstill.Vigil, "_look", looking)


async def in_a_thread(work: Work) -> None:
    await asyncio.to_thread(work.gate.wait, BOUND_SECONDS)


async def by_a_timer(work: Work) -> None:
    while not work.gate.is_set():  # noqa: ASYNC110 - that is what is tried
        await asyncio.sleep(0.1)


async def by_a_ticker(work: Work) -> None:
    """An event that a task of its own sets."""
    heard = asyncio.Event()

    async def ticks() -> None:
        await by_a_timer(work)
        heard.set()

    ticker = asyncio.create_task(ticks())
    await heard.wait()
    await ticker


async def under_a_deadline(work: Work) -> None:
    while not work.gate.is_set():
        try:
            await asyncio.wait_for(asyncio.Event().wait(), 0.2)
        except TimeoutError:
            continue


def send_to(peer: socket.socket) -> None:
    peer.send(b"!")


async def over_the_network(work: Work) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        reader, writer = await asyncio.open_connection(sock=ours)
        work.at_look = lambda: send_to(theirs) if work.gate.is_set() else None
        try:
            await reader.readexactly(1)
        finally:
            writer.close()


async def fed_by_a_thread(work: Work) -> None:
    """A queue into which a thread puts something now and then: between two looks its task moves."""
    fed: asyncio.Queue[int] = asyncio.Queue()
    work.at_look = lambda: fed.put_nowait(work.looks)
    while not work.gate.is_set():
        await fed.get()


WORKS = [in_a_thread, by_a_timer, by_a_ticker, under_a_deadline, over_the_network, fed_by_a_thread]


def worked(url: str, program: Callable[[Work], Awaitable[None]], work: Work) -> None:
    """Drive a program whose trunk works while a branch asks, until its run rests."""

    @perdure.agent(name="own-waits.works")
    async def works(run: perdure.AsyncRun) -> str:
        asyncio.create_task(run.ask("Which?"))  # noqa: RUF006 - its run knows it
        try:
            await program(work)
            work.ended = True
        except asyncio.CancelledError:
            work.stopped = True
            work.gate.set()
            raise
        return await run.act(send, "never")

    with pytest.raises(perdure.Waiting):
        drive(url, works)


@pytest.mark.parametrize("program", WORKS)
def test_a_program_that_works_is_not_stopped(
    program: Callable[[Work], Awaitable[None]], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work(monkeypatch)
    worked(url, program, work)
    assert (work.ended, work.stopped) == (True, False)
    assert work.looks >= 40
    assert SENT == []


@pytest.mark.parametrize("program", WORKS[:-1])
def test_control_work_that_counts_as_standing_is_stopped(
    program: Callable[[Work], Awaitable[None]], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standstill, "awaited_by_all", lambda *_: [])
    work = Work(monkeypatch, looks=4000)
    worked(url, program, work)
    assert (work.ended, work.stopped) == (False, True)


# -- killed at each point ------------------------------------------------------------------------------------------------

POINTS = range(1, 400) if "PERDURE_ROUNDS" in os.environ else range(1, 400, 9)
MAILS = [f"{name}-{when}" for name in own_waits_life.WORK for when in ("first", "then")]
MAILS += ["other", "other-then", "end"]


def decide(store: perdure.Store, folder: Path, *, denies: bool) -> None:
    """A person's word wherever one is needed: doubt is settled by what arrived. denies: by a person who always says that nothing
    did.
    """
    for question in store.asks():
        store.answer(question.id, question.question.upper(), by="ada")
    for run in store.runs():
        for wait in run.waits():
            if wait.kind == "signal":
                run.signal(wait.name, "CID", key="once")
    for effect in store.effects(in_doubt=True):
        to = effect.record.args["to"]
        happened = own_waits_life.arrived(folder, to) and not denies
        said = perdure.Happened(to) if happened else perdure.Absent()
        effect.settle(said, by="ada", force=True)


def lived(url: str, folder: Path, point: str, life: int, *, denies: bool = False) -> tuple[bool, dict[str, Any]]:
    """The end of a run, one of whose lives was killed at a point. life: 0 comes to the questions, 1 to the end."""
    folder.mkdir()
    words = ["-m", "runtime.own_waits_life", url, str(folder)]
    killed = False
    for number in range(8):
        more = {"PERDURE_CRASH_AT": point} if number == life else {}
        ran = forked.run(*words, env=forked.environment(**more))
        assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
        killed = killed or ran.returncode == -signal.SIGKILL
        with perdure.open(url, actor="ada") as store:
            decide(store, folder, denies=denies)
            ended = [run for run in store.runs() if run.record.ended]
            if ended:
                arrived = {to: own_waits_life.arrived(folder, to) for to in MAILS}
                return killed, {"result": {*ended[0].record.result}, "arrived": arrived, "sound": store.verify().ok}
    raise AssertionError("it does not come to its end")


def wanted() -> dict[str, Any]:
    result = {f"{name.upper()} {name}-then" for name in own_waits_life.WORK} | {"end"}
    return {"result": result, "arrived": dict.fromkeys(MAILS, 1), "sound": True}


@pytest.mark.parametrize("life", [0, 1])
def test_killed_at_each_point_nothing_is_sent_twice(life: int, tmp_path: Path) -> None:
    point = 0
    for point in POINTS:
        url = f"sqlite:///{tmp_path}/{point}.db"
        killed, found = lived(url, tmp_path / str(point), f"*:{point}", life)
        assert found == wanted(), f"point {point}"
        if not killed:
            break
    assert 20 < point < POINTS[-1]


def test_killed_as_it_is_stopped(tmp_path: Path) -> None:
    assert lived(f"sqlite:///{tmp_path}/a.db", tmp_path / "out", "run.still.before", 0) == (True, wanted())


def test_control_a_person_who_is_wrong_is_noticed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    killed, found = lived(url, tmp_path / "out", "effect.call.after", 0, denies=True)
    assert (killed, max(found["arrived"].values())) == (True, 2)
