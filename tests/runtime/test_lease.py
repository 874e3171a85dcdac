"""The lease, right before a call: the store is asked unless the heartbeat cannot have lapsed since the dispatch (P7)."""

from __future__ import annotations

import pytest

import perdure
from perdure.handles.sync import driving
from perdure.model import points
from perdure.model.instants import steady_seconds
from perdure.model.limits import LEASE_TTL_SECONDS
from perdure.planes import runs
from perdure.testing.clock import FakeClock


@perdure.tool(kind="idempotent")
def poke() -> None:
    """An effect."""


@perdure.agent(name="lease-poke")
def pokes(run: perdure.Run) -> None:
    run.act(poke)


@pytest.fixture
def asked(monkeypatch):
    """How often the store was asked."""
    found: list[object] = []
    holds = runs.holds
    monkeypatch.setattr(runs, "holds", lambda reads, lease: found.append(lease) or holds(reads, lease))
    return found


@pytest.mark.parametrize(("late_seconds", "times"), [(0, 0), (LEASE_TTL_SECONDS - 5, 0), (LEASE_TTL_SECONDS + 5, 1)])
def test_the_store_is_asked_when_the_heartbeat_may_have_lapsed(tmp_path, monkeypatch, asked, late_seconds, times):
    monkeypatch.setattr(driving, "steady_seconds", lambda: steady_seconds() + late_seconds)
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        store.drive(pokes)
    assert len(asked) == times


@pytest.mark.parametrize("point", ["lane.after_commit", "effect.dispatch.after"])
def test_a_beat_after_the_dispatch_vouches_for_nothing(tmp_path, monkeypatch, asked, point):
    """Whoever stood still may have lost the run and beat again since: only what was good before the dispatch counts."""
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:

        def beat_late() -> None:
            monkeypatch.setattr(driving, "steady_seconds", lambda: steady_seconds() + LEASE_TTL_SECONDS)
            store._caller.heartbeat.good_until = steady_seconds() + 2 * LEASE_TTL_SECONDS

        monkeypatch.setattr(points, "_armed", armed := {})
        armed["effect.dispatch.before"] = lambda: armed.update({point: beat_late})
        store.drive(pokes)
    assert len(asked) == 1


def test_with_a_clock_that_was_passed_in_the_store_is_always_asked(tmp_path, asked):
    with perdure.open(f"sqlite:///{tmp_path}/a.db", clock=FakeClock()) as store:
        store.drive(pokes)
    assert len(asked) == 1
