"""kill -9 at every point of an agent's life: nothing is done twice, nothing is lost, and every run comes to its end (P2-P4, P13).

The story (`sweep_agent`) has every kind of effect against a witness in a process of its own. It is killed at each named crash
point, at each write and sync of the database or the log, at each send to the server and to the witness, and in its recovery,
and is then left alone. What the witness saw is what counts. PERDURE_ROUNDS=100 makes every sweep complete, and a smaller
number takes so many percent of all points, by PERDURE_SEED. Without it they are
samples of the first time of each point and the first commit of each transition. With `--log-cli-level=INFO` the tests say how
many points they swept.
"""

from __future__ import annotations

import logging
import os
import random
import re
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest

from faults import forks
from faults.forks import Life, Order, Report
from faults.sweeps import (
    FULL,
    LANE,
    SHARE,
    Ground,
    Outcome,
    Point,
    arrivals,
    counted,
    every_point,
    first_points,
    remade,
    sampled,
    verified,
    wrong,
)
from faults.tracing import tracer
from faults.writer import SEED
from perdure.effects.ledger import ARROWS
from perdure.model.records.runs import RunStatus
from perdure.planes.execution import leases, runs, steps, waits

log = logging.getLogger(__name__)

UNKEYED = ("push", "mail")  # what the witness would not take for the same again
AT_THE_CALL = re.compile(
    r"lane\..*|files\..*|tool\..*|effect\.(call\..*|dispatch\.after|again\.after|(commit|fail|doubt|absent)\.before)"
)


BETWEEN_CALLS = re.compile(r"effect\.(dispatch\.before|(commit|fail)\.after)")
BLOBS = re.compile(r"artifact\..*")


def at_a_call(point: str, what: str) -> bool:
    """Whether a kill at this point can leave what was sent in doubt. In a batch an effect ends in the very commit that dispatches
    the next; in a gathering others send at the same time; a checkpoint's blobs are written before the commit that names them.
    """
    in_a_batch = "c/" in what or "/batch-" in what
    with_a_checkpoint = what.endswith("/by-hand")
    return "g/" in what or bool(
        AT_THE_CALL.fullmatch(point)
        or (in_a_batch and BETWEEN_CALLS.fullmatch(point))
        or (with_a_checkpoint and BLOBS.fullmatch(point))
    )


# -- named crash points -------------------------------------------------------------------------------------------


def floor(swept: Ground, report: Report) -> list[Point]:
    """The places that each sample has, whatever the seed: in each chapter, the first time that something of a tool has just
    arrived that the witness would count twice. On a server, where a life takes longer, in the first chapter alone.
    """
    firsts = {place: nth for nth, place in reversed([*enumerate(report.told, 1)])}
    return [
        ("tool.told", nth)
        for (chapter, tool), nth in firsts.items()
        if tool in UNKEYED and (swept.url is None or not chapter)
    ]


def test_a_kill_at_every_crash_point(swept):
    report = counted(swept)
    points = list(
        dict.fromkeys(
            [*floor(swept, report), *sampled(swept, every_point(report) if FULL else first_points(report), 16)]
        )
    )
    outcomes = {point: swept.killed(swept.case(at=point)) for point in points}
    for point in [point for point, each in outcomes.items() if not each.kills and not each.wrong]:
        outcomes[point] = swept.killed(swept.case(at=point))  # how often a run looks at the clock varies
    assert not wrong(outcomes.values())
    missed = [point for point, each in outcomes.items() if not each.kills]
    assert len(missed) <= len(points) // 50, missed
    settled = [(point[0], what) for point, each in outcomes.items() for what in each.settled]
    assert not [each for each in settled if not at_a_call(*each)]  # what a person must settle comes from a call alone
    verified(swept)
    log.info("killed at %d of %d points", len(points) - len(missed), len(points))


def test_a_kill_in_the_recovery_from_a_kill(swept):
    """Killed when something has just arrived, and again wherever the recovery gets to."""
    arrivals = counted(swept).points["tool.told"]
    pairs = sampled(swept, [(first, second) for first in range(1, arrivals + 1) for second in range(1, 25)], 8)
    outcomes = [swept.killed(swept.case(at=("tool.told", first)), ("*", second)) for first, second in pairs]
    assert not wrong(outcomes)
    assert {each.kills for each in outcomes} == {2}
    verified(swept)
    log.info("killed again at %d points of recovery", len(pairs))


def test_random_kills_around_the_call(swept):
    """Whatever is sent takes a while to land; the sender is killed some time in between, and sometimes once more."""
    rng = random.Random(SEED)
    slow = dict.fromkeys(("label", "pay", "push", "mail", "shove", "ring", "lend", "stumble"), 0.004)
    began = time.monotonic()
    forks.run(swept.case(slow=slow))
    life_seconds = time.monotonic() - began
    outcomes: list[Outcome] = []
    while sum(each.kills for each in outcomes) < (3 * SHARE or 4):
        order = swept.case(slow=slow)
        kills = sum(killed_after(swept, order, rng.uniform(0, life_seconds)) for _ in range(rng.choice([1, 1, 2])))
        outcomes.append(swept.killed(order)._replace(kills=kills))
    log.info("seed %d: %d random kills, %d settled by a person", SEED, sum(each.kills for each in outcomes),
             sum(len(each.settled) for each in outcomes))  # fmt: skip
    assert not wrong(outcomes)
    verified(swept)


def killed_after(swept: Ground, order: Order, seconds: float) -> bool:
    """Begin a life and kill it after some time; whether it had not ended by itself."""
    life = Life(order)
    life.go()
    time.sleep(seconds)
    life.kill()
    return life.wait().how == "kill"


# -- system calls -------------------------------------------------------------------------------------------------

PARTS = 4 if FULL else 1  # of what takes long, for several workers
CALLS = [
    *(("sqlite", "pwrite64", part, PARTS) for part in range(PARTS)),  # the database and its WAL,
    ("sqlite", "fdatasync", 0, 1),
    *(("sqlite", call, 0, 1) for call in ("connect", "sendto", "recvfrom")),  # the witness,
    *(("postgres", "sendto", part, PARTS) for part in range(PARTS)),  # the server, and the witness
    *(("files", call, 0, 1) for call in ("write", "fdatasync")),  # the log
]
DURABLE = {
    "sqlite": ("", "-wal"),
    "files": ("/log/000001.jsonl",),
    "postgres": (),
}  # what a store's own calls are about
NETWORK = ("connect", "sendto", "recvfrom")


@pytest.fixture
def strace(swept) -> str:
    found = shutil.which("strace")
    if found is None:
        pytest.skip("strace is missing: no kills at single system calls")
    order = swept.case(chapter="none")
    if not traced(swept, found, order, "connect"):
        pytest.skip("strace may not trace here: no kills at single system calls")
    return found


def traced(swept: Ground, strace: str, order: Order, call: str, *more: str, output: str = os.devnull) -> str:
    """Live with a tracer attached from the first moment on; gives how it ended, "" if nothing can be traced here."""
    life = Life(order)
    files = [] if call in NETWORK else [f"{swept.path(order.case)}{end}" for end in DURABLE[swept.kind]]
    flags = [*(flag for path in files for flag in ("-P", path)), "-e", f"trace={call}", *more]
    with tracer(strace, life.pid, *flags, output=output) as attached:
        life.go()
        ended = life.wait()
    return ended.how if attached else ""


def calls_of_a_life(swept: Ground, strace: str, call: str) -> int:
    """How many its busiest thread makes: a tracer counts those of each for itself."""
    order = swept.case(chapter="sync")
    output = Path(f"{swept.path(order.case)}.calls")
    assert traced(swept, strace, order, call, output=str(output)) == "exit"
    threads = Counter(line.split()[0] for line in output.read_text().splitlines() if f" {call}(" in line)
    return max(threads.values())


@pytest.mark.parametrize(("swept", "call", "part", "parts"), CALLS, indirect=["swept"])
def test_a_kill_at_every_write_sync_and_send(swept, strace, call, part, parts):
    times = calls_of_a_life(swept, strace, call)
    assert times > 20
    chosen = sampled(swept, [*range(1 + part, times + 1, parts)], 3)
    outcomes = []
    for nth in chosen:
        order = swept.case(chapter="sync")
        how = traced(swept, strace, order, call, "-e", f"inject={call}:signal=KILL:when={nth}")
        outcomes.append(swept.killed(order)._replace(kills=int(how == "kill")))
    assert not wrong(outcomes)
    killed = sum(each.kills for each in outcomes)
    assert killed >= len(outcomes) * 0.9 - 1  # how often a run looks at the clock varies
    log.info("%s, %s: killed at %d of %d calls", swept.kind, call, killed, times)


# -- controls -----------------------------------------------------------------------------------------------------


def test_control_a_variant_that_records_no_dispatch_does_things_twice(swept):
    report = counted(swept, variant="unrecorded", chapter="journey")
    points = sampled(swept, arrivals(report, *UNKEYED), 2)  # each of them shows it
    outcomes = [swept.killed(swept.case(variant="unrecorded", chapter="journey", at=point)) for point in points]
    twice = {what.rpartition("/")[2] for each in outcomes for what in each.twice}
    assert all(each.twice for each in outcomes)
    log.info("a variant without a dispatch record did twice: %s", ", ".join(sorted(twice)))


@pytest.mark.parametrize(("variant", "again"), [("", False), ("trusting", True)])
def test_control_a_variant_that_trusts_absent_at_once_does_things_twice(swept, variant, again):
    """What was sent lands after its sender died: who asks at once hears "absent"."""
    for seconds in (1.0, 5.0, 20.0) if again else (1.0,):  # who asks "at once" may take a while, on a busy machine
        outcome = late_landing(swept, variant, seconds)
        assert not outcome.lost
        if outcome.twice:
            break
    assert bool(outcome.twice) is again


def late_landing(swept: Ground, variant: str, seconds: float) -> Outcome:
    """Killed at the moment when something is under way that lands after so many seconds: one is within its time."""
    return swept.killed(swept.case(slow={"drift": seconds}, at=("tool.sent", 1), variant=variant, chapter="drifter"))


# -- every transition ---------------------------------------------------------------------------------------------

IN_RECOVERY = {"run.recovered"}
IN_ANOTHER = {"undone", "retry"}  # arrows in the commit of something else: its points are theirs


def transitions() -> set[str]:
    """The kinds of events that move an effect, a run or a wait: of the ledger's table, and as the planes write them."""
    literal = re.compile(r'"((?:run|step)\.[a-z_]+)"')
    of_runs = {
        kind
        for module in (runs, leases, steps, waits)
        for kind in literal.findall(Path(str(module.__file__)).read_text())
    }
    ends = {f"run.{status}" for status in (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)}
    of_waits = {
        f"{what}.{end}" for what in ("ask", "run.wait") for end in ("opened", "answered", "expired", "withdrawn")
    }
    no_kinds = {
        "run.wait",
        steps.INTERRUPTED,
        "run.held",
    }  # the last tells people; it moves nothing, and no life reads it
    return {arrow.kind for arrow in ARROWS.values()} | (of_runs - no_kinds) | ends | of_waits


def uncovered(report: Report, wanted: set[str]) -> set[str]:
    """Transitions whose commit has no crash point before it and after it."""
    before, after = (report.points.get(name, 0) for name in LANE)
    covered = {kind for number, kinds in enumerate(report.commits, 1) if number <= min(before, after) for kind in kinds}
    return wanted - covered


def test_every_transition_has_a_crash_point_before_and_after_it(on_sqlite):
    first = counted(on_sqlite)
    killed = on_sqlite.case(at=("effect.call.after", 9))
    forks.run(killed)
    recovery = forks.run(remade(killed, at=None, counting=True)).report
    assert not uncovered(first, transitions() - IN_RECOVERY)
    assert not uncovered(recovery, IN_RECOVERY)
    named = {f"effect.{arrow}.{side}" for arrow in ARROWS.keys() - IN_ANOTHER for side in ("before", "after")}
    assert not named - first.points.keys()


def test_control_a_transition_without_a_crash_point_is_found(on_sqlite):
    report = counted(on_sqlite, chapter="journey")
    assert "run.parked" in uncovered(report, transitions())
    assert uncovered(report, {"effect.invented"}) == {"effect.invented"}
