"""A real server, killed at system calls of a POST: sent again with its key, nothing is lost or twice, and answers are equal (P1).

PERDURE_ROUNDS makes it every system call of every thread; without it a sample.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import forked

PROGRAM = Path(__file__).parent / "striking.py"
EVERY = "every" if "PERDURE_ROUNDS" in os.environ else "some"


def cases(folder: Path, *words: str) -> list[dict[str, Any]]:
    if shutil.which("strace") is None:
        pytest.skip("strace is missing: no kills at single system calls")
    done = forked.run(str(PROGRAM), str(folder), *words, env=forked.environment(), timeout=None)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    if "skip" in found[0]:
        pytest.skip(f"{found[0]['skip']}: no kills at single system calls")
    return found


def is_once(case: dict[str, Any]) -> bool:
    """One event, and one answer however often it was asked for."""
    told = [each for each in (case["first"], *case["answers"]) if each is not None]
    same = all(each == told[0] for each in told) and told[0][0] == 201
    return same and None not in case["answers"] and case["kinds"] == case["expected"]


def test_a_post_that_comes_again_has_one_effect_and_one_answer_wherever_its_server_was_killed(tmp_path) -> None:
    found = cases(tmp_path, EVERY, "keyed")
    assert [case for case in found if not is_once(case)] == []
    killed = [case for case in found if case["killed"]]
    assert len(killed) * 2 > len(found), f"{len(killed)} of {len(found)}"  # how often a thread waits varies
    assert {case["first"] is None for case in killed} >= {True}


def test_control_without_the_key_it_is_twice(tmp_path) -> None:
    found = [case for case in cases(tmp_path, "late", "bare") if case["killed"] and case["first"] is None]
    assert [case for case in found if case["kinds"].count("decision.made") == 2]
