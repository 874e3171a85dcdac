"""The contract of what cannot be kept: refused where it is made, with its path; what happened stands all the same (P2, P15)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.effects.tool import tool
from perdure.errors import Failed, Invalid
from perdure.handles.aio.run import AsyncRun
from perdure.testing.contract.aio.effects import Outside
from perdure.testing.contract.aio.runs import driven, program
from perdure.testing.openers import AsyncOpener


async def odd_step() -> Any:
    """Gives what nobody can keep."""
    return {"x": [object()]}


class AsyncUnkeptContract:
    """Steps, arguments, effects, questions and results that cannot be kept."""

    @pytest.mark.parametrize(
        ("what", "path"),
        [("step", "result.x[0]"), ("argument", "args[0].y"), ("detail", "detail.z"), ("result", "result.r")],
    )
    async def test_it_is_refused_where_it_is_made(self, opener: AsyncOpener, what: str, path: str) -> None:
        async def careless(run: AsyncRun, what: str) -> Any:
            if what == "step":
                return await run.step(odd_step)
            if what == "argument":
                return await run.step(odd_step, {"y": object()})
            if what == "detail":
                return await run.ask("?", detail={"z": object()})
            return {"r": object()}

        async with await opener() as store:
            refused = await driven(store, program(careless), what)
            assert type(refused) is Failed
            assert (refused.code, refused.message.partition(":")[0]) == ("Invalid", path)

    async def test_arguments_of_a_run_are_refused_before_it_is_one(self, opener: AsyncOpener) -> None:
        async def same(_run: AsyncRun, what: Any) -> Any:
            return what

        async with await opener() as store:
            with pytest.raises(Invalid) as argument:
                await store.start(program(same), {"a": object()})
            assert argument.value.path == "args[0].a"
            with pytest.raises(Invalid) as misfit:
                await store.start(program(same))
            assert misfit.value.path == "args"
            assert not await store.runs()

    async def test_an_effect_stands_and_a_program_that_catches_it_goes_on(self, opener: AsyncOpener) -> None:
        outside = Outside()

        @tool
        async def send() -> Any:
            outside.seen("effect")
            return {"x": object()}

        async def careless(run: AsyncRun) -> Any:
            return await run.act(send)

        async def careful(run: AsyncRun) -> str:
            try:
                return await run.act(send)
            except Invalid as error:
                return error.path

        async with await opener() as store:
            for _ in range(2):
                refused = await driven(store, program(careless))
                assert (type(refused), refused.code) == (Failed, "Invalid")
                assert refused.message.startswith("result.x: send happened")
                (handle,) = await store.runs()
                await handle.retry()
            assert await driven(store, program(careful)) == "result.x"
            assert outside.count == 1
