"""Exactly once for database effects: killed before every statement, the user's rows and the ledger agree (decision 0010)."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import Any

import pytest

from faults import booker
from faults.writer import environment

log = logging.getLogger(__name__)


def swept(url: str, how: str) -> dict[str, Any]:
    command = [sys.executable, booker.__file__, url, how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    log.info("%s, %s: killed at %d points", url.partition(":")[0], how, said["points"])
    return said


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path) -> str:
    return f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")


def test_killed_before_any_statement_both_are_there_or_neither(url):
    said = swept(url, "together")
    assert said["points"] > 10
    assert {tuple(pair) for pair in said["killed"]} == {(0, 0), (1, 1)}
    assert {tuple(pair) for pair in said["ended"]} == {(1, 1)}
    assert said["verified"]


def test_control_in_two_transactions_they_differ_and_the_row_comes_twice(url):
    said = swept(url, "apart")
    assert [1, 0] in said["killed"]
    assert [2, 1] in said["ended"]
