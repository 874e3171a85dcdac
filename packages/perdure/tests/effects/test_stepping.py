"""Every way of one effect through the engine, stepped without a database: P2-P4 and P7 hold, whatever dies or is paused.

tests/model_checking compares the states that become durable on the way with those of the TLA+ model.
"""

from __future__ import annotations

import os

import pytest

from effects.stepping import Known, World, live, ways
from perdure.model.records.effects import EffectState

KINDS = ("idempotent", "keyed", "probe", "unsafe")
FAULTS = {"a death": (1, 0), "a pause": (0, 1)}
FAULTS |= {"two deaths": (2, 0), "both": (1, 1)} if "PERDURE_ROUNDS" in os.environ else {}
WHERE = [(kind, True) for kind in KINDS] + [
    ("probe", False)
]  # only for a probe it matters whether a death can be proved


def wrong_in(world: World) -> str:
    """The claim of the model that a world breaks; empty if none."""
    found = world.record()
    if world.kind != "idempotent" and world.applied > 1:
        return "AtMostOnce"
    if found is None:
        return "IntentBeforeEffect" if world.applied else ""
    if found.state is EffectState.COMMITTED and not world.applied:
        return "CommittedMeansHappened"
    if found.state is EffectState.FAILED and world.kind != "idempotent" and world.applied:
        return "FailedMeansAbsent"
    return ""


def every_way(kind: str, deaths: int, pauses: int, *, near: bool = True, broken: str = "") -> list[World]:
    known = Known()
    return [*ways(lambda made: live(World(kind, made, near=near, deaths=deaths, pauses=pauses, broken=broken), known))]


@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize(("kind", "near"), WHERE)
def test_every_way_keeps_the_claims_of_the_model(kind: str, faults: str, near: bool) -> None:
    worlds = every_way(kind, *FAULTS[faults], near=near)
    wrong = {wrong_in(world): (world.choices.made, world.books.events) for world in worlds}
    assert wrong.keys() <= {""}, wrong
    assert len(worlds) > 40


@pytest.mark.parametrize(
    ("broken", "kind", "faults", "claim"),
    [
        ("a silent process is dead", "probe", "a pause", "AtMostOnce"),
        ("the call comes first", "unsafe", "a death", "AtMostOnce"),
    ],
)
def test_control_a_broken_rule_is_found(broken: str, kind: str, faults: str, claim: str) -> None:
    assert claim in {wrong_in(world) for world in every_way(kind, *FAULTS[faults], broken=broken)}
