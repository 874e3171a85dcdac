"""Workers in other languages: the conformance program drives the TypeScript worker, and catches workers that are wrong.

PERDURE_ROUNDS raises the number of kills and pauses.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from perdure.cli.main import cli
from perdure_evaluate.conformance.program import ConformancePlan, _Conformance, conform

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "clients" / "typescript"
WORKER = CLIENT / "conformance" / "worker.js"
OLDEST = 20


def _node() -> tuple[str | None, str]:
    """A node that is new enough, or why there is none."""
    found = shutil.which("node") or shutil.which("nodejs")
    if found is None:
        return None, "node is not installed (Debian: apt-get install nodejs)"
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    version = int(said.strip().removeprefix("v").partition(".")[0] or 0)
    return (found, "") if version >= OLDEST else (None, f"node {said.strip()} is older than {OLDEST}")


NODE, WHY_NOT = _node()
FAULTS = 10
MANY = int(os.environ.get("PERDURE_ROUNDS", "0"))

needs_node = pytest.mark.skipif(NODE is None, reason=WHY_NOT or "-")


@needs_node
def test_the_typescript_worker_loses_nothing_and_does_nothing_twice(tmp_path) -> None:
    assert NODE is not None
    found = conform([NODE, str(WORKER)], ConformancePlan(faults=max(FAULTS, MANY)), print, tmp_path)
    assert found.conforms, found
    assert found.kills + found.pauses >= FAULTS
    assert found.calls > FAULTS


@needs_node
def test_a_run_that_changes_its_status_between_two_listings_is_waited_for(tmp_path, monkeypatch) -> None:
    """It stands in none of them: it was ready when those that wait were listed, and waits when those that are ready are."""
    assert NODE is not None
    listed, missed = _Conformance._open_runs, []

    def misses(conformance: _Conformance) -> list[Any]:
        runs = listed(conformance)
        if runs and conformance._faults.done and not missed:
            missed.extend(runs)
            return []
        return runs

    monkeypatch.setattr(_Conformance, "_open_runs", misses)
    report = conform([NODE, str(WORKER)], ConformancePlan(faults=1, workers=1), print, tmp_path)
    assert missed
    assert report.conforms, report


WRONG = {"replays": 3} | ({"forgets": 20, "unfenced": 60} if MANY else {})  # with so many kills and pauses


@needs_node
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_worker_is_caught(tmp_path, wrong) -> None:
    assert NODE is not None
    command = [NODE, str(ROOT / "tests" / "clients" / "wrong_worker.js"), wrong]
    found = conform(command, ConformancePlan(faults=WRONG[wrong], workers=3, patience_seconds=30), print, tmp_path)
    assert found.twice, found


@needs_node
def test_the_tests_of_the_client_itself(tmp_path) -> None:
    assert NODE is not None
    done = subprocess.run(
        [NODE, "--test", str(CLIENT / "test")], capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr


NO_WORKERS = [("./no-such-worker", "there is no command"), *([("false", "ended by itself with 1")] if MANY else [])]


@pytest.mark.parametrize(("command", "says"), NO_WORKERS)
def test_a_command_that_is_no_worker_is_told(command, says) -> None:
    done = CliRunner().invoke(cli, ["conformance", "--faults", "1", "--workers", "2", command])
    assert done.exit_code != 0
    assert says in done.output + str(done.exception)
