"""What the faults of machines and servers do, and that Perdure stands them."""

from __future__ import annotations

import itertools

import pytest

from evaluation.recovery.conftest import SEED, Show
from perdure.evaluation.recovery import plan


def some(subject: str, task: str, fault: str, count: int = 2) -> list[str]:
    """The first cases of a cell."""
    cells = plan.make([subject], [task], [fault], SEED, {}).cells
    return [case.id for case in itertools.islice((case for cell in cells for case in cell.cases), count)]


# -- stopped past a lease --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["understand:before", "ticket:calling", "mail:calling", "mail:replied"])
def test_who_wakes_up_past_its_lease_does_nothing_twice(show: Show, point: str) -> None:
    shown = show(f"perdure-sqlite/support/stop/{point}")
    assert shown.score.failed == []
    assert f"done {point}" in shown.lives or f"waiting {point}" in shown.lives  # it lived on, and found out


def test_who_takes_no_lease_is_not_put_to_it() -> None:
    made = plan.make(["json-renamed"], ["support"], ["stop"], SEED, {})
    assert not made.cells
    assert made.skipped["json-renamed/support/stop"] == "it takes no lease: the same as race"
