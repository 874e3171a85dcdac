"""The contract of what is kept of a step: a model's input by reference, and of a reading the digest alone (P8, P13)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.effects.tool import tool
from perdure.errors import Invalid, NotFound, Parked, Waiting
from perdure.handles.aio.run import AsyncRun
from perdure.handles.aio.store import AsyncStore
from perdure.runtime.callers import caller_of
from perdure.stores.statements import Statement
from perdure_testing.contract.aio.effects import CountingWorld
from perdure_testing.contract.aio.runs import driven, program
from perdure_testing.openers import AsyncOpener

BYTES = Statement("blob_bytes", "how much all blobs hold", "SELECT coalesce(sum(size), 0) FROM blobs")
MESSAGE = "word " * 100


async def stored_bytes(store: AsyncStore) -> int:
    """How much all blobs hold."""
    return (await caller_of(store).read(lambda reads: reads.query(BYTES)))[0][0]


async def llm(messages: list[Any], *, temperature: float = 0.0) -> dict[str, Any]:
    """A model."""
    messages.append("mutated in the call")
    return {"text": str(temperature), "usage": {"in": len(messages)}}


class AsyncModelsContract:
    """The parts that a step keeps."""

    async def test_the_input_of_a_model_can_be_read_back(self, opener: AsyncOpener) -> None:
        async def asking(run: AsyncRun) -> Any:
            prompt = [{"role": "user", "content": MESSAGE * 20}]
            await run.step(len, "x")
            answer = await run.model(llm, prompt, temperature=0.5, pins={"model": "m1"})
            await run.respond(llm, [1], tools=[], pins={"model": "m2"})
            return answer["text"]

        async with await opener() as store:
            assert await store.drive(program(asking), key="k") == "0.5"
            (run,) = await store.runs()
            plain, model, replied = await run.steps()
            assert model.notes == {"model": {"model": "m1"}, "usage": {"in": 2}}
            expected = {"args": [[{"role": "user", "content": MESSAGE * 20}]], "kwargs": {"temperature": 0.5}}
            assert await run.input_of(model.seq) == expected
            assert await run.input_of(replied.seq) == {"args": [[1]], "kwargs": {}}
            assert await run.steps(after=plain.seq) == [model, replied]
            for number in (plain.seq, 1, 99):
                with pytest.raises(NotFound):
                    await run.input_of(number)
            assert (await store.collect()).blobs == 0
            assert await run.input_of(model.seq) == expected
            assert (await store.verify()).ok

    async def test_a_list_of_messages_that_grows_costs_what_it_grows_by(self, opener: AsyncOpener) -> None:
        async def chat(run: AsyncRun, turns: int) -> int:
            messages: list[str] = []
            for turn in range(turns):
                messages.append(f"{turn} {MESSAGE}")
                await run.model(llm, list(messages))
            return len(messages)

        async with await opener() as store:
            sizes = []
            for turns in (40, 80):
                await store.drive(program(chat), turns, key=str(turns))
                sizes.append(await stored_bytes(store))
            full_size = 80 * len(MESSAGE)
            grown = sizes[1] - sizes[0]  # the first 40 are shared
            assert grown < 6 * full_size  # the control: each time in full would be
            assert sum(turn * len(MESSAGE) for turn in range(40, 80)) > 20 * full_size

    async def test_of_a_reading_the_digest_alone_may_be_kept(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        @tool(kind="read", keep="digest")
        async def look(name: str) -> str:
            outside.seen(name)
            return f"SECRET of {name}"

        async def reading(run: AsyncRun) -> Any:
            reading_result = await run.step(look, "a")
            await run.ask("?")
            return reading_result

        async with await opener() as store:
            with pytest.raises(Waiting):
                await store.drive(program(reading), key="k")
            (run,) = await store.runs()
            (step,) = await run.steps()
            assert (step.value, len(step.gave or "")) == (None, 64)
            lines = [str(event.said) for event in await run.timeline()]
            assert not [line for line in lines if "SECRET" in line]
            (ask,) = await store.asks()
            await store.answer(ask.id, "yes")
            assert await store.drive(program(reading), key="k") == "SECRET of a"
            assert outside.calls == ["a", "a"]  # it was read again

    @pytest.mark.parametrize("now", ["other", OSError("gone")])
    async def test_what_reads_otherwise_parks_the_run(self, opener: AsyncOpener, now: Any) -> None:
        outside = CountingWorld()
        readings: list[Any] = ["first"]

        @tool(kind="read", keep="digest")
        async def look() -> Any:
            if isinstance(readings[-1], Exception):
                raise readings[-1]
            return outside.seen(readings[-1])

        async def reading(run: AsyncRun) -> Any:
            try:
                value = await run.step(look)
            except Exception:  # noqa: BLE001 - what a careless agent does
                value = "caught"
            await run.ask("?")
            return value

        async with await opener() as store:
            await driven(store, program(reading))
            (ask,) = await store.asks()
            await store.answer(ask.id, "yes")
            readings.append(now)
            parked = await driven(store, program(reading))
            assert isinstance(parked, Parked)
            assert "look gave " in parked.message
            (run,) = await store.runs()
            assert (run.status, run.record.reason) == ("parked", "reread")
            readings.append("first")  # as it was: it continues
            await run.resume()
            assert await driven(store, program(reading)) == "first"

    async def test_a_retry_goes_on_with_what_is_read_now(self, opener: AsyncOpener) -> None:
        readings = ["first"]

        @tool(kind="read", keep="digest")
        async def look() -> str:
            return readings[-1]

        async def reading(run: AsyncRun) -> Any:
            value = await run.step(look)
            await run.ask("?")
            return value

        async with await opener() as store:
            await driven(store, program(reading))
            (ask,) = await store.asks()
            await store.answer(ask.id, "yes")
            readings.append("second")
            assert isinstance(await driven(store, program(reading)), Parked)
            (run,) = await store.runs()
            await run.retry()
            assert await driven(store, program(reading)) == "second"

    @pytest.mark.parametrize("declared", [{"kind": "unsafe", "keep": "digest"}, {"kind": "read", "keep": "all"}])
    async def test_only_readings_keep_a_digest(self, opener: AsyncOpener, declared: Any) -> None:
        del opener
        with pytest.raises(Invalid) as refused:
            tool(**declared)(lambda: 1)
        assert refused.value.path == "keep"
