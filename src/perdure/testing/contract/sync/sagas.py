# Generated from testing/contract/aio/sagas.py by tools/unasync.py: edit that one.
"""The contract of undoing: what a saga holds is decided by its place, what was undone is not acted upon again (P3, P4, P13)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from perdure.effects.tool import Tool, tool
from perdure.errors import Cancelled, Changed, Conflict, Failed, Waiting
from perdure.handles.sync.run import Run
from perdure.runtime.agent import Agent
from perdure.testing.contract.sync.doubt import quiet, until
from perdure.testing.contract.sync.effects import Outside
from perdure.testing.contract.sync.runs import driven, program
from perdure.testing.openers import Opener


def creating(outside: Outside, **declared: Any) -> Tool:
    """A tool that makes something, with one that takes it away again."""

    def delete(name: str) -> None:
        outside.seen(f"-{name}")

    @tool(undo=delete, **declared)
    def create(name: str) -> str:
        return outside.seen(f"+{name}")

    return create


def trip(outside: Outside, *, how: str = "refused", **declared: Any) -> Agent:
    """An agent with a saga that does not come to its end."""
    create = creating(outside)

    @tool
    def pay() -> None:
        if outside.seen("pay") and outside.calls.count("pay") == 1:
            raise Failed("declined")

    def fails() -> None:
        raise OSError("down")

    def booked(run: Run) -> str:
        with run.saga():
            run.act(create, "hotel")
            if how == "refused":
                run.act(pay)
            elif how == "step":
                run.step(fails)
            elif how == "program":
                raise ValueError("no flight")
            run.ask("?")
            run.act(pay)
        return "enjoy"

    return program(booked, **declared)


class UndoingContract:
    """What is undone, when, and what may follow."""

    # -- trying again ------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("how", ["refused", "step", "program", "cancelled", "too late"])
    def test_a_run_that_was_undone_is_not_tried_again(self, opener: Opener, how: str) -> None:
        outside = Outside()
        made = trip(outside, how=how, timeout="1h" if how == "too late" else None)
        with opener() as store:
            driven(store, made)
            (handle,) = store.runs()
            if how == "cancelled":
                handle.cancel()
            elif how == "too late":
                opener.clock.advance("1h")
            ended = driven(store, made)
            assert type(ended) is (Cancelled if how == "cancelled" else Failed)
            seen = [*outside.calls]
            assert seen[-1] == "-hotel"
            with pytest.raises(Conflict, match="undone") as refused:
                handle.retry()
            assert "another key" in refused.value.hint
            assert type(driven(store, made)) is type(ended)
            assert outside.calls == seen

    def test_what_failed_after_an_undone_saga_is_tried_again(self, opener: Opener) -> None:
        outside = Outside()
        create = creating(outside)

        @tool
        def tell() -> str:
            if outside.seen("tell") and outside.calls.count("tell") == 1:
                raise Failed("no")
            return "told"

        def shaky() -> str:
            if outside.seen("look") and outside.calls.count("look") == 1:
                raise OSError("down")
            return "looked"

        def careful(run: Run) -> list[str]:
            try:
                with run.saga():
                    run.act(create, "hotel")
                    raise ValueError("no")  # noqa: TRY301 - it is what the saga is for
            except ValueError:
                looked = run.step(shaky)
            return [looked, run.act(tell)]

        made = program(careful)
        with opener() as store:
            for code in ("OSError", "Failed"):
                assert (driven(store, made)).code == code
                (store.runs())[0].retry()
            assert store.drive(made, key="k") == ["looked", "told"]
            assert outside.calls == ["+hotel", "-hotel", "look", "look", "tell", "tell"]

    # -- what a saga holds ---------------------------------------------------------------------------------------------

    def test_a_saga_is_not_cut(self, opener: Opener) -> None:
        outside = Outside()
        create = creating(outside)

        def cutting(run: Run) -> None:
            with run.saga():
                run.act(create, "hotel")
                run.checkpoint({"hotel": 1})

        def later(run: Run) -> str:
            with run.saga():
                run.act(create, "car")
            return str(run.checkpoint({"car": 1}))

        with opener() as store:
            refused = driven(store, program(cutting))
            assert type(refused) is Failed
            assert (refused.code, "saga" in refused.message) == ("Refused", True)
            assert outside.calls == ["+hotel", "-hotel"]
            assert store.drive(program(later), key="later") == "True"

    def test_a_line_of_work_that_was_begun_before_is_not_in_it(self, opener: Opener) -> None:
        outside = Outside()
        create = creating(outside)

        def lines(run: Run, asks: bool) -> None:
            before = run.branch("before")
            run.act(create, "kept")
            with run.saga():
                before.act(create, "side")
                within = run.branch("within")
                within.act(create, "inside")
                run.act(create, "own")
                if asks:
                    run.ask("?")
                raise ValueError("no")

        made = program(lines)
        with opener() as store:
            for asks in (False, True):
                outside.calls.clear()
                key = str(asks)
                refused = driven(store, made, asks, key=key)
                if asks:
                    store.answer((store.asks())[0].id, "go on")
                    refused = driven(store, made, asks, key=key)
                assert refused.code == "ValueError"
                assert outside.calls == ["+kept", "+side", "+inside", "+own", "-own", "-inside"]

    # -- when ----------------------------------------------------------------------------------------------------------

    def test_what_was_given_up_is_undone_only_when_it_can_no_longer_arrive(self, opener: Opener) -> None:
        go, outside = threading.Event(), Outside()

        def delete() -> None:
            outside.seen("-")

        @tool(kind="idempotent", timeout=0.02, lands_within="30s", undo=delete)
        def create() -> None:
            go.wait(60)
            outside.seen("+")

        def booked(run: Run) -> None:
            with run.saga():
                run.act(create)

        made = program(booked)
        with opener() as store:
            assert type(driven(store, made)) is Waiting  # its thread may still send
            (handle,) = store.runs()
            assert (handle.record.reason, handle.record.wake_at is None, outside.calls) == ("landing", False, [])
            go.set()
            until(store, lambda: outside.calls)
            (effect,) = handle.effects()
            quiet(store, effect.id)
            assert (effect.refresh()).state == "failed"
            assert type(driven(store, made)) is Waiting  # what it sent may still arrive
            assert outside.calls == ["+"]
            opener.clock.advance("30s")
            assert (driven(store, made)).code == "Overdue"
            assert outside.calls == ["+", "-"]
            assert [each.state for each in handle.effects()] == ["undone", "committed"]
            assert (store.verify()).ok

    # -- cancelling ----------------------------------------------------------------------------------------------------

    def test_a_parked_run_that_is_cancelled_undoes_what_it_did(self, opener: Opener) -> None:
        outside = Outside()
        create = creating(outside)

        def booked(run: Run) -> None:
            with run.saga():
                run.act(create, "hotel")
                run.step(str, outside.count)
                run.ask("?")

        made = program(booked)
        with opener() as store:
            driven(store, made)
            (handle,) = store.runs()
            handle.resume()
            outside.seen("changed")
            assert type(driven(store, made)) is Changed
            outside.calls.pop()  # the program that began it is back
            assert ((handle.cancel("enough")).status, handle.record.cancelling) == ("ready", True)
            assert type(driven(store, made)) is Cancelled
            assert outside.calls == ["+hotel", "-hotel"]

    def test_one_that_cannot_undo_is_over_when_it_is_cancelled_again(self, opener: Opener) -> None:
        outside = Outside()
        create = creating(outside)

        def booked(run: Run) -> None:
            with run.saga():
                run.act(create, "hotel")
                run.step(str, outside.count)
                run.ask("?")

        made = program(booked)
        with opener() as store:
            driven(store, made)
            (handle,) = store.runs()
            handle.resume()
            outside.seen("changed")
            for _ in range(2):
                assert type(driven(store, made)) is Changed
                handle.cancel("enough")
            assert (handle.status, outside.calls) == ("cancelled", ["+hotel", "changed"])
            assert [each.state for each in handle.effects()] == ["committed"]
