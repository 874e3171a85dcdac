"""Programs that make the same calls in other groupings: killed at each point of the first life, continued as another grouping.

    regrouping.py sweep [--share PERCENT] [--seed N] [--unheld] [OLD:NEW …]   lives cases, prints what is wrong and counts all
    regrouping.py serve                                                      lives what stands in its input, a JSON list a line

A pair of the same grouping is an unchanged program: it is never parked. `--unheld` is the control: nothing is held back.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import perdure
from perdure.model import crash_points

POINTS = ("lane.after_commit", "effect.call.before", "called")
CALLS = ("ann", "thought", "bob")
ANSWERS = ("answer", "dan")
PARTS = {"answer": ("answer", "eve", "fay")}  # a model's answer with the mails that it asks for
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
    """The outcome of a case: how the run ended and why, and the calls that the outside world saw, in order."""

    status: str
    reason: str | None
    recorded: list[str]  # the answers of models that the earlier lives recorded
    begun: list[str]  # the calls of the children that the first life began
    before: list[str]  # in the earlier lives
    after: list[str]  # in the others


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


@perdure.tool(name="post")
def post(whom: str) -> str:
    return Witness.see(whom)


@perdure.tool(name="ring", kind="idempotent")
async def ring(whom: str) -> str:
    return whom if whom in Witness.seen() else Witness.see(whom)


async def think(about: str) -> str:
    return Witness.see(about)


async def answer(about: str) -> dict[str, Any]:
    Witness.see(about)
    return {"calls": [{"id": whom, "tool": "mail", "args": {"whom": whom}} for whom in PARTS["answer"][1:]]}


async def do(run: perdure.AsyncRun, call: str) -> str:
    """One logical call: a model is paid for it, or a mail is sent, which no machine can take back."""
    if call == "answer":
        return str((await run.respond(answer, call, tools=[mail])).value)
    return await (run.model(think, call) if call == "thought" else run.act(mail, call))


@perdure.agent(name="doing")
async def doing(run: perdure.AsyncRun, call: str) -> str:
    return await do(run, call)


Verbs = list[Callable[[], Awaitable[str]]]
Grouping = Callable[[perdure.AsyncRun, tuple[str, ...]], Awaitable[list[str]]]


async def in_order(verbs: Verbs) -> list[str]:
    return [await verb() for verb in verbs]


async def gathered(verbs: Verbs) -> list[str]:
    return await asyncio.gather(*(verb() for verb in verbs))


def verbs_of(run: perdure.AsyncRun, calls: tuple[str, ...]) -> Verbs:
    return [lambda call=call: do(run, call) for call in calls]  # type: ignore[misc]


async def sequence(run: perdure.AsyncRun, calls: tuple[str, ...]) -> list[str]:
    return await in_order(verbs_of(run, calls))


async def gather(run: perdure.AsyncRun, calls: tuple[str, ...]) -> list[str]:
    return await gathered(verbs_of(run, calls))


async def task_group(run: perdure.AsyncRun, calls: tuple[str, ...]) -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(verb()) for verb in verbs_of(run, calls)]  # type: ignore[arg-type]
    return [task.result() for task in tasks]


async def wait_for(run: perdure.AsyncRun, calls: tuple[str, ...]) -> list[str]:
    return [await asyncio.wait_for(verb(), 60) for verb in verbs_of(run, calls)]


async def timeout(run: perdure.AsyncRun, calls: tuple[str, ...]) -> list[str]:
    async with asyncio.timeout(60):
        return await in_order(verbs_of(run, calls))


async def deadline(run: perdure.AsyncRun, calls: tuple[str, ...]) -> list[str]:
    async with asyncio.timeout(60):
        return await gathered(verbs_of(run, calls))


async def named(run: perdure.AsyncRun, calls: tuple[str, ...], prefix: str = "") -> list[str]:
    branches = [(run.branch(prefix + call), call) for call in calls]
    return await gathered([lambda branch=branch, call=call: do(branch, call) for branch, call in branches])  # type: ignore[misc]


async def renamed(run: perdure.AsyncRun, calls: tuple[str, ...]) -> list[str]:
    return await named(run, calls, "other-")


async def child(run: perdure.AsyncRun, calls: tuple[str, ...]) -> list[str]:
    return [await run.call(doing, call) for call in calls]


async def children(run: perdure.AsyncRun, calls: tuple[str, ...]) -> list[str]:
    return await asyncio.gather(*(run.call(doing, call) for call in calls))


async def saga(run: perdure.AsyncRun, calls: tuple[str, ...]) -> list[str]:
    async with run.saga():
        return await sequence(run, calls)


async def saga_of_branches(run: perdure.AsyncRun, calls: tuple[str, ...]) -> list[str]:
    async with run.saga():
        return await gather(run, calls)


GROUPINGS: dict[str, Grouping] = {
    fn.__name__: fn
    for fn in (
        sequence, gather, task_group, wait_for, timeout, deadline, named, renamed, child, children, saga, saga_of_branches,
    )
}  # fmt: skip
ANSWERED = (
    "sequence",
    "gather",
    "wait_for",
    "named",
    "renamed",
    "child",
)  # groupings in which a model's answer is tried, too


# -- unchanged programs of other kinds ------------------------------------------------------------------------------------------


async def watched(run: perdure.AsyncRun, calls: tuple[str, ...]) -> list[str]:
    """Beside a watcher that sleeps and steps for ever. A run with one does not rest, so these calls leave no doubt."""

    async def watch() -> None:
        while True:
            await asyncio.sleep(0)
            await run.step(str.upper, "look")

    watcher = asyncio.create_task(watch())
    try:
        return await asyncio.gather(*(run.act(ring, call) for call in calls))
    finally:
        watcher.cancel()


async def watching(run: perdure.AsyncRun, calls: tuple[str, ...]) -> list[str]:
    """The main line is the watcher, and does things after the calls were begun."""
    doing_all = asyncio.create_task(sequence(run, calls))
    for _ in range(4):
        await asyncio.sleep(0)
        await run.step(str.upper, "look")
    return await doing_all


async def one_thread(run: perdure.AsyncRun, calls: tuple[str, ...]) -> list[str]:
    """Each call waits for its turn in a pool of one thread."""
    with ThreadPoolExecutor(1) as pool:

        async def in_turn(call: str) -> str:
            await asyncio.get_running_loop().run_in_executor(pool, str.upper, call)
            return await do(run, call)

        return await asyncio.gather(*map(in_turn, calls))


async def cancelled_early(run: perdure.AsyncRun, calls: tuple[str, ...]) -> list[str]:
    """A task that is cancelled before it begins, and one that is cancelled with a task of its own."""

    async def nested() -> None:
        await asyncio.gather(do(run, "never"), do(run, "neither"))

    never = asyncio.create_task(nested())
    never.cancel()
    return await gather(run, calls)


class Overdue:
    """A deadline that passes while a model thinks, in the first life; at a replay it is a short one."""

    passed = False

    @classmethod
    async def ponder(cls) -> str:
        cls.passed = True
        assert cls.deadline is not None
        cls.deadline.reschedule(asyncio.get_running_loop().time())
        await asyncio.Event().wait()
        return ""

    deadline: asyncio.Timeout | None = None


async def overdue(run: perdure.AsyncRun, calls: tuple[str, ...]) -> list[str]:
    """A deadline around a gather fires; then the calls are made."""
    is_replay = any(each.name == "len" for each in await run_steps(run))
    try:
        async with asyncio.timeout(0.01 if is_replay else 60) as Overdue.deadline:
            await asyncio.gather(run.model(Overdue.ponder), two_steps(run))
    except TimeoutError:
        await run.step(len, "too slow")
    return await gather(run, calls)


async def two_steps(run: perdure.AsyncRun) -> None:
    await run.step(str.upper, "look")
    await run.model(think, "aside")
    await asyncio.Event().wait()


async def run_steps(run: perdure.AsyncRun) -> list[Any]:
    """The steps of a run by now: whether a drive is the first one, which a program should not know."""
    return [entry.record for _, entry in run._engine.replay.journal.entries if entry.kind == "step"]


class ShuffledLoop(asyncio.SelectorEventLoop):
    """An event loop that runs what is ready in a random order."""

    def _run_once(self) -> None:
        ready = self._ready  # type: ignore[attr-defined]
        random.shuffle(ready)
        super()._run_once()  # type: ignore[misc]


async def shuffled(run: perdure.AsyncRun, calls: tuple[str, ...]) -> list[str]:
    """Branches in branches, under a loop that runs them in any order (see `_policy`)."""

    async def nested(some: tuple[str, ...]) -> list[str]:
        await asyncio.sleep(0)
        return await gather(run, some)

    found = await asyncio.gather(nested(calls[:2]), nested(calls[2:]), watched(run, ()))
    return [each for some in found for each in some]


async def patched(run: perdure.AsyncRun, calls: tuple[str, ...]) -> list[str]:
    """A program that keeps the old way for runs that were past the place."""
    return await (gather if await run.patched("gathered") else sequence)(run, calls)


async def waits(run: perdure.AsyncRun, calls: tuple[str, ...]) -> list[str]:
    """`asyncio.wait_for` around one verb and around several, in a branch, in another one of it, and around a gather."""

    async def two(some: tuple[str, ...]) -> list[str]:
        await run.step(str.upper, "begun")
        return [await asyncio.wait_for(asyncio.wait_for(do(run, call), 60), 60) for call in some]

    first = await asyncio.wait_for(two(calls[:1]), 60)
    rest = await asyncio.wait_for(asyncio.gather(two(calls[1:2]), asyncio.wait_for(two(calls[2:]), 60)), 60)
    return [*first, *(call for some in rest for call in some)]


def in_threads(run: perdure.Run, calls: tuple[str, ...], threads: int) -> list[str]:
    """Named branches of a sync agent."""
    branches = {call: run.branch(call) for call in calls}
    with ThreadPoolExecutor(threads) as pool:
        return [*pool.map(lambda call: branches[call].act(post, call), calls)]


def sync(run: perdure.Run, calls: tuple[str, ...]) -> list[str]:
    return [run.act(post, call) for call in calls]


def sync_named(run: perdure.Run, calls: tuple[str, ...]) -> list[str]:
    return in_threads(run, calls, 3)


def sync_renamed(run: perdure.Run, calls: tuple[str, ...]) -> list[str]:
    branches = [(run.branch(f"other-{call}"), call) for call in calls]
    return [branch.act(post, call) for branch, call in branches]


def sync_one_thread(run: perdure.Run, calls: tuple[str, ...]) -> list[str]:
    return in_threads(run, calls, 1)


SYNC: dict[str, Callable[[perdure.Run, tuple[str, ...]], list[str]]] = {
    fn.__name__: fn for fn in (sync, sync_named, sync_renamed, sync_one_thread)
}
MAY_MOVE = {
    "wait_for",
    "timeout",
    "deadline",
    "answer-wait_for",
    "waits",
    *SYNC,
}  # under deadlines, or with threads of their own
CONTROLS: dict[str, Grouping] = {
    fn.__name__: fn for fn in (watched, watching, one_thread, cancelled_early, overdue, shuffled, patched, waits)
}
BEFORE = {"overdue": ("aside",)}  # calls that a program makes before those of its grouping


def pairs_to_live() -> list[tuple[str, str]]:
    """Every pair of groupings, of calls and of a model's answers, and each unchanged program of another kind."""
    answered = [f"answer-{name}" for name in ANSWERED]
    kinds = ([*GROUPINGS], answered, [name for name in SYNC if name != "sync_one_thread"])
    pairs = [(old, new) for kind in kinds for old in kind for new in kind]
    return pairs + [(name, name) for name in (*CONTROLS, "sync_one_thread")] + [("sequence", "patched")]


def calls_of(grouping: str) -> tuple[str, ...]:
    return ANSWERS if grouping.startswith("answer-") else ("ann", "bob") if grouping in SYNC else CALLS


def program(grouping: str) -> Any:
    """The agent in this grouping; after its calls it makes one more."""
    held: dict[str, Any] = (
        {"hold": HOLD_SECONDS} if "hold" in inspect.signature(perdure.Agent.__init__).parameters else {}
    )
    calls = calls_of(grouping)
    if grouping in SYNC:

        @perdure.agent(name="calling", **held)
        def calling_in_turn(run: perdure.Run) -> list[str]:
            return [*SYNC[grouping](run, calls), run.act(post, LAST)]

        return calling_in_turn
    grouped = (GROUPINGS | CONTROLS)[grouping.removeprefix("answer-")]

    @perdure.agent(name="calling", **held)
    async def calling(run: perdure.AsyncRun) -> list[str]:
        return [*await grouped(run, calls), await do(run, LAST)]

    return calling


# -- lives ----------------------------------------------------------------------------------------------------------------


def live(folder: str, grouping: str, point: int) -> int:
    """The first life: dies at the point, or counts its points."""
    reached = 0
    _enter(folder, grouping)

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


def survive(folder: str, grouping: str, point: int) -> int:
    """A life in the middle: continues the run, and dies at the point."""
    reached = 0
    _enter(folder, grouping)

    def strike() -> None:
        nonlocal reached
        reached += 1
        if reached == point:
            os._exit(KILLED)

    with perdure.open(f"sqlite:///{folder}/a.db", actor="me") as store:
        for name in POINTS:
            crash_points.arm(name, strike)
        _drive_on(store, grouping)
    return reached


def continued(folder: str, grouping: str) -> list[Any]:
    """The other lives, in which a person says of each doubt whether it happened."""
    _enter(folder, grouping)
    with perdure.open(f"sqlite:///{folder}/a.db", actor="me") as store:
        steps = [step for run in store.runs() for step in run.steps() if step.error is None]
        recorded = [
            *(step.value for step in steps if step.name == "think"),
            *("answer" for step in steps if step.name == "answer"),
        ]
        calls = [str(call) for run in store.runs(agent="doing") for call in run.record.args or ()]
        begun = [part for call in calls for part in PARTS.get(call, (call,))]
        record = _drive_on(store, grouping)
        return [record.status, record.reason or (record.error and str(record.error)), recorded, begun]


def _drive_on(store: perdure.Store, grouping: str) -> Any:
    (run,) = store.runs(agent="calling")
    for _ in range(LIVES_MAX):
        store.recover([program(grouping), doing])
        if run.refresh().status in ("completed", "failed", "parked"):
            break
        for effect in store.effects(in_doubt=True):
            whom = effect.record.args["whom"]
            effect.settle(perdure.Happened(whom) if whom in Witness.seen() else perdure.Absent(), by="ann", force=True)
    return run.refresh().record


def _enter(folder: str, grouping: str) -> None:
    Witness.path = Path(folder, "outside")
    Witness.path.touch()
    if grouping == "shuffled":
        random.seed(folder)
        policy = asyncio.get_event_loop_policy()
        policy._loop_factory = ShuffledLoop  # type: ignore[attr-defined]


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


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for one case, in memory if it can be."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)


def points_of(grouping: str) -> int:
    """The number of points of a first life."""
    with scratch() as folder:
        return forked(live, folder, grouping, 0)


def lived(case: Case) -> Outcome:
    """The outcome of a case."""
    with scratch() as folder:
        forked(live, folder, case.old, case.point)
        before = seen_in(folder)
        status, reason, recorded, begun = forked(continued, folder, case.new)
        return Outcome(status, reason, recorded, begun, before, seen_in(folder)[len(before) :])


def seen_in(folder: str) -> list[str]:
    """The calls that the outside world has seen."""
    return Path(folder, "outside").read_text().split()


def fault_of(case: Case, outcome: Outcome) -> str:
    """What is wrong with the outcome of a case; empty if nothing is."""
    models = {"thought", "answer", "aside"}
    asked = Counter(call for call in outcome.before if call in models)
    calls = Counter(outcome.before + outcome.after) - (asked - Counter(outcome.recorded))  # a death may lose an answer
    if twice := [call for call, times in calls.items() if times > 1]:
        return f"twice: {twice}"
    if outcome.status == "completed":
        due = {LAST, *(part for call in calls_of(case.new) for part in PARTS.get(call, (call,)))}
        return "" if {*calls} - models >= due - models else f"completed without all: {[*calls]}"
    if (outcome.status, outcome.reason) != ("parked", "changed"):
        return f"{outcome.status}: {outcome.reason}"
    if case.old == case.new:
        return "parked, and nobody changed it"
    sent = {*outcome.after} - {*outcome.begun}  # of children that are at work, nothing is taken back
    return f"noticed after {sorted(sent)}" if sent else ""


# -- the program ----------------------------------------------------------------------------------------------------------


def cases(pairs: list[tuple[str, str]], share: float, seed: int) -> Iterator[Case]:
    """Every case of these pairs, or some percent of them."""
    points = {old: points_of(old) for old in {old for old, _ in pairs}}
    found = [Case(old, new, point) for old, new in pairs for point in range(1, points[old] + 1)]
    return iter(random.Random(seed).sample(found, max(1, round(len(found) * share / 100))))


def sweep(options: argparse.Namespace) -> int:
    """Live the cases; the number of faults."""
    if options.unheld:
        from perdure.runtime.journal import Journal

        Journal.place_that_holds = lambda *_: None  # type: ignore[method-assign]
    wanted = {*options.pairs}
    pairs = [pair for pair in pairs_to_live() if not wanted or ":".join(pair) in wanted or pair[0] in wanted]
    counts: Counter[str] = Counter()
    try:
        for case in cases(pairs, options.share, options.seed):
            outcome = lived(case)
            fault = fault_of(case, outcome)
            counts[fault.partition(":")[0] or outcome.status] += 1
            if fault and not options.unheld:
                print(*case, fault, outcome, flush=True)  # noqa: T201 - its report
    finally:  # also when it is interrupted
        print(json.dumps({"cases": sum(counts.values()), **counts}))  # noqa: T201 - its report
    return sum(counts.values()) - counts["completed"] - counts["parked"]


def serve() -> None:
    """Live what stands in the input, each in a process of its own."""
    works: dict[str, Callable[..., Any]] = {work.__name__: work for work in (live, survive, continued)}
    for line in sys.stdin:
        name, *args = json.loads(line)
        print(json.dumps(forked(works[name], *args)), flush=True)  # noqa: T201 - its answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("sweep", "serve"))
    parser.add_argument("pairs", nargs="*", metavar="OLD:NEW")
    parser.add_argument("--share", type=float, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--unheld", action="store_true")
    options = parser.parse_args()
    if options.mode == "serve":
        serve()
    elif sweep(options) and not options.unheld:
        sys.exit(1)


if __name__ == "__main__":
    main()
