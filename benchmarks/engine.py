"""Figures of the engine: how deep a call is, how much code one recovered effect takes, and what a verb costs in CPU time.

python benchmarks/engine.py             all of them, as a table
python benchmarks/engine.py --frames    also the frames from run.act to the ledger's commit, by name
python benchmarks/engine.py --traced    also the functions of one recovered run.act, by module

Functions and modules: an idempotent run.act whose process was killed inside the call, taken and driven to its end by a worker
that has done so before. Looking for runs and waiting are not counted. CPU: of the process, with the database in memory, the best
of several rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import perdure
from perdure.effects import ledger
from perdure.handles.colours import run_for
from perdure.handles.working import open_for_worker
from perdure.planes.execution import workers
from perdure.planes.execution.leases import Company
from perdure.runtime.worker import Worker, WorkerSettings

PACKAGE = f"{Path(perdure.__file__).parent}{os.sep}"
ENGINE = ("effects/", "runtime/", "handles/")
ROUNDS = 7
VERBS = 400
STACK: list[str] = []
DYING = False


@perdure.tool(kind="idempotent")
def send(number: int) -> int:
    """Something outside; a process that is to die does so in the middle of it."""
    if DYING:
        os._exit(9)
    return number


@perdure.agent
def one_act(run: perdure.Run, number: int) -> int:
    """One effect."""
    return run.act(send, number)


@perdure.agent
def many(run: perdure.Run, verb: str) -> None:
    """So many of one verb; what they cost in CPU time is put into SPENT."""
    call: Callable[[int], Any] = {"step": lambda at: run.step(abs, at), "effect": lambda at: run.act(send, at)}[verb]
    call(-1)
    began = time.process_time()
    for at in range(VERBS):
        call(at)
    SPENT.append((time.process_time() - began) / VERBS * 1e6)


SPENT: list[float] = []


def named(frame: FrameType) -> str:
    """A frame by its module and function."""
    return f"{frame.f_code.co_filename.removeprefix(PACKAGE)}:{frame.f_code.co_qualname}"


def frames() -> list[str]:
    """The frames from run.act to the verb that commits, both included."""

    def looked(verb: Callable[..., Any]) -> Callable[..., Any]:
        def look(*args: Any, **kwargs: Any) -> Any:
            frame: FrameType | None = sys._getframe(1)
            STACK.clear()
            while frame is not None and frame.f_code.co_name != "one_act":
                STACK.append(named(frame))
                frame = frame.f_back
            return verb(*args, **kwargs)

        return look

    before = ledger.commit_own
    ledger.commit_own = looked(before)
    try:
        with perdure.open("memory:") as store:
            store.drive(one_act, 1)
    finally:
        ledger.commit_own = before
    return [*reversed(STACK), "effects/ledger.py:commit_own"]


def killed(url: str, number: int) -> str:
    """A run whose process was killed inside its call."""
    with perdure.open(url) as store:
        run = store.start(one_act, number).id
    if (child := os.fork()) == 0:
        global DYING  # noqa: PLW0603 - of this process alone
        DYING = True
        with perdure.open(url) as store:
            store.recover()
        os._exit(0)
    os.waitpid(child, 0)
    return run


def traced() -> dict[str, set[str]]:
    """The functions of one recovered run.act, by module."""
    found: dict[str, set[str]] = defaultdict(set)
    tracing = threading.Event()

    def note(frame: FrameType, event: str, _arg: object) -> None:
        code = frame.f_code
        if event == "call" and tracing.is_set() and code.co_filename.startswith(PACKAGE):
            found[code.co_filename.removeprefix(PACKAGE)].add(f"{code.co_qualname}:{code.co_firstlineno}")

    async def recover(url: str) -> None:
        caller = open_for_worker(url, actor="worker", tenant="default", lease_seconds=60.0)
        worker = Worker(caller, {one_act.name: one_act}, WorkerSettings(), run_for)
        await worker._introduce(caller)
        core, wanted = caller.core, workers.drivable([one_act.name], [one_act.program])
        for trace in (False, True):
            killed(url, 1)
            seen = await caller.read(workers.look, wanted, 10, core.liveness.is_dead, core.holder)
            if trace:
                tracing.set()
            task = await worker._claim(seen.suspects[0], Company.NOBODY)
            assert task is not None
            await task
            tracing.clear()
        await worker.close()

    threading.setprofile(note)  # of threads that are begun from here on: the lane's, and the agent's
    sys.setprofile(note)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(recover(f"sqlite:///{folder}/a.db"))
    sys.setprofile(None)
    threading.setprofile(None)
    return found


def cpu_us() -> dict[str, float]:
    """The cost of a verb, in microseconds of CPU time, with the database in memory."""
    found: dict[str, float] = {}
    for verb in ("step", "effect"):
        SPENT.clear()
        for _ in range(ROUNDS):
            with perdure.open("memory:") as store:
                store.drive(many, verb)
        found[verb] = min(SPENT)
    rounds: list[float] = []
    for _ in range(ROUNDS):
        with perdure.open("memory:") as store:
            session = store.session("s")
            session.say("user", "x" * 100)
            began = time.process_time()
            for _ in range(VERBS):
                session.say("user", "x" * 100)
            rounds.append((time.process_time() - began) / VERBS * 1e6)
    found["say"] = min(rounds)
    return found


def main() -> None:
    """Print them."""
    parser = argparse.ArgumentParser(description="Figures of the engine.")
    parser.add_argument("--frames", action="store_true", help="name the frames")
    parser.add_argument("--traced", action="store_true", help="name the functions")
    asked = parser.parse_args()
    way, called, cost = frames(), traced(), cpu_us()
    print(f"frames from run.act to ledger.commit_own    {len(way)}")
    for each in way if asked.frames else ():
        print(f"    {each}")
    engine = {module: found for module, found in called.items() if module.startswith(ENGINE)}
    print(f"functions of a recovered run.act, modules   {sum(map(len, called.values()))} in {len(called)}")
    print(f"    of these the engine's                   {sum(map(len, engine.values()))} in {len(engine)}")
    for module, functions in sorted(called.items()) if asked.traced else ():
        print(f"    {module}: {', '.join(sorted(functions))}")
    print(
        "CPU µs of a say, a step, an effect          "
        + ", ".join(f"{cost[each]:.0f}" for each in ("say", "step", "effect"))
    )


if __name__ == "__main__":
    main()
