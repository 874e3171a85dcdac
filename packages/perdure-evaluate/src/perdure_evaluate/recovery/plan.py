"""Which cases, in which order: deterministic by seed, spread over all cells, so that a budget that ends early has seen them all.

A cell is a subject × a task × a fault. Its cases are tried in an order of the seed; cells take turns; long tasks take every
eighth turn, after the others. A case that cannot be tried is named with its reason: it is skipped, never passed.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import msgspec

from perdure.errors import Invalid
from perdure_evaluate.recovery.faults import FAULTS
from perdure_evaluate.recovery.faults.fault import RecoveryFault
from perdure_evaluate.recovery.outside import needed
from perdure_evaluate.recovery.story import Case
from perdure_evaluate.recovery.subjects import CONTROLS, SUBJECTS, load
from perdure_evaluate.recovery.tasks import TASKS, RecoveryTask

LONG_EVERY = 8
CONTROL_CASES = 40


class PlanCell(msgspec.Struct, frozen=True):
    """A subject × a task × a fault, with its cases in the order in which they are tried."""

    subject: str
    task: str
    fault: str
    cases: list[Case]


class EvaluationPlan(msgspec.Struct, frozen=True):
    """The cases that an evaluation will try. controls: by fault; skipped: cases that cannot be tried, with the reason."""

    seed: int
    subjects: list[str]
    tasks: list[str]
    faults: list[str]
    cells: list[PlanCell]
    controls: dict[str, list[Case]]
    skipped: dict[str, str]

    def cases(self) -> Iterator[Case]:
        """All of them but the controls, cells taking turns."""
        for turn in range(max((len(cell.cases) * LONG_EVERY for cell in self.cells), default=0)):
            for cell in self.cells:
                own = _own_turn(cell, turn)
                if own is not None and own < len(cell.cases):
                    yield cell.cases[own]


def _own_turn(cell: PlanCell, turn: int) -> int | None:
    """Which of its cases a cell is to try now; none, if it is not its turn: a long task has every eighth, from the eighth on."""
    if not TASKS[cell.task].long:
        return turn
    own, rest = divmod(turn, LONG_EVERY)
    return own if rest == LONG_EVERY - 1 else None


def chosen(names: Iterable[str], all_names: Iterable[str], what: str, path: str = "") -> list[str]:
    """The names that were given, once each; Invalid for one that does not exist. path: where they were given."""
    selection = list(dict.fromkeys(part.strip() for name in names for part in name.split(",") if part.strip()))
    for name in selection:
        if name not in all_names:
            raise Invalid(f"no {what} {name[:80]!r}; there are {', '.join(all_names)}", path=path or f"{what}s")
    return selection


def named_subjects(names: Iterable[str]) -> list[str]:
    """The subjects that were given, or all: by name or by file. Invalid for what is none."""
    selection = list(dict.fromkeys(part.strip() for name in names for part in name.split(",") if part.strip()))
    for name in selection:
        load(name)
    return selection or list(SUBJECTS)


def check(tasks: Iterable[str], faults: Iterable[str]) -> None:
    """Raise Invalid for names that do not exist, as `make` does, before anything is worked out."""
    chosen(tasks, TASKS, "task")
    chosen(faults, FAULTS, "fault")


def make(
    subjects: Iterable[str], tasks: Iterable[str], faults: Iterable[str], seed: int, lacking: dict[str, str]
) -> EvaluationPlan:
    """Plan an evaluation. lacking: subjects that cannot run here, with the reason. Raises Invalid for names that do not exist."""
    own = named_subjects(subjects)
    works = chosen(tasks, TASKS, "task") or [name for name, task in TASKS.items() if task.by_default]
    wrongs = chosen(faults, FAULTS, "fault") or list(FAULTS)
    skipped = {f"subject {name}": why for name, why in lacking.items() if name in own}
    skipped |= {f"fault {name}": why for name in wrongs if (why := FAULTS[name].missing())}
    cells: list[PlanCell] = []
    for fault in [FAULTS[name] for name in wrongs if f"fault {name}" not in skipped]:
        for task in [TASKS[name] for name in works]:
            schedules = fault.schedules(task, seed)
            for subject in [name for name in own if f"subject {name}" not in skipped]:
                if why := _unfit(subject, task, fault):
                    skipped[f"{subject}/{task.name}/{fault.name}"] = why
                else:
                    cells.append(
                        PlanCell(subject, task.name, fault.name, _cases(subject, task, fault, schedules, seed))
                    )
    return EvaluationPlan(
        seed=seed,
        subjects=own,
        tasks=works,
        faults=wrongs,
        cells=cells,
        controls=_controls(wrongs, skipped, seed),
        skipped=skipped,
    )


def _unfit(subject: str, task: RecoveryTask, fault: RecoveryFault) -> str:
    return (needed() if task.git else "") or fault.unfit(load(subject), task)


def _cases(
    subject: str, task: RecoveryTask, fault: RecoveryFault, schedules: list[str], seed: int, *, control: bool = False
) -> list[Case]:
    mixed = [*schedules]
    random.Random(f"{seed}/{subject}/{task.name}/{fault.name}").shuffle(mixed)
    return [Case(subject, task.name, fault.name, schedule, control) for schedule in mixed]


def _controls(faults: list[str], skipped: dict[str, str], seed: int) -> dict[str, list[Case]]:
    cases: dict[str, list[Case]] = {}
    for fault in [FAULTS[name] for name in faults if f"fault {name}" not in skipped]:
        if fault.control is not None:
            task = TASKS[fault.control.task]
            schedules = fault.schedules(task, seed)
            own = _cases(fault.control.subject, task, fault, schedules, seed, control=True)
            cases[fault.name] = own[:CONTROL_CASES]
    return cases


def parse_case(text: str, seed: int) -> Case:
    """A case of a seed by its id: SUBJECT/TASK/FAULT/SCHEDULE, where the subject may be a path. Raises Invalid."""
    parts = text.rsplit("/", 3)
    if len(parts) != 4 or parts[1] not in TASKS or parts[2] not in FAULTS or not parts[0] or not parts[3]:
        raise Invalid(
            f"no case {text[:120]!r}", path="case", hint="SUBJECT/TASK/FAULT/SCHEDULE, as cases.jsonl names them"
        )
    load(parts[0])
    if parts[3] not in FAULTS[parts[2]].schedules(TASKS[parts[1]], seed):
        raise Invalid(f"{parts[2]} has no schedule {parts[3][:80]!r} on {parts[1]} with seed {seed}", path="case")
    return Case(parts[0], parts[1], parts[2], parts[3], control=parts[0] in CONTROLS)


def impossible(case: Case) -> str:
    """Why a case cannot be tried here; nothing, if it can."""
    fault, task = FAULTS[case.fault], TASKS[case.task]
    return fault.missing() or _unfit(case.subject, task, fault)
