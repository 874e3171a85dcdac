# Generated from testing/contract/aio/unkept.py by tools/unasync.py: edit that one.
"""The contract of what cannot be kept: refused where it is made, with its path; what happened stands all the same (P2, P15)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.effects.tool import tool
from perdure.errors import Failed, Invalid, Waiting
from perdure.handles.sync.run import Run
from perdure.model.limits import VALUE_MAX_BYTES
from perdure.testing.contract.sync.effects import Outside
from perdure.testing.contract.sync.runs import driven, program
from perdure.testing.openers import Opener


def odd_step() -> Any:
    """Gives what nobody can keep."""
    return {"x": [object()]}


def told(said: list[str]) -> list[str]:
    """What a program makes of an error."""
    return said


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

    def test_who_catches_it_reads_the_same_at_every_replay(self, opener: Opener) -> None:
        """What it says may go into what is done next, as a model is told what went wrong."""

        def large() -> str:
            return "x" * (VALUE_MAX_BYTES + 1)

        def careful(run: Run) -> list[str]:
            said = []
            for made in (odd_step, large):
                try:
                    run.step(made)
                except Invalid as error:
                    said.append(
                        run.step(told, [str(error), error.message, error.path, error.hint, type(error).__name__])
                    )
            run.wait("go")
            return said

        with opener() as store:
            assert type(driven(store, program(careful))) is Waiting
            (handle,) = store.runs()
            handle.signal("go")
            (odd, too_large) = driven(store, program(careful))
            assert (odd[2], odd[4], too_large[4]) == ("result.x[0]", "Invalid", "TooLarge")

    def test_a_model_is_told_of_a_reading_that_cannot_be_kept(self, opener: Opener) -> None:
        outside = Outside()

        @tool(kind="read")
        def look() -> Any:
            return object()

        @tool
        def send() -> str:
            outside.seen("effect")
            return "sent"

        def model() -> Any:
            return {"calls": [{"id": "a", "tool": "look", "args": {}}, {"id": "b", "tool": "send", "args": {}}]}

        def loop(run: Run) -> Any:
            reply = run.respond(model, tools=[look, send])
            said = run.step(told, [str(each.error or each.result) for each in reply.answers])
            run.wait("go")
            return said

        with opener() as store:
            assert type(driven(store, program(loop))) is Waiting
            (handle,) = store.runs()
            handle.signal("go")
            look_said, send_said = driven(store, program(loop))
            assert (look_said.partition(": an object")[0], send_said) == ("Invalid: result", "sent")
            assert outside.count == 1
