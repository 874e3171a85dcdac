"""Each request that writes, sent again with its key after its server was killed: one effect, the same answer (P1, P2)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import forked

PROGRAM = Path(__file__).parent / "killing.py"
EVERY = "every" if "PERDURE_ROUNDS" in os.environ else "some"


def cases(folder: Path, *words: str) -> list[dict[str, Any]]:
    done = forked.run(str(PROGRAM), str(folder), *words, env=forked.environment(), timeout=None)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def is_once(case: dict[str, Any]) -> bool:
    (status, first), (_, second) = case["answers"]
    return status in (200, 201) and first == second and case["kinds"] == case["expected"]


def test_a_request_that_comes_again_has_one_effect_and_one_answer(tmp_path) -> None:
    found = cases(tmp_path, EVERY, "keyed")
    assert {case["code"] for case in found} == {-9}
    assert [case for case in found if not is_once(case)] == []


def test_control_under_another_key_it_would_not(tmp_path) -> None:
    names = ("say", "decide", "start")
    found = cases(tmp_path, "some", "bare", *names)
    assert {case["name"] for case in found if not is_once(case)} == {*names}
