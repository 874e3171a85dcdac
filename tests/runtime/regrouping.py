"""Programs that make the same calls in other groupings: killed at each point of the first life, continued as another grouping.

As a program it lives the lives of the cases that stand in its input, a JSON list of (old, new, point) a line, each in processes
that it forks, and prints what came of each. `points` counts the points of a grouping's first life.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import perdure
from perdure.model import crash_points

POINTS = ("lane.after_commit", "effect.call.before", "called")
CALLS = ("ann", "thought", "bob")
LAST = "cat"
KILLED = 9
LIVES_MAX = 8
HOLD_SECONDS = 0.2


class Case(NamedTuple):
    """An old and a new grouping, and the point of the first life at which its process dies; 0: it does not."""

    old: str
    new: str
    point: int


class Outcome(NamedTuple):
    """What came of a case: how the run ended and why, and the calls that each side saw, in order."""

    status: str
    reason: str | None
    thought: bool  # whether the first life recorded what the model answered
    begun: list[str]  # the calls of the children that the first life began
    before: list[str]  # in the first life
    after: list[str]  # in all others


class Witness:
    """The outside world: a file to which each call is appended."""

    path = Path()

    @classmethod
    def see(cls, call: str) -> str:
        with cls.path.open("a") as file:
            file.write(f"{call}\n")
        crash_points.reach("called")
        return call

    @classmethod
    def seen(cls) -> list[str]:
        return cls.path.read_text().split()


@perdure.tool(name="mail")
async def mail(whom: str) -> str:
    return Witness.see(whom)


async def think(about: str) -> str:
    return Witness.see(about)


async def do(run: perdure.AsyncRun, call: str) -> str:
    """One logical call: a model is paid for it, or a mail is sent, which nobody can take back."""
    return await (run.model(think, call) if call == "thought" else run.act(mail, call))


@perdure.agent(name="doing")
async def doing(run: perdure.AsyncRun, call: str) -> str:
    return await do(run, call)


Verbs = list[Callable[[], Awaitable[str]]]


async def in_order(verbs: Verbs) -> list[str]:
    return [await verb() for verb in verbs]


async def gathered(verbs: Verbs) -> list[str]:
    return await asyncio.gather(*(verb() for verb in verbs))


async def grouped(verbs: Verbs) -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(verb()) for verb in verbs]  # type: ignore[arg-type]
    return [task.result() for task in tasks]


def verbs_of(run: perdure.AsyncRun) -> Verbs:
    return [lambda call=call: do(run, call) for call in CALLS]  # type: ignore[misc]


async def sequence(run: perdure.AsyncRun) -> list[str]:
    return await in_order(verbs_of(run))


async def gather(run: perdure.AsyncRun) -> list[str]:
    return await gathered(verbs_of(run))


async def task_group(run: perdure.AsyncRun) -> list[str]:
    return await grouped(verbs_of(run))


async def wait_for(run: perdure.AsyncRun) -> list[str]:
    return [await asyncio.wait_for(verb(), 60) for verb in verbs_of(run)]


async def timeout(run: perdure.AsyncRun) -> list[str]:
    async with asyncio.timeout(60):
        return await in_order(verbs_of(run))


async def deadline(run: perdure.AsyncRun) -> list[str]:
    async with asyncio.timeout(60):
        return await gathered(verbs_of(run))


async def named(run: perdure.AsyncRun, prefix: str = "") -> list[str]:
    branches = [(run.branch(prefix + call), call) for call in CALLS]
    return await gathered([lambda branch=branch, call=call: do(branch, call) for branch, call in branches])  # type: ignore[misc]


async def renamed(run: perdure.AsyncRun) -> list[str]:
    return await named(run, "other-")


async def child(run: perdure.AsyncRun) -> list[str]:
    return [await run.call(doing, call) for call in CALLS]


async def children(run: perdure.AsyncRun) -> list[str]:
    return await asyncio.gather(*(run.call(doing, call) for call in CALLS))


async def saga(run: perdure.AsyncRun) -> list[str]:
    async with run.saga():
        return await sequence(run)


async def saga_of_branches(run: perdure.AsyncRun) -> list[str]:
    async with run.saga():
        return await gather(run)


GROUPINGS: dict[str, Callable[[perdure.AsyncRun], Awaitable[list[str]]]] = {
    fn.__name__: fn  # type: ignore[attr-defined]
    for fn in (
        sequence, gather, task_group, wait_for, timeout, deadline, named, renamed, child, children, saga, saga_of_branches,
    )
}  # fmt: skip


def program(grouping: str) -> Any:
    """The agent in this grouping; after its calls it makes one more."""

    @perdure.agent(name="calling", hold=HOLD_SECONDS)
    async def calling(run: perdure.AsyncRun) -> list[str]:
        return [*await GROUPINGS[grouping](run), await do(run, LAST)]

    return calling


# -- lives ----------------------------------------------------------------------------------------------------------------


def live(folder: Path, grouping: str, point: int) -> int:
    """The first life: dies at the point, or counts its points."""
    reached = 0

    def strike() -> None:
        nonlocal reached
        reached += 1
        if reached == point:
            os._exit(KILLED)

    with perdure.open(f"sqlite:///{folder}/a.db", actor="me") as store:
        store.start(program(grouping), key="k")
        for name in POINTS:
            crash_points.arm(name, strike)
        while store.runs(agent="calling")[0].status != "completed":
            store.recover([program(grouping), doing])
    return reached


def continued(folder: Path, grouping: str) -> list[Any]:
    """The other lives, in which a person says of each doubt that it happened."""
    with perdure.open(f"sqlite:///{folder}/a.db", actor="me") as store:
        (run,) = store.runs(agent="calling")
        thought = any(step.name == "think" for each in store.runs() for step in each.steps())
        begun = [each.record.args[0] for each in store.runs(agent="doing")]
        for _ in range(LIVES_MAX):
            store.recover([program(grouping), doing])
            if run.refresh().status in ("completed", "failed", "parked"):
                break
            for effect in store.effects(in_doubt=True):
                whom = effect.record.args["whom"]
                effect.settle(perdure.Happened(whom) if whom in Witness.seen() else perdure.Absent(), by="ann")
        record = run.refresh().record
        return [record.status, record.reason or (record.error and str(record.error)), thought, begun]


def forked(work: Callable[..., Any], *args: Any) -> Any:
    """What a function gives in a process of its own; None if that died."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _in_child(write, work, args)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, KILLED), (args, status)
    return json.loads(text or "null")


def _in_child(write: int, work: Callable[..., Any], args: tuple[Any, ...]) -> NoReturn:
    status = 1
    try:
        os.write(write, json.dumps(work(*args)).encode())
        status = 0
    finally:
        os._exit(status)


def points_of(grouping: str) -> int:
    """The number of points of a first life."""
    with tempfile.TemporaryDirectory(dir=_shm()) as name:
        Witness.path = Path(name, "outside")
        Witness.path.touch()
        return forked(live, Path(name), grouping, 0)


def lived(case: Case) -> Outcome:
    """What came of a case."""
    with tempfile.TemporaryDirectory(dir=_shm()) as name:
        Witness.path = Path(name, "outside")
        Witness.path.touch()
        forked(live, Path(name), case.old, case.point)
        before = Witness.seen()
        ended = forked(continued, Path(name), case.new)
        return Outcome(*ended, before, Witness.seen()[len(before) :])


def _shm() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def fault_of(case: Case, outcome: Outcome) -> str:
    """What is wrong with the outcome of a case; empty if nothing is."""
    paid_again = (
        [] if outcome.thought or "thought" not in outcome.before else ["thought"]
    )  # the answer was lost by the kill
    calls = Counter(outcome.before + outcome.after) - Counter(paid_again)
    if twice := [call for call, times in calls.items() if times > 1]:
        return f"twice: {twice}"
    if outcome.status == "completed":
        return "" if set(calls) == {*CALLS, LAST} else f"completed without all: {[*calls]}"
    if (outcome.status, outcome.reason) != ("parked", "changed"):
        return f"{outcome.status}: {outcome.reason}"
    if case.old == case.new:
        return "parked, and nobody changed it"
    sent = {*outcome.after} - {*outcome.begun}  # of children that are at work, nothing is taken back
    return f"noticed after {sorted(sent)}" if sent else ""


def main() -> None:
    pairs = [(old, new) for old in GROUPINGS for new in GROUPINGS]
    if sys.argv[1:]:
        pairs = [(old, new) for old, new in pairs if f"{old}:{new}" in sys.argv or old in sys.argv]
    points = {old: points_of(old) for old in {old for old, _ in pairs}}
    counts: Counter[str] = Counter()
    for old, new in pairs:
        for point in range(1, points[old] + 1):
            outcome = lived(Case(old, new, point))
            fault = fault_of(Case(old, new, point), outcome)
            counts[fault.partition(":")[0] or outcome.status] += 1
            if fault:
                print(old, "->", new, point, fault, outcome, flush=True)  # noqa: T201 - its report
    print(sum(counts.values()), "cases", dict(counts))  # noqa: T201 - its report


if __name__ == "__main__":
    main()
