# Generated from testing/contract/aio/beginnings.py by tools/unasync.py: edit that one.
"""The contract of beginnings: a run and its session begin together, and time goes on counting where a run goes on (P1, P13)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import KeyReused, Waiting
from perdure.handles.sync.run import Run
from perdure.testing.contract.sync.runs import program
from perdure.testing.openers import Opener


def nothing(_run: Run, n: int = 0) -> int:
    """An agent that does nothing."""
    return n


class BeginningsContract:
    """How runs begin, and begin anew."""

    def test_a_run_and_its_session_begin_in_one_commit(self, opener: Opener) -> None:
        made = program(nothing)
        with opener() as store:
            store.start(made, 1, key="k")
            with pytest.raises(KeyReused):
                store.start(made, 2, key="k", session="s")
            assert not store.sessions()
            run = store.start(made, 1, key="other", session="s")
            assert ([each.name for each in store.sessions()], run.record.session) == (["s"], "s")

    @pytest.mark.parametrize("cut", [True, False])
    def test_checkpoints_by_time_count_from_the_last_one_whoever_goes_on(self, opener: Opener, cut: bool) -> None:
        saved: list[bool] = []

        def steady(run: Run) -> Any:
            if run.restored is None and cut:
                run.checkpoint({"n": 1}, now=True)
            for n in range(3):
                run.ask(f"{n}?")
                saved.append(run.checkpoint({"n": 1}))
            return "done"

        with opener() as store:
            made = program(steady, checkpoint="every 10m")
            for _ in range(2):
                with pytest.raises(Waiting):
                    store.drive(made, key="k")
                opener.clock.advance("6m")
                (ask,) = store.asks()
                store.answer(ask.id, "yes")
            with pytest.raises(Waiting):
                store.drive(made, key="k")
            assert saved[-1] is True
            assert True not in saved[:-1]  # the control: not before its time
