"""Which cases there are: the same for the same seed, each once, every boundary among them."""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path

import pytest

from perdure import errors
from perdure_evaluate.recovery import plan
from perdure_evaluate.recovery.faults import FAULTS
from perdure_evaluate.recovery.oracle import effects_of, points_of
from perdure_evaluate.recovery.outside import KINDS
from perdure_evaluate.recovery.subjects import CONTROLS, SUBJECTS, load
from perdure_evaluate.recovery.tasks import TASKS

SHORT = [name for name, task in TASKS.items() if not task.long]


def test_a_plan_is_decided_by_its_seed() -> None:
    one, two, other = (plan.make([], SHORT, ["kill", "kills"], seed, {}) for seed in (1, 1, 2))
    assert [case.id for case in one.cases()] == [case.id for case in two.cases()]
    assert [case.id for case in one.cases()] != [case.id for case in other.cases()]


def test_every_boundary_of_a_short_task_is_tried_once() -> None:
    made = plan.make(["json-file"], SHORT, ["kill"], 1, {})
    ids = [case.id for case in made.cases()]
    assert len(ids) == len(set(ids))
    assert set(ids) == {f"json-file/{task}/kill/{point}" for task in SHORT for point in points_of(task, 1)}


def test_every_cell_has_its_turn_before_any_has_two() -> None:
    made = plan.make([], SHORT, ["none", "kill"], 1, {})
    first = [(case.subject, case.task, case.fault) for case, _ in zip(made.cases(), made.cells, strict=False)]
    assert len(set(first)) == len(made.cells)


@pytest.mark.parametrize("task", [name for name in TASKS if name != "relay-50000"])
def test_names_are_unique_in_a_task_and_kinds_are_known(task: str) -> None:
    points = points_of(task, 1)
    assert len(points) == len(set(points))
    assert set(effects_of(task).values()) <= set(KINDS)


def test_every_fault_but_none_has_a_control_that_exists() -> None:
    for name, fault in FAULTS.items():
        assert (fault.control is None) == (name == "none")
        assert fault.control is None or fault.control.subject in CONTROLS


def test_a_case_is_found_by_its_id() -> None:
    for case in itertools.islice(plan.make([], SHORT, ["kills", "power"], 5, {}).cases(), 0, None, 97):
        assert plan.parse_case(case.id, 5).id == case.id


@pytest.mark.parametrize(
    "text",
    ["", "x", "json-file/support/kill", "json-file/support/kill/nowhere", "json-file/nothing/kill/mail:sent",
     "../../etc/support/kill/mail:sent", "json-file/support/kill/mail:sent\0", "no.py/support/kill/mail:sent"],
)  # fmt: skip
def test_what_is_no_case_is_refused(text: str) -> None:
    with pytest.raises(errors.Invalid):
        plan.parse_case(text, 1)


def test_a_subject_that_cannot_run_is_skipped_and_never_passed() -> None:
    made = plan.make(["perdure-postgres", "json-file"], SHORT, ["kill"], 1, {"perdure-postgres": "no server"})
    assert {cell.subject for cell in made.cells} == {"json-file"}
    assert made.skipped["subject perdure-postgres"] == "no server"


def test_a_subject_is_one_short_file() -> None:
    for name in SUBJECTS:
        file = Path(importlib.import_module(load(name).__module__).__file__ or "")
        assert sum(bool(line.strip()) for line in file.read_text().splitlines()) <= 80, name
        assert load(name).about
