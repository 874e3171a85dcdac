# Generated from testing/contract/aio/models.py by tools/unasync.py: edit that one.
"""The contract of what is kept of a step: a model's input by reference, and of a reading the digest alone (P8, P13)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.effects.tool import tool
from perdure.errors import Invalid, NotFound, Parked, Waiting
from perdure.handles.sync.run import Run
from perdure.handles.sync.store import Store
from perdure.stores.statements import Statement
from perdure.testing.contract.sync.effects import Outside
from perdure.testing.contract.sync.runs import driven, program
from perdure.testing.openers import Opener

BYTES = Statement("blob_bytes", "how much all blobs hold", "SELECT coalesce(sum(size), 0) FROM blobs")
MESSAGE = "word " * 100


def stored_bytes(store: Store) -> int:
    """How much all blobs hold."""
    return (store._caller.read(lambda reads: reads.query(BYTES)))[0][0]


def llm(messages: list[Any], *, temperature: float = 0.0) -> dict[str, Any]:
    """A model."""
    messages.append("mutated in the call")
    return {"text": str(temperature), "usage": {"in": len(messages)}}


class ModelsContract:
    """What a step keeps."""

    def test_the_input_of_a_model_can_be_read_back(self, opener: Opener) -> None:
        def asking(run: Run) -> Any:
            given = [{"role": "user", "content": MESSAGE * 20}]
            run.step(len, "x")
            said = run.model(llm, given, temperature=0.5, pins={"model": "m1"})
            run.respond(llm, [1], tools=[], pins={"model": "m2"})
            return said["text"]

        with opener() as store:
            assert store.drive(program(asking), key="k") == "0.5"
            (run,) = store.runs()
            plain, model, replied = run.steps()
            assert model.notes == {"model": {"model": "m1"}, "usage": {"in": 2}}
            expected = {"args": [[{"role": "user", "content": MESSAGE * 20}]], "kwargs": {"temperature": 0.5}}
            assert run.input_of(model.seq) == expected
            assert run.input_of(replied.seq) == {"args": [[1]], "kwargs": {}}
            assert run.steps(after=plain.seq) == [model, replied]
            for number in (plain.seq, 1, 99):
                with pytest.raises(NotFound):
                    run.input_of(number)
            assert (store.collect()).blobs == 0
            assert run.input_of(model.seq) == expected
            assert (store.verify()).ok

    def test_a_list_of_messages_that_grows_costs_what_it_grows_by(self, opener: Opener) -> None:
        def chat(run: Run, turns: int) -> int:
            messages: list[str] = []
            for turn in range(turns):
                messages.append(f"{turn} {MESSAGE}")
                run.model(llm, list(messages))
            return len(messages)

        with opener() as store:
            sizes = []
            for turns in (40, 80):
                store.drive(program(chat), turns, key=str(turns))
                sizes.append(stored_bytes(store))
            whole = 80 * len(MESSAGE)
            grown = sizes[1] - sizes[0]  # the first 40 are shared
            assert grown < 6 * whole  # the control: each time in full would be
            assert sum(turn * len(MESSAGE) for turn in range(40, 80)) > 20 * whole

    def test_of_a_reading_the_digest_alone_may_be_kept(self, opener: Opener) -> None:
        outside = Outside()

        @tool(kind="read", keep="digest")
        def look(name: str) -> str:
            outside.seen(name)
            return f"SECRET of {name}"

        def reading(run: Run) -> Any:
            found = run.step(look, "a")
            run.ask("?")
            return found

        with opener() as store:
            with pytest.raises(Waiting):
                store.drive(program(reading), key="k")
            (run,) = store.runs()
            (step,) = run.steps()
            assert (step.value, len(step.gave or "")) == (None, 64)
            kept = [str(each.said) for each in run.timeline()]
            assert not [each for each in kept if "SECRET" in each]
            (ask,) = store.asks()
            store.answer(ask.id, "yes")
            assert store.drive(program(reading), key="k") == "SECRET of a"
            assert outside.calls == ["a", "a"]  # it was read again

    @pytest.mark.parametrize("now", ["other", OSError("gone")])
    def test_what_reads_otherwise_parks_the_run(self, opener: Opener, now: Any) -> None:
        outside = Outside()
        found: list[Any] = ["first"]

        @tool(kind="read", keep="digest")
        def look() -> Any:
            if isinstance(found[-1], Exception):
                raise found[-1]
            return outside.seen(found[-1])

        def reading(run: Run) -> Any:
            try:
                value = run.step(look)
            except Exception:  # noqa: BLE001 - what a careless agent does
                value = "caught"
            run.ask("?")
            return value

        with opener() as store:
            driven(store, program(reading))
            (ask,) = store.asks()
            store.answer(ask.id, "yes")
            found.append(now)
            parked = driven(store, program(reading))
            assert isinstance(parked, Parked)
            assert "look gave " in parked.message
            (run,) = store.runs()
            assert (run.status, run.record.reason) == ("parked", "reread")
            found.append("first")  # as it was: it goes on
            run.resume()
            assert driven(store, program(reading)) == "first"

    def test_a_retry_goes_on_with_what_is_read_now(self, opener: Opener) -> None:
        found = ["first"]

        @tool(kind="read", keep="digest")
        def look() -> str:
            return found[-1]

        def reading(run: Run) -> Any:
            value = run.step(look)
            run.ask("?")
            return value

        with opener() as store:
            driven(store, program(reading))
            (ask,) = store.asks()
            store.answer(ask.id, "yes")
            found.append("second")
            assert isinstance(driven(store, program(reading)), Parked)
            (run,) = store.runs()
            run.retry()
            assert driven(store, program(reading)) == "second"

    @pytest.mark.parametrize("declared", [{"kind": "unsafe", "keep": "digest"}, {"kind": "read", "keep": "all"}])
    def test_only_readings_keep_a_digest(self, opener: Opener, declared: Any) -> None:
        del opener
        with pytest.raises(Invalid) as refused:
            tool(**declared)(lambda: 1)
        assert refused.value.path == "keep"
