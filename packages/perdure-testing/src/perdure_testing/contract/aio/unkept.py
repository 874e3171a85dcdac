"""The contract of what cannot be kept: refused where it is made, with its path; what happened stands all the same (P2, P15)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.effects.tool import tool
from perdure.errors import Failed, Invalid, Waiting
from perdure.handles.aio.run import AsyncRun
from perdure.model.limits import VALUE_MAX_BYTES
from perdure_testing.contract.aio.effects import CountingWorld
from perdure_testing.contract.aio.runs import driven, program
from perdure_testing.openers import AsyncOpener


async def odd_step() -> Any:
    """Gives what nobody can keep."""
    return {"x": [object()]}


def told(said: list[str]) -> list[str]:
    """A program's account of an error."""
    return said


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
                return await run.step(odd_step, {"y": object()})  # type: ignore[call-overload]
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
        outside = CountingWorld()

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

    async def test_who_catches_it_reads_the_same_at_every_replay(self, opener: AsyncOpener) -> None:
        """Its message may go into what is done next, as a model is told what went wrong."""

        async def large() -> str:
            return "x" * (VALUE_MAX_BYTES + 1)

        async def careful(run: AsyncRun) -> list[str]:
            lines = []
            for step in (odd_step, large):
                try:
                    await run.step(step)
                except Invalid as error:
                    lines.append(
                        await run.step(told, [str(error), error.message, error.path, error.hint, type(error).__name__])
                    )
            await run.wait("go")
            return lines

        async with await opener() as store:
            assert type(await driven(store, program(careful))) is Waiting
            (handle,) = await store.runs()
            await handle.signal("go")
            (odd, too_large) = await driven(store, program(careful))
            assert (odd[2], odd[4], too_large[4]) == ("result.x[0]", "Invalid", "TooLarge")

    async def test_a_model_is_told_of_a_reading_that_cannot_be_kept(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        @tool(kind="read")
        async def look() -> Any:
            return object()

        @tool
        async def send() -> str:
            outside.seen("effect")
            return "sent"

        def model() -> Any:
            return {"calls": [{"id": "a", "tool": "look", "args": {}}, {"id": "b", "tool": "send", "args": {}}]}

        async def loop(run: AsyncRun) -> Any:
            reply = await run.respond(model, tools=[look, send])
            texts = await run.step(told, [str(answer.error or answer.result) for answer in reply.answers])
            await run.wait("go")
            return texts

        async with await opener() as store:
            assert type(await driven(store, program(loop))) is Waiting
            (handle,) = await store.runs()
            await handle.signal("go")
            look_said, send_said = await driven(store, program(loop))
            assert (look_said.partition(": an object")[0], send_said) == ("Invalid: result", "sent")
            assert outside.count == 1
