"""Every plane against an oracle in memory, by Hypothesis (P5, P9); PERDURE_ROUNDS says with how many examples, and throws dice.

Controls: each machine must fail when its plane is broken on purpose.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from perdure.artifacts import tree
from perdure.effects import ledger
from perdure.planes.audit import subscriptions
from perdure.planes.conversation import artifacts, turns
from perdure.planes.execution import decisions, leases, tasks
from perdure.planes.memory import values
from perdure.planes.recovery import locks
from proof import machines, machines_of_runs
from proof.bugs import Bug, always

ROUNDS = int(os.environ.get("PERDURE_ROUNDS", "0"))
STEPS = 25
COMMON: dict[str, Any] = {
    "database": None, "deadline": None, "suppress_health_check": list(HealthCheck), "stateful_step_count": STEPS,
}  # fmt: skip
PHASES = [Phase.generate, *([Phase.shrink] if ROUNDS else [])]  # shrinking takes minutes
GOOD = settings(max_examples=ROUNDS or 8, derandomize=not ROUNDS, phases=PHASES, **COMMON)
BROKEN = settings(max_examples=300, derandomize=True, phases=[Phase.generate], report_multiple_bugs=False, **COMMON)

CONTROLS: list[tuple[type[RuleBasedStateMachine], Bug]] = [
    (machines.Conversation, Bug("keys are forgotten", (), ((turns, "_same", lambda _: lambda stored, *_: stored),))),
    (machines.Values, Bug("versions are not compared", (), (
        (values, "_checked", lambda real: lambda tx, stream, name, _: real(tx, stream, name, None)),))),
    (machines.Tasks, Bug("anybody moves what somebody claimed", (), ((tasks, "fence", always(None)),))),
    (machines.Decisions, Bug("closed twice", (), (
        (decisions, "decision", lambda real: lambda *args: msgspec.structs.replace(real(*args), status=decisions.OPEN)),))),
    (machines.Checkpoints, Bug("a state comes back shortened", (), (
        (tree, "load", lambda real: lambda *args: _shortened(real(*args))),))),
    (machines.Artifacts, Bug("the oldest is the newest", (), (
        (artifacts, "newest", lambda real: lambda reads, stream, name: artifacts.listing(reads, stream, name=real(
            reads, stream, name).name, limit=100)[-1]),))),
    (machines.Locks, Bug("a lock never lapses", (), (
        (locks, "_is_held", lambda _: lambda reads, row: row["holder"] is not None),))),
    (machines.Emitted, Bug("acknowledged without being moved on", (), ((subscriptions, "acknowledge", always(None)),))),
    (machines_of_runs.Effects, Bug("any attempt will do", (), (
        (ledger, "_conclude", lambda real: lambda tx, stream, seq, _, *rest: real(
            tx, stream, seq, ledger.effect(tx, stream, seq).attempt, *rest)),))),
    (machines_of_runs.Runs, Bug("no fence", (), ((leases, "check_lease", always(None)),))),
]  # fmt: skip
MACHINES = list(dict.fromkeys(machine for machine, _ in CONTROLS))


def _shortened(state: Any) -> Any:
    return state[:2] if isinstance(state, (list, str)) else state


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.__name__)
def test_a_plane_is_as_its_oracle_says(machine):
    run_state_machine_as_test(machine, settings=GOOD)


@pytest.mark.parametrize(
    ("machine", "bug"), CONTROLS, ids=lambda each: getattr(each, "name", getattr(each, "__name__", ""))
)
def test_control_a_broken_plane_shows(machine, bug):
    with bug.planted(), pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=BROKEN)
