"""Peers beside us: for the figures that have a counterpart, what another framework does on the same disk beside the same floor.

`run` asks for them when somebody wants peers. Each is a program in the peer's own interpreter (`peers/`, evaluation/peers.py).
Where a peer would take too long it does less, and the figure says how much. A peer that is not installed is said to be so, and
nothing else is affected. Restate and Absurd are not among them: they need servers of their own.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from perdure.errors import Unavailable
from perdure.evaluation import peers
from perdure.evaluation.bench.case import Context, Figure, PeerFigure, between
from perdure.evaluation.bench.floor import Rate
from perdure.evaluation.bench.peers import TURNS

PROGRAMS = f"{__package__}.peers"
HOW = "perdure bench --peers --install-peers"
SYNCS = ("strace", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o")
MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made there
TIMEOUT_SECONDS = 900
ERROR_CHARS = 200


class Counterpart(msgspec.Struct, frozen=True):
    """A peer's counterpart of a figure. figure: how its name begins; program: its name in `peers/PEER.py`; about: what is used.

    count: how many at full size; ours: how many we do, if that is more; least: how many at the smallest size, as with us.
    """

    case: str
    figure: str
    peer: str
    program: str
    about: str
    count: int
    measure: Callable[[Counterpart, Context], PeerFigure]
    ours: int = 0
    least: int = 100

    def scaled(self, context: Context) -> int:
        """How many, in whole twenties: many at once do twenty each."""
        return context.count(self.count // TURNS, self.least // TURNS) * TURNS

    def detail(self, said: str) -> str:
        """The means and the findings; and whether it was less than ours."""
        less = f"; scaled down: {self.count:,} where ours are {self.ours:,}" if self.ours else ""
        return f"{self.about}: {said}{less}"


def ran(peer: str, program: str, folder: Path, count: int, *before: str) -> Rate:
    """Run a peer's program and read what it says. before: words that start it. Raises Unavailable with its last words."""
    module = f"{PROGRAMS}.{peer.replace('-', '_')}"
    command = [*before, str(peers.python(peer)), "-m", module, program, str(folder), str(count)]
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            command, env=peers.environment(), capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{program} took longer than {TIMEOUT_SECONDS} s", path=peer) from None
    try:
        return Rate(**json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, ValueError, TypeError):
        last = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        raise Unavailable(f"{program}: {last[:ERROR_CHARS]}", path=peer) from None


# -- how each is measured ----------------------------------------------------------------------------------------


def rate(own: Counterpart, context: Context) -> PeerFigure:
    """How many a second, beside the floor."""
    with context.scratch() as folder:
        floor, found = between(
            context.sqlite_floor, lambda: ran(own.peer, own.program, folder, own.scaled(context))
        )  # fmt: skip
    said = f"{found.per_second:,.0f}/s of {floor.per_second:,.0f}/s"
    return PeerFigure(found.per_second / floor.per_second, "× floor", own.detail(said))


def syncs(own: Counterpart, context: Context) -> PeerFigure:
    """Syncs that reach the kernel for each of them: what twice as many take more, so that setting up does not count."""
    if shutil.which(SYNCS[0]) is None:
        return PeerFigure(None, "syncs", f"{SYNCS[0]} is not installed")
    count = own.scaled(context)
    made = [_synced(own, context, times * count) for times in (1, 2)]
    return PeerFigure((made[1] - made[0]) / count, "syncs", own.detail(f"{made[1] - made[0]} for {count}"))


def _synced(own: Counterpart, context: Context, count: int) -> int:
    with context.scratch() as folder:
        log = folder / "trace"
        ran(own.peer, own.program, folder, count, *SYNCS, str(log))
        return sum("sync(" in line for line in log.read_text().splitlines())


def disk(own: Counterpart, context: Context) -> PeerFigure:
    """The bytes that it takes on disk afterwards."""
    with context.scratch() as folder:
        ran(own.peer, own.program, folder, own.scaled(context))
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return PeerFigure(size / 1e6, "MB", own.detail(f"{own.scaled(context)} turns"))


def resume(own: Counterpart, context: Context) -> PeerFigure:
    """A new process until it is where the first one was, interpreter included. It is brought there in memory, which is sooner."""
    count = own.scaled(context)
    with context.scratch() as folder, tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as quick:
        ran(own.peer, "begun", Path(quick), count)
        seconds = min(_resumed(own, Path(quick), folder / str(number), count) for number in range(2))
    # A time, in contrast to a ratio, is another one where less is done.
    unit = f"s, {count:,} steps" if own.ours else "s"
    return PeerFigure(seconds, unit, own.detail(f"{count:,} steps"))


def _resumed(own: Counterpart, made: Path, folder: Path, count: int) -> float:
    shutil.copytree(made, folder)
    began = time.perf_counter()
    ran(own.peer, own.program, folder, count)
    return time.perf_counter() - began


ONE, MANY, STEPS, RUNS = "one writer, SQLite", "1,000 sessions at once", "steps of one run, sync", "1,000 runs at once"
COUNTERPARTS = [
    Counterpart(
        case="writer",
        figure=ONE,
        peer="openai-agents",
        program="turns",
        about="SQLiteSession",
        count=1_000,
        measure=rate,
        ours=3_000,
    ),
    Counterpart(
        case="writer",
        figure=ONE,
        peer="google-adk",
        program="turns",
        about="SqliteSessionService",
        count=1_000,
        measure=rate,
        ours=3_000,
    ),
    Counterpart(
        case="crowd",
        figure=MANY,
        peer="langgraph",
        program="crowd",
        about="a graph with messages",
        count=1_000,
        measure=rate,
        ours=20_000,
    ),
    Counterpart(
        case="crowd",
        figure=MANY,
        peer="openai-agents",
        program="crowd",
        about="SQLiteSession",
        count=2_000,
        measure=rate,
        ours=20_000,
    ),
    Counterpart(
        case="steps",
        figure=STEPS,
        peer="langgraph",
        program="steps",
        about="tasks of an entrypoint",
        count=1_000,
        measure=rate,
    ),
    Counterpart(
        case="steps", figure=STEPS, peer="dbos", program="steps", about="steps of a workflow", count=1_000, measure=rate
    ),
    Counterpart(
        case="runs",
        figure=RUNS,
        peer="langgraph",
        program="runs",
        about="tasks of entrypoints",
        count=2_000,
        measure=rate,
        ours=20_000,
    ),
    Counterpart(
        case="runs",
        figure=RUNS,
        peer="dbos",
        program="crowd",
        about="steps of workflows",
        count=1_000,
        measure=rate,
        ours=20_000,
    ),
    Counterpart(
        case="syncs",
        figure="syncs per durable write",
        peer="openai-agents",
        program="turns",
        about="SQLiteSession",
        count=200,
        measure=syncs,
        ours=3_000,
    ),
    Counterpart(
        case="syncs",
        figure="syncs per durable write",
        peer="google-adk",
        program="turns",
        about="SqliteSessionService",
        count=200,
        measure=syncs,
        ours=3_000,
    ),
    Counterpart(
        case="run-syncs",
        figure="syncs per step",
        peer="langgraph",
        program="steps",
        about="tasks of an entrypoint",
        count=200,
        measure=syncs,
        ours=1_000,
    ),
    Counterpart(
        case="run-syncs",
        figure="syncs per step",
        peer="dbos",
        program="steps",
        about="steps of a workflow",
        count=200,
        measure=syncs,
        ours=1_000,
    ),
    Counterpart(
        case="disk",
        figure="disk after",
        peer="langgraph",
        program="turns",
        about="a graph with messages",
        count=400,
        measure=disk,
        least=40,
    ),
    Counterpart(
        case="resume",
        figure="resume a run",
        peer="langgraph",
        program="resumed",
        about="tasks of an entrypoint",
        count=1_000,
        measure=resume,
        ours=10_000,
        least=500,
    ),
    Counterpart(
        case="resume",
        figure="resume a run",
        peer="dbos",
        program="resumed",
        about="steps of a workflow",
        count=10_000,
        measure=resume,
        least=500,
    ),
]
NAMES = tuple(dict.fromkeys(each.peer for each in COUNTERPARTS))


def wanted(cases: list[str]) -> list[str]:
    """The peers that have something to be put beside these cases."""
    return [name for name in NAMES if any(each.peer == name and each.case in cases for each in COUNTERPARTS)]


def added(case: str, figures: list[Figure], context: Context, lacking: dict[str, str]) -> list[Figure]:
    """The figures of a case, each with what its peers do. lacking: peers that are not there, with the reason."""
    return [
        msgspec.structs.replace(figure, peers=_found(case, figure, figures, context, lacking)) for figure in figures
    ]


def _found(
    case: str, figure: Figure, figures: list[Figure], context: Context, lacking: dict[str, str]
) -> dict[str, PeerFigure]:
    found: dict[str, PeerFigure] = {}
    for each in COUNTERPARTS:
        first = next((other for other in figures if other.measure.startswith(each.figure)), None)
        if each.case == case and first is figure:
            found[each.peer] = _measured(each, context, lacking.get(each.peer, ""))
    return found


def _measured(own: Counterpart, context: Context, lacking: str) -> PeerFigure:
    if lacking:
        return PeerFigure(None, "", lacking)
    try:
        return own.measure(own, context)
    except Unavailable as error:
        return PeerFigure(None, "", str(error))
