# Generated from testing/contract/aio/unkept.py by tools/unasync.py: edit that one.
"""The contract of what cannot be kept: refused where it is made, with its path; what happened stands all the same (P2, P15)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.effects.tool import tool
from perdure.errors import Failed, Invalid
from perdure.handles.sync.run import Run
from perdure.testing.contract.sync.effects import Outside
from perdure.testing.contract.sync.runs import driven, program
from perdure.testing.openers import Opener


def odd_step() -> Any:
    """Gives what nobody can keep."""
    return {"x": [object()]}


class UnkeptContract:
    """Steps, arguments, effects, questions and results that cannot be kept."""

    @pytest.mark.parametrize(
        ("what", "path"),
        [("step", "result.x[0]"), ("argument", "args[0].y"), ("detail", "detail.z"), ("result", "result.r")],
    )
    def test_it_is_refused_where_it_is_made(self, opener: Opener, what: str, path: str) -> None:
        def careless(run: Run, what: str) -> Any:
            if what == "step":
                return run.step(odd_step)
            if what == "argument":
                return run.step(odd_step, {"y": object()})
            if what == "detail":
                return run.ask("?", detail={"z": object()})
            return {"r": object()}

        with opener() as store:
            refused = driven(store, program(careless), what)
            assert type(refused) is Failed
            assert (refused.code, refused.message.partition(":")[0]) == ("Invalid", path)

    def test_arguments_of_a_run_are_refused_before_it_is_one(self, opener: Opener) -> None:
        def same(_run: Run, what: Any) -> Any:
            return what

        with opener() as store:
            with pytest.raises(Invalid) as argument:
                store.start(program(same), {"a": object()})
            assert argument.value.path == "args[0].a"
            with pytest.raises(Invalid) as misfit:
                store.start(program(same))
            assert misfit.value.path == "args"
            assert not store.runs()

    def test_an_effect_stands_and_a_program_that_catches_it_goes_on(self, opener: Opener) -> None:
        outside = Outside()

        @tool
        def send() -> Any:
            outside.seen("effect")
            return {"x": object()}

        def careless(run: Run) -> Any:
            return run.act(send)

        def careful(run: Run) -> str:
            try:
                return run.act(send)
            except Invalid as error:
                return error.path

        with opener() as store:
            for _ in range(2):
                refused = driven(store, program(careless))
                assert (type(refused), refused.code) == (Failed, "Invalid")
                assert refused.message.startswith("result.x: send happened")
                (handle,) = store.runs()
                handle.retry()
            assert driven(store, program(careful)) == "result.x"
            assert outside.count == 1
