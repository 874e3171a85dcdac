"""The sum of it: per subject, and per subject × task × fault: what was planned, tried and failed, and how to see it again."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from perdure_evaluate.recovery.host import ShownCase
from perdure_evaluate.recovery.plan import EvaluationPlan
from perdure_evaluate.recovery.run import Header, Ledger, caught, cores, header_of
from perdure_evaluate.recovery.score import VIOLATIONS
from perdure_evaluate.recovery.subjects import load

FAILURES_MAX = 200  # in a scorecard, of each subject; all of them are in cases.jsonl
PEER_TRIES = 20
SUMS = (
    *VIOLATIONS,
    "surfaced",
    "guessed",
    "audit_missing",
    "audit_invented",
    "effects",
    "operations",
    "kills",
    "states",
)


class Tally(msgspec.Struct):
    """Some cases together. failed: cases with a violation; struck: cases in which the fault really came about.

    bytes_fifths: written an operation in each fifth of undisturbed stories.
    """

    planned: int = 0
    ran: int = 0
    struck: int = 0
    failed: int = 0
    sums: dict[str, int] = {}
    recover_median_seconds: float | None = None
    recover_max_seconds: float | None = None
    bytes_fifths: list[float] = []


class Caught(msgspec.Struct):
    """A fault's control. case: the one that caught it; "" means that the fault proves nothing."""

    subject: str
    case: str
    tried: int


class Failure(msgspec.Struct):
    """A case with a violation: what it showed, how its lives ended, and the line that shows it again."""

    case: str
    violations: list[str]
    detail: list[str]
    lives: list[str]
    note: str
    replay: str


class Subjected(msgspec.Struct):
    """One subject: all its cases, and cell by cell (task, then fault)."""

    about: str
    total: Tally
    cells: dict[str, dict[str, Tally]]


class Scorecard(msgspec.Struct):
    """An evaluation. command: what made it; valid: every fault's control was caught, and no case broke the harness."""

    header: Header
    command: str
    machine: dict[str, Any]
    valid: bool
    complete: bool
    controls: dict[str, Caught]
    subjects: dict[str, Subjected]
    failures: list[Failure]
    broken: list[str]
    skipped: dict[str, str]


def tally(outcomes: Iterable[ShownCase], planned: int) -> Tally:
    """Sum up some cases."""
    cases = list(outcomes)
    scores = [case.score for case in cases]
    recovered = [score.recover_seconds for score in scores if score.recover_seconds is not None]
    counted = [score.bytes_fifths for score in scores if score.bytes_fifths]
    return Tally(
        planned=planned,
        ran=len(cases),
        struck=sum(score.struck for score in scores),
        failed=sum(bool(score.failed) for score in scores),
        sums={name: sum(getattr(score, name) for score in scores) for name in SUMS},
        recover_median_seconds=median(recovered) if recovered else None,
        recover_max_seconds=max(recovered, default=None),
        bytes_fifths=[median(fifth) for fifth in zip(*counted, strict=True)],
    )


def sum_up(plan: EvaluationPlan, ledger: Ledger, out: Path, command: str = "") -> Scorecard:
    """The scorecard of what was shown so far of a plan. command: what it was asked with, for who wants to do the same."""
    outcomes = [
        outcome for cell in plan.cells for case in cell.cases if (outcome := ledger.outcomes.get(case.id)) is not None
    ]
    controls = {fault: _caught(ledger, fault, cases) for fault, cases in plan.controls.items()}
    control_cases = [
        ledger.outcomes[case.id] for cases in plan.controls.values() for case in cases if case.id in ledger.outcomes
    ]
    broken = [
        f"{outcome.case.id}: {outcome.broken.splitlines()[-1]}"
        for outcome in [*outcomes, *control_cases]
        if outcome.broken
    ]
    sound = [outcome for outcome in outcomes if not outcome.broken]
    return Scorecard(
        header=header_of(plan.seed),
        command=command,
        machine={"cores": cores(), "python": platform.python_version(), "system": platform.system()},
        valid=not broken and all(control.case for control in controls.values()),
        complete=len(outcomes) == sum(len(cell.cases) for cell in plan.cells),
        controls=controls,
        subjects={
            name: _subjected(name, plan, sound) for name in plan.subjects if f"subject {name}" not in plan.skipped
        },
        failures=failures(sound, out),
        broken=broken,
        skipped=plan.skipped,
    )


def _caught(ledger: Ledger, fault: str, cases: list[Any]) -> Caught:
    outcome = caught(ledger, fault, cases)
    return Caught(
        cases[0].subject, outcome.case.id if outcome else "", sum(case.id in ledger.outcomes for case in cases)
    )


def _subjected(name: str, plan: EvaluationPlan, outcomes: list[ShownCase]) -> Subjected:
    own = [outcome for outcome in outcomes if outcome.case.subject == name]
    cells: dict[str, dict[str, Tally]] = {}
    for cell in plan.cells:
        if cell.subject == name:
            these = [outcome for outcome in own if (outcome.case.task, outcome.case.fault) == (cell.task, cell.fault)]
            cells.setdefault(cell.task, {})[cell.fault] = tally(these, len(cell.cases))
    planned = sum(part.planned for tasks in cells.values() for part in tasks.values())
    return Subjected(load(name).about, tally(own, planned), cells)


def failures(outcomes: Iterable[ShownCase], out: Path) -> list[Failure]:
    """The cases with a violation, each with the line that shows it again; so many of each subject at most."""
    rows: list[Failure] = []
    counts: dict[str, int] = {}
    for outcome in outcomes:
        if outcome.score.failed and counts.setdefault(outcome.case.subject, 0) < FAILURES_MAX:
            counts[outcome.case.subject] += 1
            score, line = outcome.score, replay(outcome.case.subject, outcome.case.id, out)
            rows.append(Failure(outcome.case.id, score.failed, score.detail[:8], outcome.lives, outcome.note, line))
    return rows


def replay(subject: str, case: str, out: Path) -> str:
    """The line that shows a case again. A peer's threads are its own: what they are killed in is met in some of several tries."""
    tries = f" --tries {PEER_TRIES}" if load(subject).peer else ""
    return f"perdure evaluate --case {shlex.quote(case)}{tries} --out {shlex.quote(os.fspath(out))}"
