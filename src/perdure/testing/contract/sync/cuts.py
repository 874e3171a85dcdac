# Generated from testing/contract/aio/cuts.py by tools/unasync.py: edit that one.
"""The contract of cuts: when a run takes a checkpoint, and what it goes on from then (P8, P13)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.effects.tool import tool
from perdure.errors import (
    Invalid,
    Refused,
    Waiting,
)
from perdure.handles.sync.run import Run
from perdure.runtime.agent import agent
from perdure.testing.contract.sync.effects import Outside
from perdure.testing.contract.sync.runs import driven, program
from perdure.testing.openers import Opener


class CutsContract:
    """A journal begins anew after a checkpoint, and nothing is lost sight of."""

    @pytest.mark.parametrize(
        ("policy", "saved"), [(None, [True] * 4), ("every 2 steps", [False, True] * 2), ("after effects", [True] * 4)]
    )
    def test_a_checkpoint_is_saved_by_policy(self, opener: Opener, policy: str | None, saved: list[bool]) -> None:
        outside = Outside()

        @tool
        def send(n: int) -> int:
            return outside.seen(n)

        def count(run: Run) -> list[Any]:
            state = run.restored or {"n": 0, "saved": []}
            while state["n"] < 4:
                state["n"] += 1
                run.step(str, state["n"])
                run.act(send, state["n"])
                state["saved"] += [run.checkpoint(state)]
            run.ask("Done?")
            return state["saved"]

        made = program(count, checkpoint=policy)
        with opener() as store:
            driven(store, made)
            (handle,) = store.runs()
            assert handle.record.cuts == sum(saved)
            store.answer((store.asks())[0].id, "y")
            # The last one does not hold itself.
            assert store.drive(made, key="k") == saved[: -1 if saved[-1] else 4]
            assert outside.calls == [1, 2, 3, 4]
            assert (store.verify()).ok

    def test_a_policy_of_time(self, opener: Opener) -> None:
        def tick(run: Run) -> list[bool]:
            saved = []
            for minutes in (0, 5, 5, 1):
                opener.clock.advance(minutes * 60 + 0.000001)
                saved.append(run.checkpoint({"n": minutes}))
            return [*saved, run.checkpoint({}, now=True)]

        with opener() as store:
            assert store.drive(program(tick, checkpoint="every 10m"), key="k") == [
                False,
                False,
                True,
                False,
                True,
            ]

    @pytest.mark.parametrize("policy", ["every 1 steps", None])
    def test_an_offer_while_a_child_is_under_way(self, opener: Opener, policy: str | None) -> None:
        """A policy waits for another offer: when a child ends is chance, and no reason to fail. By hand it is refused."""

        @agent(name="waits to be let go")
        def child(run: Run) -> str:
            return run.ask("Go?")

        def offering(run: Run) -> list[bool]:
            run.start(child)
            run.step(str, 1)
            saved = [run.checkpoint("while it is")]
            run.ask("Next?")
            return [*saved, run.checkpoint("after it")]

        made = program(offering, checkpoint=policy)
        with opener() as store:
            ended = driven(store, made)
            if policy is None:
                assert (ended.code, "give the agent a policy" in ended.message) == ("Refused", True)
                return
            for question in ("Go?", "Next?"):
                store.recover(agents=[child])
                (asked,) = [each for each in store.asks() if each.question == question]
                store.answer(asked.id, "yes")
            store.recover(agents=[child])
            assert store.drive(made, key="k") == [False, True]

    def test_a_state_that_cannot_be_kept_is_refused_at_a_replay_too(self, opener: Opener) -> None:
        def careful(run: Run) -> str:
            try:
                run.checkpoint({"bad": object()})
            except Invalid as error:
                return run.ask(run.step(str.lower, str(error)))
            return "saved"

        with opener() as store:
            assert type(driven(store, program(careful))) is Waiting
            store.answer((store.asks())[0].id, "seen")
            assert store.drive(program(careful), key="k") == "seen"

    def test_what_came_before_a_checkpoint_is_not_looked_at_again(self, opener: Opener) -> None:
        outside = Outside()

        def look(what: str) -> str:
            return outside.seen(what)

        def fold(run: Run) -> Any:
            if run.restored is None:
                before = run.step(look, "before")
                run.checkpoint({"before": before, "big": "x" * 100_000})
            state = run.restored or {"before": "before"}
            after = run.step(look, "after")
            run.ask("?")
            return [state["before"], after, run.replaying]

        made = program(fold)
        with opener() as store:
            driven(store, made)
            (store.runs())[0].resume()
            driven(store, made)
            store.answer((store.asks())[0].id, "y")
            assert store.drive(made, key="k") == ["before", "after", False]
            assert outside.calls == ["before", "after"]

    def test_a_cut_must_not_lose_sight_of_anything(self, opener: Opener) -> None:
        def child(run: Run) -> None: ...

        started = agent(name="child")(child)

        def hasty(run: Run) -> list[str]:
            refusals = []
            branch = run.branch("b")
            run.start(started)
            for verb in (branch.checkpoint, run.checkpoint):
                try:
                    verb({})
                except Refused as refused:
                    refusals.append(refused.path)
            return refusals

        with opener() as store:
            assert store.drive(program(hasty), key="k") == ["checkpoint"] * 2
