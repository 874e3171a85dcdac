"""Each tool that writes, called again with its key after its server was killed: one effect, the same answer (P1, P2)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import forked

pytest.importorskip("mcp")

PROGRAM = Path(__file__).parent / "killing.py"
EVERY = "every" if "PERDURE_ROUNDS" in os.environ else "some"


def cases(folder: Path, *words: str) -> list[dict[str, Any]]:
    done = forked.run(str(PROGRAM), str(folder), *words, env=forked.environment(), timeout=None)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def is_once(case: dict[str, Any]) -> bool:
    first, second = case["answers"]
    return isinstance(first, dict) and first == second and case["kinds"] == case["expected"]


def test_a_call_that_comes_again_has_one_effect_and_one_answer(tmp_path: Path) -> None:
    found = cases(tmp_path, EVERY, "keyed")
    assert {case["tool"] for case in found} >= {"decide", "claim", "effect_dispatch", "ask"}
    assert -9 in {case["code"] for case in found}
    assert [case for case in found if not is_once(case)] == []


def test_without_its_key_it_would_not(tmp_path: Path) -> None:
    """The control: a second call with another key is another request, or is refused."""
    tools = ("remember", "say", "effect_dispatch")
    found = cases(tmp_path, "lost", "bare", *tools)
    assert {case["tool"] for case in found if case["code"] == 0 and not is_once(case)} == {*tools}
