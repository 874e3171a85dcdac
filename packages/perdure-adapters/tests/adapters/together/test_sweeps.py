"""An agent of each framework is killed at commits and sends: every effect once, no recorded answer paid for again. P2, P3, P4.

A few points of each here; PERDURE_ROUNDS=1 takes every point of every mode (more than 200 for each framework). As it is, each
framework does something twice, and so does the ledger without its barrier: the controls. The model of a Claude agent is asked by
its host, which asks again after a death: its answers are not counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from adapters.sweeping import tell

PROGRAM = Path(__file__).with_name("sweeps.py")
ALL = bool(os.environ.get("PERDURE_ROUNDS"))
SOME = "6"
NEEDS = {"openai_agents": "agents", "pydantic_ai": "pydantic_ai", "claude_agent": "claude_agent_sdk"}
MODES = [
    *(("openai_agents", mode) for mode in ("plain", "slow", "files", "again", "streamed", "unsafe", "unsafe-streamed")),
    *(("pydantic_ai", mode) for mode in ("plain", "slow", "files", "again", "streamed", "unsafe")),
    *(("claude_agent", mode) for mode in ("plain", "slow", "files", "again", "unsafe", "builtin", "late",
                                              "builtin-late", "unsafe-late")),
]  # fmt: skip
QUICK = [each for each in MODES if each[1] == "plain"]
# Where `make test` has the framework, packages/perdure-adapters/tests/adapters/pydantic_ai/test_sweep.py takes a sample of it.
TOGETHER = "PERDURE_SUITE_STORE" in os.environ


def swept(framework, mode, subject, folder, most=SOME):
    pytest.importorskip(
        NEEDS[framework], reason=f"{framework} is not installed: `tools/adapters.py together` has all frameworks"
    )
    if not (ALL or TOGETHER):
        pytest.skip("PERDURE_ROUNDS, or `tools/adapters.py together`")
    command = [sys.executable, PROGRAM, framework, mode, subject, "0" if ALL else most, folder]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = json.loads(ran.stdout)
    numbers = {name: found[name] for name in ("points", "killed", "twice", "lost", "paid again", "unrecorded")}
    what = "swept" if subject == "perdure" and mode != "batched" else "control"
    named = mode if subject == "perdure" else f"{subject.replace(' ', '-')}{'' if mode == 'plain' else '-' + mode}"
    tell(what, framework.replace("_", "-"), named, {**numbers, "stranded": len(found["unended"])})
    return found


@pytest.mark.parametrize(("framework", "mode"), MODES if ALL else QUICK)
def test_every_effect_once_wherever_it_is_killed(framework, mode, tmp_path):
    found = swept(framework, mode, "perdure", tmp_path)
    assert found["killed"] * 2 > found["points"]  # on a busy machine a life may pass fewer points than the counted one
    assert (found["twice"], found["lost"], found["unended"]) == (0, 0, [])
    if framework != "claude_agent":
        assert found["paid again"] == 0


def test_control_a_transcript_that_is_mirrored_late_does_not_say_what_was_heard(tmp_path):
    """Why the page asks for `session_store_flush="eager"`."""
    assert swept("claude_agent", "batched", "perdure", tmp_path, "16")["twice"] > 0


@pytest.mark.parametrize("framework", NEEDS)
@pytest.mark.parametrize("subject", ["stock", "no barrier"])
def test_control_without_it_something_happens_twice(framework, subject, tmp_path):
    found = swept(framework, "plain", subject, tmp_path, "16" if subject == "no barrier" else "0")
    assert found["twice"] > 0


@pytest.mark.parametrize(("subject", "mode"), [("forgets", "late"), ("forgets", "builtin-late"), ("stock", "builtin")])
def test_control_a_hook_that_forgets_lets_a_call_through_again(subject, mode, tmp_path):
    """In "late" only the hooks and the probes stand between a dead process's call and the next one like it."""
    assert swept("claude_agent", mode, subject, tmp_path, "0")["twice"] > 0
