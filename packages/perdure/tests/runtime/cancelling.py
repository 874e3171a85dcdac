"""Programs of branches whose drives are cancelled from outside, at each step of their event loop, and then driven to their end.

As a program: `cancelling.py sweep URL CASES [FIRST]` lives cases on a store until so many drives were cancelled, from the seed
FIRST on, and prints what came of them (`postgresql` for URL: on a server of its own). `cancelling.py life URL SEED KEY POINT
WITNESS` is one first life, ended by SIGINT. The event loop counts what is scheduled in it: a case is the seed of a program,
the count at which the drive is cancelled, and the way in which it is.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import forked
import perdure

CASES_A_PROGRAM = 40
LIVES_MAX = 40
LIFE_SECONDS = 20.0  # a bound, not a speed: a drive that takes longer waits for ever
WAYS = ("once", "twice", "all", "kept open", "ctrl-c")


class Case(NamedTuple):
    """The seed of a program, and the count of the event loop at which the drive is cancelled, in this way."""

    seed: int
    point: int
    way: str


class Outcome(NamedTuple):
    """What came of a case. fault: empty if nothing is wrong."""

    fault: str
    struck: bool
    lives: int


# -- the outside world -------------------------------------------------------------------------------------------------------


class Witness:
    """The outside world: a file to which each call is appended, before it returns."""

    path = Path()

    @classmethod
    def see(cls, call: str) -> None:
        with cls.path.open("a") as file:
            file.write(f"{call}\n")

    @classmethod
    def seen(cls) -> list[str]:
        return cls.path.read_text().split()


async def dither(times: int = 2) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


@perdure.tool(name="mail")
async def mail(what: str) -> str:
    await dither()
    Witness.see(f"mail:{what}")
    await dither()
    return what


@perdure.tool(name="post")
def post(what: str) -> str:
    Witness.see(f"post:{what}")
    return what


def look_for(what: str) -> perdure.Happened | perdure.Absent:
    return perdure.Happened(what) if f"parcel:{what}" in Witness.seen() else perdure.Absent()


@perdure.tool(name="parcel", probe=look_for, lands_within=0.001)
async def parcel(what: str) -> str:
    await dither()
    Witness.see(f"parcel:{what}")
    await dither()
    return what


@perdure.tool(name="unbook", kind="idempotent")
async def unbook(what: str) -> None:
    await dither(1)
    Witness.see(f"unbook:{what}")


@perdure.tool(name="book", undo=unbook)
async def book(what: str) -> str:
    await dither()
    Witness.see(f"book:{what}")
    return what


async def think(what: str) -> str:
    await dither(3)
    return what


def ponder(what: str) -> str:
    return what


async def answer(what: str) -> dict[str, Any]:
    await dither()
    calls = [{"id": f"{what}-{at}", "tool": "mail", "args": {"what": f"{what}-{at}"}} for at in range(2)]
    return {"text": what, "calls": calls}


async def hang(_: str) -> None:
    await asyncio.Event().wait()


ONCE = ("mail:", "post:", "parcel:", "book:")


# -- programs ----------------------------------------------------------------------------------------------------------------


@perdure.agent(name="helper")
async def helper(run: perdure.AsyncRun, what: str) -> list[str]:
    return [*await asyncio.gather(run.step(think, what), run.act(mail, f"{what}-child"))]


@perdure.agent(name="blocking")
def blocking(run: perdure.Run, what: str) -> str:
    run.step(ponder, what)
    return run.act(post, f"{what}-sync")


Verb = Callable[[perdure.AsyncRun, str], Awaitable[Any]]


async def respond(run: perdure.AsyncRun, what: str) -> Any:
    reply = await run.respond(answer, what, tools=[mail])
    return [each.result for each in reply.answers]


async def saga(run: perdure.AsyncRun, what: str) -> str:
    async with run.saga():
        await run.act(book, f"{what}-kept")
        return await run.act(mail, f"{what}-saga")


async def undone(run: perdure.AsyncRun, what: str) -> str:
    with suppress(ValueError):
        async with run.saga():
            await run.act(book, f"{what}-undone")
            await run.step(think, what)
            raise ValueError
    return await run.step(think, f"{what}-after")


async def loser(run: perdure.AsyncRun, what: str) -> str:
    """The program itself cancels a task in the middle: at each replay it does so again."""
    slow = asyncio.create_task(run.step(hang, what))
    quick = await run.step(think, what)
    slow.cancel()
    await asyncio.gather(slow, return_exceptions=True)
    return await run.act(mail, f"{quick}-won")


async def late(run: perdure.AsyncRun, what: str) -> str:
    with suppress(TimeoutError):
        await asyncio.wait_for(run.model(hang, what), 0.005)
    return await run.step(think, what)


async def inner(run: perdure.AsyncRun, what: str) -> list[str]:
    """Branches that the program itself gathers and cancels, and then goes on."""
    both = asyncio.gather(run.step(hang, f"{what}-a"), run.model(hang, f"{what}-b"))
    await run.step(think, what)
    both.cancel()
    await asyncio.gather(both, return_exceptions=True)
    return [await run.act(parcel, f"{what}-c")]


async def nested(run: perdure.AsyncRun, what: str) -> list[str]:
    verbs = (run.act(mail, f"{what}-x"), run.model(think, f"{what}-y"), run.act(parcel, f"{what}-z"))
    return [*await asyncio.gather(*verbs)]


async def tidying(run: perdure.AsyncRun, what: str) -> str:
    """A program that does something more when it is cancelled."""
    try:
        return await run.act(parcel, what)
    finally:
        await run.step(think, f"{what}-tidied")


VERBS: dict[str, Verb] = {
    "step": lambda run, what: run.step(think, what),
    "blocking": lambda run, what: run.step(ponder, what),
    "model": lambda run, what: run.model(think, what),
    "mail": lambda run, what: run.act(mail, what),
    "post": lambda run, what: run.act(post, what),
    "parcel": lambda run, what: run.act(parcel, what),
    "ask": lambda run, what: run.ask(what),
    "sleep": lambda run, _what: run.sleep(0.001),
    "wait": lambda run, what: run.wait(what),
    "child": lambda run, what: run.call(helper, what),
    "sync child": lambda run, what: run.call(blocking, what),
    "respond": respond, "saga": saga, "undone": undone, "loser": loser, "late": late, "inner": inner, "nested": nested,
    "tidying": tidying,
}  # fmt: skip


class Plan(NamedTuple):
    """A program: its branches, each a list of verbs with what they are about, and how they are grouped."""

    grouped: str
    branches: list[list[tuple[str, str]]]

    @classmethod
    def drawn(cls, seed: int) -> Plan:
        draw = random.Random(seed)
        branches = [
            [(draw.choice([*VERBS]), f"{at}.{step}") for step in range(draw.randint(1, 2))]
            for at in range(draw.randint(2, 8))
        ]
        return cls(draw.choice(["gather", "group", "trunk"]), branches)


async def do_all(run: perdure.AsyncRun, verbs: list[tuple[str, str]]) -> list[Any]:
    return [await VERBS[verb](run, what) for verb, what in verbs]


@perdure.agent(name="cancelled")
async def cancelled(run: perdure.AsyncRun, seed: int, store: str) -> Any:
    plan = Plan.drawn(seed)
    begun = await run.step(think, "begun")
    if plan.grouped == "group":
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(do_all(run, verbs)) for verbs in plan.branches]
        results = [task.result() for task in tasks]
    elif plan.grouped == "gather":
        results = await asyncio.gather(*(do_all(run, verbs) for verbs in plan.branches))
    else:  # the trunk is at work beside its branches
        tasks = [asyncio.create_task(do_all(run, verbs)) for verbs in plan.branches[1:]]
        results = [await do_all(run, plan.branches[0]), *await asyncio.gather(*tasks)]
    return [begun, results, await run.act(mail, "last")]


# -- lives -------------------------------------------------------------------------------------------------------------------


class CountingLoop(asyncio.SelectorEventLoop):
    """An event loop that counts what is scheduled, and strikes at one of these counts."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.strikes: dict[int, Callable[[], Any]] = {}

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
        self.count += 1
        strike = self.strikes.pop(self.count, None)
        if strike is not None:
            strike()
        return super().call_soon(callback, *args, context=context)


def lived_once(url: str, seed: int, key: str, point: int, way: str) -> tuple[int, bool]:
    """The first life: cancelled at this count, in this way. Gives the counts of a life, and whether it was cancelled."""
    loop = CountingLoop()

    async def live() -> tuple[int, bool]:
        async with await perdure.aopen(url, actor="me") as store:
            main = asyncio.current_task()
            before = loop.count
            drive = loop.create_task(driven(store, seed, key))

            def strike() -> None:
                if way == "all":  # as at the end of asyncio.run
                    for task in asyncio.all_tasks(loop):
                        if task is not main:
                            task.cancel()
                else:
                    drive.cancel()
                if way == "twice":
                    loop.strikes[loop.count + 3] = drive.cancel

            if point:
                loop.strikes[before + point] = strike
            await ended(drive, "the first life does not end")
            loop.strikes.clear()
            count, was = loop.count - before, drive.cancelled()
            if not was:
                drive.result()
            if way == "kept open" and was:
                await carry_on(store, seed, key)
            return count, was

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(live())


def interrupted_life(url: str, seed: int, key: str, point: int) -> bool:
    """A first life whose process gets a SIGINT at this count, as by Ctrl-C. Gives whether that came before its end."""
    loop = CountingLoop()

    async def live() -> None:
        async with await perdure.aopen(url, actor="me") as store:
            loop.strikes[loop.count + point] = lambda: os.kill(os.getpid(), signal.SIGINT)
            await driven(store, seed, key)
            loop.strikes.clear()

    signal.signal(signal.SIGINT, signal.default_int_handler)
    with suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(live())
        return False
    return True


def in_child(url: str, seed: int, key: str, point: int) -> bool:
    """`interrupted_life` in a process of its own. Not forked from this one: a thread of it may hold a lock of a library."""
    status = forked.run(__file__, "life", url, str(seed), key, str(point), str(Witness.path)).returncode
    assert status in (0, 1), status
    return bool(status)


class Stranded(Exception):
    """A run does not come to its end."""


async def ended(drive: asyncio.Task[Any], otherwise: str) -> None:
    """Wait for a drive, and not for ever."""
    await asyncio.wait({drive}, timeout=LIFE_SECONDS)
    if drive.done():
        return
    while not drive.done():  # its program may catch that
        drive.cancel()
        await asyncio.wait({drive}, timeout=0.01)
    raise Stranded(otherwise)


async def driven(store: perdure.AsyncStore, seed: int, key: str) -> Any:
    """One drive, and what others do when it waits for them. Gives the result, None if there is none yet."""
    try:
        return await store.drive(cancelled, seed, key, key=key)
    except perdure.Waiting:
        for ask in await store.asks():
            with suppress(perdure.Conflict, perdure.NotFound):
                await store.answer(ask.id, ask.question, by="ann")
        run = await store.run(agent=cancelled, key=key)
        for wait in await run.waits():
            if wait.kind == "signal" and wait.state == "open":
                await run.signal(wait.name, wait.name)
        for effect in await store.effects(in_doubt=True):
            await settle(effect)
        return None


async def settle(effect: Any) -> None:
    """A person looks at the outside world."""
    what = effect.record.args["what"]
    happened = f"{effect.record.tool}:{what}" in Witness.seen()
    with suppress(perdure.Conflict):
        await effect.settle(perdure.Happened(what) if happened else perdure.Absent(), by="ann")


async def carry_on(store: perdure.AsyncStore, seed: int, key: str) -> tuple[Any, int]:
    """Drive until it is over: its result, and how many drives it took."""
    for lives in range(1, LIVES_MAX):
        drive = asyncio.create_task(driven(store, seed, key))
        await ended(drive, "a drive waits without an end")
        try:
            if drive.result() is not None:
                return drive.result(), lives
        except perdure.Parked as error:
            raise Stranded(f"parked: {error}") from None
    raise Stranded("it is driven again and again")


def lived(url: str, case: Case, expected: Any, key: str) -> Outcome:
    """What came of a case."""
    try:
        if case.way == "ctrl-c":
            struck = in_child(url, case.seed, key, case.point)
        else:
            _, struck = lived_once(url, case.seed, key, case.point, case.way)

        async def others() -> tuple[Any, int]:
            async with await perdure.aopen(url, actor="me") as store:
                return await carry_on(store, case.seed, key)

        result, lives = asyncio.run(others())
    except Stranded as stranded:
        return Outcome(f"stranded: {stranded}", True, 0)
    except perdure.Error as error:
        return Outcome(f"failed: {type(error).__name__}: {error}", True, 0)
    return Outcome(fault_of(result, expected), struck, lives)


def fault_of(result: Any, expected: tuple[Any, Counter[str]]) -> str:
    calls = Counter(call for call in Witness.seen() if call.startswith(ONCE))
    wanted, outside = expected
    if twice := {call: times for call, times in calls.items() if times > 1}:
        return f"twice: {twice}"
    if calls != outside:
        return f"lost: {outside - calls or calls - outside}"
    return "" if result == wanted else f"lost: {result} is not {wanted}"


def expectation(url: str, seed: int, key: str, folder: Path) -> tuple[int, tuple[Any, Counter[str]]]:
    """The result of an undisturbed run of a program, and how many counts its first drive has."""
    Witness.path = folder / "expected"
    Witness.path.write_text("")
    count, _ = lived_once(url, seed, key, 0, "once")

    async def others() -> Any:
        async with await perdure.aopen(url, actor="me") as store:
            return (await carry_on(store, seed, key))[0]

    result = asyncio.run(others())
    return count, (result, Counter(call for call in Witness.seen() if call.startswith(ONCE)))


def cases(seed: int, count: int, most: int, ways: Sequence[str]) -> Iterator[Case]:
    """At most so many cases of a program, spread over its counts: every one of them if there is room."""
    draw = random.Random(seed)
    points = range(1, count + 1)
    for point in points if len(points) <= most else sorted(draw.sample(points, most)):
        yield Case(seed, point, draw.choice(ways))


def sweep(
    url: str,
    total: int,
    first: int,
    folder: Path,
    a_program: int = CASES_A_PROGRAM,
    ways: Sequence[str] = WAYS,
    *,
    report: bool = False,
) -> tuple[Counter[str], list[Any]]:
    """Live cases until so many drives were cancelled: the counts of what came of them, and the cases with a fault."""
    counts: Counter[str] = Counter()
    faults: list[Any] = []
    seed = first
    while counts["cancelled"] < total:
        mark = f"{time.time_ns():x}"
        count, expected = expectation(url, seed, f"{mark}-expected", folder)
        for at, case in enumerate(cases(seed, count, min(a_program, total - counts["cancelled"]), ways)):
            Witness.path = folder / f"outside-{seed}-{at}"
            Witness.path.write_text("")
            outcome = lived(url, case, expected, f"{mark}-{at}")
            counts["cases"] += 1
            counts["cancelled"] += outcome.struck
            counts[f"way {case.way}"] += 1
            counts[outcome.fault.partition(":")[0] or "whole"] += 1
            if outcome.fault:
                faults.append((case, outcome))
            Witness.path.unlink()
        counts["programs"] += 1
        seed += 1
        if report and counts["programs"] % 5 == 0:
            print(dict(counts), flush=True)  # noqa: T201 - its report
    return counts, faults


@contextmanager
def store_at(url: str, folder: Path) -> Iterator[str]:
    """The URL of a store; `postgresql` stands for one on a server of its own."""
    if url != "postgresql":
        yield url
        return
    from perdure_testing.postgres import PostgresServer

    with PostgresServer.start(folder, fsync=False) as server:
        yield server.url()


def main() -> None:
    what, url, *rest = sys.argv[1:]
    logging.disable(logging.CRITICAL)
    if what == "life":
        seed, key, point, Witness.path = int(rest[0]), rest[1], int(rest[2]), Path(rest[3])
        sys.exit(int(interrupted_life(url, seed, key, point)))
    with tempfile.TemporaryDirectory() as name, store_at(url, Path(name)) as there:
        counts, faults = sweep(there, int(rest[0]), int((rest[1:] or ["0"])[0]), Path(name), report=True)
    for case, outcome in faults:
        print(json.dumps([case, outcome]), flush=True)  # noqa: T201 - its report
    print(dict(counts))  # noqa: T201 - its report


if __name__ == "__main__":
    main()
