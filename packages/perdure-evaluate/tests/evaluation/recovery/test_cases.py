"""Cases on real processes: every control is caught, Perdure stands them all, and the others fail where they must."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from evaluation.recovery.conftest import SEED
from perdure_evaluate.recovery import SCRATCH, host, plan
from perdure_evaluate.recovery.faults import FAULTS
from perdure_evaluate.recovery.host import ShownCase
from perdure_evaluate.recovery.oracle import points_of
from perdure_evaluate.recovery.run import Hosts
from perdure_evaluate.recovery.score import grown
from perdure_evaluate.recovery.story import Ground
from perdure_testing.scratch import scratch

Show = Callable[[str], ShownCase]
STRUCK = [point for point in points_of("support", SEED) if point.partition(":")[0] in ("refund", "ticket", "mail")]


@pytest.mark.parametrize("fault", [name for name, fault in FAULTS.items() if fault.control is not None])
def test_every_control_is_caught(ground: Ground, fault: str) -> None:
    if why := FAULTS[fault].missing():
        pytest.skip(f"{fault} is not tried: {why}")
    control = FAULTS[fault].control
    assert control is not None
    cases = plan.make([], [], [fault], SEED, {}).controls[fault]
    shown = (host.show(ground, case) for case in cases)
    caught = (each for each in shown if any(getattr(each.score, measure) for measure in control.measures))
    assert next(caught, None) is not None


def test_a_session_file_does_twice_what_it_did_not_keep(show: Show) -> None:
    """Keys help where the other side knows them; nothing helps a mail."""
    failing = {point: show(f"json-renamed/support/kill/{point}").score for point in STRUCK}
    twice = {point for point, score in failing.items() if score.duplicates}
    assert twice == {"ticket:sent", "ticket:replied", "mail:sent", "mail:replied"}
    assert {point for point, score in failing.items() if score.guessed} == {"mail:calling", "mail:sent", "mail:replied"}
    assert not any(score.lost or score.acknowledged_lost or score.wrong or score.stranded for score in failing.values())


def test_a_file_that_is_rewritten_in_place_loses_what_was_acknowledged(show: Show) -> None:
    shown = [show(f"json-file/relay-5/power/{at}~0").score for at in ("task-3:recorded", "report-5:recorded")]
    assert all(score.acknowledged_lost for score in shown)


def test_a_file_that_is_replaced_does_not(show: Show) -> None:
    shown = [show(f"json-renamed/relay-5/power/{at}~0").score for at in ("task-3:recorded", "report-5:recorded")]
    assert not any(score.acknowledged_lost for score in shown)


@pytest.mark.parametrize("point", STRUCK)
def test_perdure_stands_every_kill_around_its_effects(show: Show, point: str) -> None:
    score = show(f"perdure-sqlite/support/kill/{point}").score
    assert score.failed == []
    assert score.struck
    assert (score.surfaced, score.guessed) == (int(point in ("mail:calling", "mail:sent", "mail:replied")), 0)
    assert (score.audit_missing, score.audit_invented) == (0, 0)


@pytest.mark.parametrize("fault", ["kills", "race", "syscall", "power", "full"])
def test_perdure_stands_some_of_everything(show: Show, ground: Ground, fault: str) -> None:
    for task in ("support", "relay-5"):
        cells = plan.make(["perdure-sqlite"], [task], [fault], SEED, {}).cells
        for case in itertools.islice((case for cell in cells for case in cell.cases), 2):
            assert show(case.id).score.failed == []


@pytest.mark.parametrize("point", ["commit-1:sent", "push:replied", "pull:sent"])
def test_perdure_and_git(show: Show, point: str) -> None:
    assert show(f"perdure-sqlite/coding/kill/{point}").score.failed == []


@pytest.mark.parametrize("fault", ["kill", "syscall", "power", "backup", "rewind"])
def test_perdure_on_files(show: Show, ground: Ground, fault: str) -> None:
    cells = plan.make(["perdure-files"], ["support"], [fault], SEED, {}).cells
    for case in itertools.islice((case for cell in cells for case in cell.cases), 2):
        assert show(case.id).score.failed == []


def test_perdure_on_postgres(ground: Ground, postgres_url: str) -> None:
    server = Ground(SEED, ground.witness, ground.lives, ground.folder, postgres_url.partition("?")[0])
    for point in ("ticket:sent", "mail:sent"):
        shown = host.show(server, plan.parse_case(f"perdure-postgres/support/kill/{point}", SEED))
        assert (shown.broken, shown.score.failed) == ("", [])


def test_what_killed_lives_leave_in_the_temporary_folder_goes_with_their_host(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with scratch(SCRATCH) as folder:
        hosts = Hosts(SEED, folder / "h0", postgres_url.partition("?")[0])
        try:
            shown = hosts.show(plan.parse_case("perdure-postgres/support/kill/mail:sent", SEED))
            proofs = [*folder.glob("*/temporary/perdure-*/*")]
        finally:
            hosts.close()
        assert (shown.broken, shown.score.failed, len(proofs)) == ("", [], 1)
        assert not folder.exists()
    assert not [*temporary.iterdir()]


def test_a_subject_of_ones_own_is_one_file(show: Show, blob: str) -> None:
    assert show(f"{blob}/support/kill/mail:before").score.failed == []
    assert show(f"{blob}/support/kill/mail:sent").score.duplicates == 1


def test_the_same_case_shows_the_same(show: Show) -> None:
    one, two = (show("jsonl-log/support/kill/mail:sent") for _ in range(2))
    assert (one.score.failed, one.score.detail, one.lives) == (two.score.failed, two.score.detail, two.lives)


def test_a_story_that_comes_to_no_end_is_stranded(show: Show, tmp_path) -> None:
    path = tmp_path / "refuses.py"
    path.write_text(
        "from perdure_evaluate.recovery.subjects import json_file\n"
        "class Refuses(json_file.JsonFile):\n"
        "    def note(self, key, value):\n        raise RuntimeError('no notes')\n"
    )
    score = show(f"{path}/relay-5/none/-").score
    assert (score.failed, score.said) == (["stranded"], "RuntimeError: no notes")


def test_writes_grow_with_a_file_that_is_rewritten_and_not_with_a_log(show: Show) -> None:
    assert grown(show("json-file/relay-500/none/-").score.bytes_fifths) > 2
    assert grown(show("jsonl-log/relay-500/none/-").score.bytes_fifths) < 1.1


def test_what_perdure_writes_does_not_grow(show: Show) -> None:
    """P8. Until every index has more than one page, writes share them: the first fifth is cheaper, and nothing after it."""
    fifths = show("perdure-sqlite/relay-500/none/-").score.bytes_fifths
    assert fifths[0] < fifths[1]
    assert grown(fifths) < 1.15
