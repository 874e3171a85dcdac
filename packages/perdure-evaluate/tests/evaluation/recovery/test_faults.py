"""What the faults of machines and servers do, and that Perdure stands them."""

from __future__ import annotations

import itertools
import os

import pytest

from evaluation.recovery.conftest import SEED, Show
from perdure_evaluate.recovery import SCRATCH, plan
from perdure_evaluate.recovery.faults import io_errors
from perdure_testing import scratch


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


# -- I/O errors ------------------------------------------------------------------------------------------------------


def test_a_disk_that_fails_is_told_and_nothing_is_lost(show: Show) -> None:
    shown = [show(case) for case in some("perdure-sqlite", "support", "eio", 4)]
    assert [each.score.failed for each in shown] == [[]] * 4
    assert all(each.score.struck for each in shown)


def test_a_file_that_is_emptied_before_it_is_written_does_not_survive_an_error(show: Show) -> None:
    shown = [show(case) for case in some("json-file", "relay-5", "eio", 12)]
    assert any(each.score.acknowledged_lost for each in shown)


TRACE = r"""
7 pwrite64(4</t/s/a.db>, "x", 1, 0) = 1
7 write(5<pipe:[9]>, "{\"what\": \"believes\"", 9) = 9
7 write(5<pipe:[9]>, "{", 1) = 1
8 write(6</t/s/a.7>, "y", 1) = 1
7 pwrite64(4</t/s/a.db>, "x", 1, 0) = 1
7 write(4</t/other>, "x", 1) = 1
7 fsync(3</t/s>) = 0
"""


def test_the_calls_with_which_a_life_says_what_it_believes_are_left_alone() -> None:
    """They would read as if it had forgotten everything."""
    calls = list(io_errors._read(TRACE, 1, 7, "/t/s"))
    assert [(call.name, call.numbers) for call in calls] == [
        ("write", {"write": 1}), ("pwrite64", {"pwrite64": 2}), ("fsync", {"pwrite64": 2, "fsync": 1}),
    ]  # fmt: skip
    assert calls[0].files == {"/a.db", "/a.{pid}", ""}


# -- wrong clocks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["ticket:sent@after-1h", "ticket:sent@after+1h", "mail:before@during-1h"])
def test_a_wrong_clock_changes_nothing(show: Show, schedule: str) -> None:
    assert show(f"perdure-sqlite/support/clock/{schedule}").score.failed == []


@pytest.mark.parametrize("schedule", ["ticket:calling+1h", "mail:calling+1h", "mail:before-1h"])
def test_a_lease_that_is_taken_too_early_does_nothing_twice(show: Show, schedule: str) -> None:
    assert show(f"perdure-sqlite/support/skew/{schedule}").score.failed == []


def test_a_clock_is_wrong_in_the_lives_of_its_story_alone(show: Show, tmp_path) -> None:
    path = tmp_path / "tells.py"
    path.write_text(
        "import time\nfrom perdure_evaluate.recovery.subjects import json_file\n"
        "class Tells(json_file.JsonFile):\n"
        "    def done(self, result):\n        raise RuntimeError(round((time.time() - BEGAN) / 3600))\n"
        "BEGAN = time.time()\n"
    )
    said = [show(f"{path}/relay-5/clock/task-1:before@after{hour}").score.said for hour in ("+1h", "-1h")]
    assert said == ["RuntimeError: 1", "RuntimeError: -1"]
    assert show(f"{path}/relay-5/none/-").score.said == "RuntimeError: 0"


# -- databases that go away ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["restart", "reply", "server-power", "server-full"])
def test_a_database_that_goes_away_takes_nothing_along(show: Show, fault: str) -> None:
    shown = [show(case) for case in some("perdure-postgres", "support", fault, 3)]
    assert [(each.case.schedule, each.score.detail, each.lives) for each in shown if each.score.failed] == []
    assert any(each.score.struck for each in shown)


@pytest.mark.parametrize("fault", ["server-power", "server-full"])
def test_who_clears_up_leaves_the_disk_of_a_living_server(show: Show, fault: str, monkeypatch) -> None:
    """A file system that is mounted over a folder hides that it is locked."""
    (case,) = some("perdure-postgres", "support", fault, 1)
    show(case)
    monkeypatch.setattr(scratch, "YOUNG_SECONDS", -1)
    scratch.tidy(scratch.MEMORY, f"{SCRATCH}{os.getpid()}-")
    assert show(case).score.failed == []


@pytest.mark.parametrize("fault", ["restart", "reply", "server-power", "server-full"])
def test_a_store_without_a_server_is_not_put_to_it(fault: str) -> None:
    made = plan.make(["perdure-sqlite"], ["support"], [fault], SEED, {})
    assert not made.cells
    assert made.skipped[f"perdure-sqlite/support/{fault}"] == "it has no server: its store is its own"
