"""A run that has a checkpoint and goes on as a fork or in another store is as safe as one that is resumed (P2).

Control: without the rule that a program reads `run.restored` first, both would do again what came before the checkpoint.
"""

from __future__ import annotations

from typing import Any

import pytest

import perdure


class World:
    """What was done outside."""

    def __init__(self) -> None:
        self.wired: list[int] = []
        self.forgetful = False

    @property
    def wire(self) -> Any:
        def wire(amount: int) -> int:
            self.wired.append(amount)
            return amount

        return perdure.tool(name="wire")(wire)

    @property
    def agent(self) -> Any:
        def paying(run: perdure.Run) -> int:
            """After its checkpoint it begins as it did at first: nothing in its journal tells the two apart."""
            state = None if self.forgetful else run.restored
            if state is None:
                run.step(int, 5)
                run.act(self.wire, 1)
                if not self.forgetful:
                    run.checkpoint({"did": 1})
            run.step(int, 5)
            run.wait("go")
            return run.act(self.wire, 2)

        return perdure.agent(name="paying")(paying)


def begun(store: perdure.Store, world: World) -> Any:
    """A run that has wired 1, saved that, done a step and waits; from here on its program forgets to look."""
    with pytest.raises(perdure.Waiting):
        store.drive(world.agent, key="k")
    world.forgetful = True
    assert world.wired == [1]
    return store.runs(agent="paying")[0]


def test_a_fork_of_it_is_parked_before_it_acts(tmp_path) -> None:
    world = World()
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        run = begun(store, world)
        forked = run.fork(run.steps()[-1].seq, 6, allow_effects=True)
        with pytest.raises(perdure.Parked, match=r"before it reads run\.restored"):
            store._driven(forked, {"paying": world.agent})
    assert world.wired == [1]


def test_an_adopted_one_is_parked_before_it_acts(tmp_path) -> None:
    world = World()
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        run = begun(store, world)
        envelope = run.hand_over()
        artifacts = store.artifacts_of(envelope)
    with perdure.open(f"sqlite:///{tmp_path}/b.db") as other:
        adopted = other.adopt(envelope, artifacts)
        with pytest.raises(perdure.Parked, match=r"before it reads run\.restored"):
            other._driven(adopted, {"paying": world.agent})
    assert world.wired == [1]
