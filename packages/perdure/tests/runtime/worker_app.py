"""Agents for tests with real worker processes: each step says in a witness file when it began and ended, and where.

WITNESS names the file. HURRIED makes every step take no time. KILLED_ONCE kills the first process that imports this.
CLOCK_OFF_SECONDS shifts this process's clock; UNFENCED takes
runs whoever has them (a control).
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from pathlib import Path

import perdure

HURRIED = "HURRIED" in os.environ
if "KILLED_ONCE" in os.environ and not os.path.exists(os.environ["KILLED_ONCE"]):  # noqa: PTH110
    os.close(os.open(os.environ["KILLED_ONCE"], os.O_CREAT))
    os.kill(os.getpid(), signal.SIGKILL)


def witness(what: str, run: str, number: int) -> None:
    line = f"{time.monotonic_ns()} {os.getpid()} {what} {run} {number}\n"
    fd = os.open(os.environ["WITNESS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


def pause(run: str, number: int, seconds: float, gate: str | None = None) -> int:
    """gate: it goes on when this file is there."""
    witness("begin", run, number)
    time.sleep(0 if HURRIED else seconds)
    while gate is not None and not os.path.exists(gate):  # noqa: PTH110
        time.sleep(0.01)
    witness("end", run, number)
    return number


async def apause(run: str, number: int, seconds: float, gate: str | None = None) -> int:
    witness("begin", run, number)
    try:
        await asyncio.sleep(0 if HURRIED else seconds)
        while gate is not None and not os.path.exists(gate):  # noqa: PTH110, ASYNC110, ASYNC240
            await asyncio.sleep(0.01)
    finally:
        witness("end", run, number)
    return number


@perdure.agent
def plod(run, steps, seconds, gate=None):
    """gate: its last step waits until this file is there: what is to happen before its end does."""
    done = [run.step(pause, run.id, number, seconds) for number in range(steps - 1)]
    return sum([*done, run.step(pause, run.id, steps - 1, seconds, gate)])


@perdure.agent
async def aplod(run, steps, seconds, gate=None):
    done = [await run.step(apause, run.id, number, seconds) for number in range(steps - 1)]
    return sum([*done, await run.step(apause, run.id, steps - 1, seconds, gate)])


@perdure.agent(limit=2)
async def narrow(run, steps, seconds, gate):
    """gate: each of its steps waits until this file is there."""
    return sum([await run.step(apause, run.id, number, seconds, gate) for number in range(steps)])


@perdure.agent(timeout="30m")
async def timely(run, steps, seconds):
    return sum([await run.step(apause, run.id, number, seconds) for number in range(steps)])


@perdure.agent
async def doze(run, duration):
    await run.sleep(duration)
    return "rested"


@perdure.agent
def killer(run, how):
    run.step(pause, run.id, 0, 0)
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGKILL)


@perdure.agent
def stubborn(run, path):
    """Does not come back from its step until a file is there."""
    run.step(until_there, run.id, path)
    return "back"


@perdure.agent
async def astubborn(run, path):
    """The same, from an async agent: the run can be given back, its thread cannot."""
    await run.step(until_there, run.id, path)
    return "back"


def until_there(run: str, path: str) -> None:
    witness("begin", run, 0)
    while not os.path.exists(path):  # noqa: PTH110
        time.sleep(0.02)


@perdure.tool(kind="idempotent", retries=5, backoff="1h")
def unclear(run):
    witness("begin", run, 0)
    raise OSError("no answer")


@perdure.tool(retries=5, backoff="1h")
def unsent(run):
    witness("begin", run, 0)
    raise perdure.Unavailable("nobody there")


@perdure.tool(kind="idempotent", limit=1)
def hoard(run, path):
    until_there(run, path)


@perdure.tool(kind="idempotent", isolate=True)
def apart(run, path):
    until_there(run, path)


@perdure.tool(kind="idempotent", timeout="1h")
def bounded(run, path):
    until_there(run, path)


def look(run, path):
    until_there(run, path)
    return perdure.Happened("seen")


@perdure.tool(probe=look, timeout="1h")
def asked(run, path):
    raise OSError("no answer")


@perdure.agent
def inside(run, how, path):
    """Is in a sync agent inside a call that does not come back until a file is there."""
    run.act({"apart": apart, "bounded": bounded, "asked": asked}[how], run.id, path)
    return "back"


@perdure.agent
def insist(run, how):
    """Waits in a sync agent for its next attempt."""
    run.act(unclear if how == "unclear" else unsent, run.id)


@perdure.agent
def queue(run, path):
    """Waits in a sync agent for another run to give its tool back."""
    run.step(witness, "begin", run.id, 1)
    run.act(hoard, run.id, path)


agents = [plod, aplod, narrow, timely, doze, killer, stubborn, astubborn, insist, inside, queue]
by_name = {"plod": plod, "aplod": aplod}
none: list[object] = []
wrong = [plod, pause]
number = 7


def _shift_clock(seconds: float) -> None:
    real = time.time_ns
    time.time_ns = lambda: real() + int(seconds * 1e9)


def _unfence() -> None:
    """Take running runs of the living as well: what a broken lease would do."""
    from perdure.planes.execution import leases, workers

    look = workers.look

    def greedy(reads, what, limit, is_dead, me):
        seen = look(reads, what, limit, is_dead, me)
        rows = reads.query(workers.Q.holders_of_runs, tenant=reads.tenant)
        others = [each for holder, *_ in rows if holder != me for each in workers.held_by(reads, holder)]
        return seen._replace(takeable=[*seen.takeable, *others], suspects=[])

    workers.look = greedy
    leases._is_void = lambda *_: True
    claim = leases.claim
    leases.claim = lambda tx, stream, **given: claim(tx, stream, **{**given, "company": leases.Company.NOBODY})
    leases.check_lease = lambda *_: None


if "CLOCK_OFF_SECONDS" in os.environ:
    _shift_clock(float(os.environ["CLOCK_OFF_SECONDS"]))
if "UNFENCED" in os.environ:
    _unfence()


@perdure.agent
def stumble(run, secret):
    raise LookupError(secret)


@perdure.agent
def peek(run, word):
    """Whether a word is in the environment of agents, of what tools start, or on a command line."""
    programs = [
        path.read_bytes() for name in ("environ", "cmdline") for path in Path("/proc").glob(f"{os.getpid()}/{name}")
    ]
    started = subprocess.run(["/usr/bin/env"], capture_output=True, check=True).stdout
    found = [word.encode() in each for each in (*programs, started, str(os.environ).encode())]
    return run.step(lambda: found)


@perdure.agent
async def goes_on(run, catches):
    """Catches what its verbs raise and tries again: Failed, Exception, or everything."""
    kinds = {"Failed": perdure.Failed, "Exception": Exception, "everything": BaseException}
    number = 0
    while True:
        number += 1
        try:
            await run.step(apause, run.id, number, 0.01)
        except kinds[catches]:
            continue


@perdure.agent
def plods_on(run):
    """Its sync twin, that catches everything."""
    number = 0
    while True:
        number += 1
        try:
            run.step(pause, run.id, number, 0.01)
        except BaseException:
            continue


@perdure.agent
async def blocks(run, path):
    """Blocks the event loop until a file is there."""
    until_there(run.id, path)
    return "back"


@perdure.tool
def charge(run, number, gate):
    """Unsafe: called once, or a person is asked. It answers when a file is there."""
    return pause(run, number, 0, gate)


@perdure.agent
def buys(run, gate):
    return run.act(charge, run.id, 0, gate) + run.act(charge, run.id, 1, gate)


@perdure.agent
def buys_in_a_step(run, gate):
    """The control: a call of which no ledger knows."""
    return run.step(pause, run.id, 0, 0, gate)


@perdure.agent
async def abuys(run, gate):
    return sum(await asyncio.gather(*(run.act(charge, run.id, number, gate) for number in (0, 1))))


@perdure.agent
async def splits(run, gate, begun):
    """One branch of its group fails as soon as another is in the middle of a call."""

    async def fail():
        await run.step(look_for, begun)
        raise LookupError("this branch fails")

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(run.act(charge, run.id, 1, gate))
            group.create_task(fail())
    except* LookupError:
        pass
    return await run.step(pause, run.id, 2, 0)


async def look_for(path):
    while not os.path.exists(path):  # noqa: PTH110, ASYNC110, ASYNC240
        await asyncio.sleep(0.01)


@perdure.agent(name="parent_of_plod")  # tests/doors/cli has a parent of its own
async def parent(run, steps, gate):
    child = await run.start(plod, steps, 0.01, gate)
    return [await child.result(), await run.step(apause, run.id, steps, 0)]
