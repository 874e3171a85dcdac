"""Recovery: effects of sessions whose sender died are settled as far as rules can, and the rest stays visible."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import forked
import perdure
from handles import left_behind as left
from perdure.effects.tool import DECLARED
from perdure.planes.recovery import presence
from perdure.planes.tables import HOLDERS
from perdure.stores import liveness


@pytest.fixture
def world(tmp_path: Path) -> str:
    folder = tmp_path / "world"
    folder.mkdir()
    return str(folder)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")


def leave(url: str, world: str, tool: str, point: str) -> None:
    env = forked.environment(PERDURE_CRASH_AT=point)
    ran = forked.run("-m", "handles.left_behind", url, world, tool, env=env)
    assert ran.returncode == -signal.SIGKILL, ran.stderr


@pytest.mark.parametrize("point", ["effect.call.before", "effect.call.after"])
@pytest.mark.parametrize("tool", ["left_idempotent", "left_keyed"])
def test_what_may_be_called_again_is(url, world, tool, point) -> None:
    leave(url, world, tool, point)
    with perdure.open(url, actor="me") as store:
        assert store.effects()[0].state == "dispatched"
        found = store.recover()
        assert [(each.tool, each.state, each.result) for each in found.settled] == [(tool, "committed", 1)]
        assert (found.waiting, found.runs) == ((), ())
        assert store.session("a").turns(last=1)[0].call == "c1"  # the call that it was made for has its result
        assert store.recover().settled == ()
        assert store.verify().ok
    assert left.arrived(world) == 1


def test_a_probe_finds_what_happened(url, world) -> None:
    leave(url, world, "left_probed", "effect.call.after")
    with perdure.open(url, actor="me") as store:
        (settled,) = store.recover().settled
        assert (settled.state, settled.settled_by) == ("committed", "probe")
    assert left.arrived(world) == 1


def test_what_did_not_happen_is_planned_and_not_sent(url, world) -> None:
    leave(url, world, "left_probed", "effect.call.before")
    with perdure.open(url, actor="me") as store:
        (settled,) = store.recover().settled
        assert settled.state == "planned"
        assert left.arrived(world) == 0
        assert store.session("a").act(left.left_probed, world, call=perdure.Call("c1", "left_probed", {})) == 1
    assert left.arrived(world) == 1


@pytest.mark.parametrize("tool", ["left_unsafe", "only_here"])
def test_what_no_rule_or_no_tool_here_settles_stays_visible(url, world, tool) -> None:
    leave(url, world, tool, "effect.call.before")
    with perdure.open(url, actor="me") as store:
        for _ in range(2):
            found = store.recover()
            assert found.settled == ()
            assert [(each.tool, each.state, each.error.code) for each in found.waiting] == [(tool, "in_doubt", "Died")]
        assert [each.tool for each in store.effects(state="in_doubt")] == [tool]
    assert left.arrived(world) == 0


def test_a_tool_can_be_passed_in(url, world) -> None:
    leave(url, world, "only_here", "effect.call.before")
    with perdure.open(url, actor="me") as store:
        passed = perdure.tool(kind="idempotent", name="only_here")(left.arrive)
        DECLARED.pop("only_here")
        assert [each.state for each in store.recover(tools=[passed]).settled] == ["committed"]


def test_what_may_still_land_is_left_and_not_waited_for(url, world) -> None:
    leave(url, world, "left_slow", "effect.call.before")
    with perdure.open(url, actor="me") as store:
        (waiting,) = store.recover().waiting
        assert waiting.state == "in_doubt"
        assert waiting.quiet_at is not None


def test_a_sender_that_lives_is_left_alone(url, world) -> None:
    with perdure.open(url, actor="a") as sender, perdure.open(url, actor="b") as other:
        effect = sender.session("a").begin(left.left_unsafe, {"folder": world}, key="k")
        effect.dispatch()
        for found in (other.recover(), sender.recover()):
            assert (found.settled, found.waiting) == ((), ())
        assert effect.refresh().state == "dispatched"


# -- lock files ----------------------------------------------------------------------------------------------


def lock_files(store) -> set[str]:
    """Of other processes; none, if the folder went with the last of them."""
    core = store._caller.core
    return {path.name for path in core.liveness.folder.glob("*")} - {core.holder, "tide", ".gitignore"}


@pytest.mark.parametrize("tool", ["left_idempotent", "left_unsafe"])
def test_a_lock_file_goes_once_its_death_needs_no_proof(url, world, monkeypatch, tool) -> None:
    monkeypatch.setattr(liveness, "OLD_SECONDS", -3600.0)
    leave(url, world, tool, "effect.call.before")
    with perdure.open(url, actor="me") as store:
        left_one = lock_files(store)
        assert len(left_one) == 1
        for lapse in (False, True):
            if lapse:
                store._caller.write(_lapse, *left_one)
            assert presence.tidy(store._caller.core, "me", [store._caller.tenant]) == 0
            assert lock_files(store) == left_one  # its effect is open: that its sender died must be proved yet
        recovered = store.recover()
        (effect,) = recovered.settled or recovered.waiting
        assert effect.settled or effect.quiet_at is not None  # what the file could prove is recorded
        assert lock_files(store) == set()


def test_control_what_nobody_asks_for_would_be_lost(url, world, monkeypatch) -> None:
    monkeypatch.setattr(liveness, "OLD_SECONDS", -3600.0)
    monkeypatch.setattr(presence, "needed", lambda _reads: set())
    leave(url, world, "left_probed", "effect.call.before")
    with perdure.open(url, actor="me") as store:
        assert presence.tidy(store._caller.core, "me", [store._caller.tenant]) == 1
        assert store.recover().settled == ()  # nobody can prove any more that its sender does not send


def _lapse(tx, holder: str) -> None:
    tx.touch(HOLDERS, {"holder": holder}, None)
