# Generated from testing/contract/aio/sagas.py by tools/unasync.py: edit that one.
"""The contract of undoing: what a saga holds is decided by its place, what was undone is not acted upon again (P3, P4, P13)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from perdure.effects.tool import Tool, tool
from perdure.errors import Cancelled, Changed, Conflict, Failed, Parked, Waiting
from perdure.handles.sync.run import Run
from perdure.model.records.effects import Absent, Happened
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


def waiting_in_a_saga(outside: Outside) -> Agent:
    """An agent that does something it can undo and then asks. Something else that is seen outside changes what it does."""
    create = creating(outside)

    def booked(run: Run) -> None:
        with run.saga():
            run.act(create, "hotel")
            run.step(str, outside.count)
            run.ask("?")

    return program(booked)


class SagasContract:
    """What was done is undone in reverse, durably."""

    def test_what_was_done_is_undone_in_reverse(self, opener: Opener) -> None:
        outside = Outside()

        def delete(name: str, result: str) -> None:
            outside.seen(f"deleted {name} {result}")

        @tool(undo=delete)
        def create(name: str) -> str:
            return outside.seen(f"created {name}").upper()

        @tool
        def refuse() -> None:
            raise Failed("no", code="No")

        def trip(run: Run) -> str:
            run.act(create, "kept")
            try:
                with run.saga():
                    run.act(create, "a")
                    run.act(create, "b")
                    run.act(refuse)
            except Failed as failed:
                run.ask("?")
                return failed.code
            return "?"

        made = program(trip)
        with opener() as store:
            driven(store, made)
            (handle,) = store.runs()
            for _ in range(2):
                handle.resume()
                driven(store, made)
            store.answer((store.asks())[0].id, "x")
            assert store.drive(made, key="k") == "No"
            assert outside.calls == [
                "created kept", "created a", "created b", "deleted b CREATED B", "deleted a CREATED A",
            ]  # fmt: skip
            states = {each.record.args.get("name"): each.state for each in handle.effects() if each.tool == "create"}
            assert states == {"kept": "committed", "a": "undone", "b": "undone"}
            assert (store.verify()).ok

    def test_a_failed_undo_parks_and_can_be_tried_again(self, opener: Opener) -> None:
        outside = Outside()

        @tool(kind="idempotent", fails=[PermissionError])
        def delete(name: str) -> None:
            if outside.seen(f"delete {name}") and outside.calls.count(f"delete {name}") == 1:
                raise PermissionError("locked")

        @tool(undo=delete)
        def create(name: str) -> str:
            return outside.seen(name)

        def trip(run: Run) -> None:
            try:
                with run.saga():
                    run.act(create, "a")
                    run.step(int, "no number")
            except Exception:  # noqa: BLE001 - what a careless agent does: a parked run stays parked
                run.act(create, "after")

        made = program(trip)
        with opener() as store:
            with pytest.raises(Parked, match="create could not be undone: locked"):
                store.drive(made, key="k")
            (handle,) = store.runs(status="parked")
            assert [each.state for each in handle.effects()] == ["undoing", "failed"]
            assert outside.calls == ["a", "delete a"]
            handle.retry()
            store.drive(made, key="k")
            assert outside.calls == ["a", "delete a", "delete a", "after"]
            assert [each.state for each in handle.effects()] == ["undone", "committed", "committed"]

    def test_doubt_inside_a_saga_waits_visibly(self, opener: Opener) -> None:
        outside = Outside()

        def delete() -> None:
            outside.seen("deleted")

        @tool(undo=delete)
        def create() -> None:
            outside.seen("created")
            raise OSError("reset")

        def trip(run: Run) -> None:
            with run.saga():
                run.act(create)
                raise ValueError("no")

        made = program(trip)
        with opener() as store:
            for verdict, expected in ((Happened(1), ["created", "deleted"]), (Absent(), ["created", "created"])):
                outside.calls.clear()
                key = type(verdict).__name__
                with pytest.raises(Waiting) as waiting:
                    store.drive(made, key=key)
                (doubt,) = waiting.value.facts["doubts"]
                assert f"perdure settle {doubt}" in waiting.value.hint
                assert outside.calls == ["created"]
                (store.effect(doubt)).settle(verdict, by="ann")
                refused = driven(store, made, key=key)
                if type(verdict) is Happened:
                    assert refused.code == "ValueError"
                else:
                    assert type(refused) is Waiting  # it was tried again, and is in doubt again
                assert outside.calls == expected

    def test_a_cancelled_run_undoes_what_it_did(self, opener: Opener) -> None:
        outside = Outside()

        def delete() -> None:
            outside.seen("deleted")

        @tool(undo=delete)
        def create() -> None:
            outside.seen("created")

        def trip(run: Run) -> None:
            with run.saga():
                run.act(create)
                run.ask("?")

        made = program(trip, timeout="1h")
        with opener() as store:
            for end in ("cancel", "timeout"):
                outside.calls.clear()
                driven(store, made, key=end)
                (handle,) = store.runs(status="waiting")
                if end == "cancel":
                    assert (handle.cancel("enough")).record.cancelling
                else:
                    opener.clock.advance("1h")
                refused = driven(store, made, key=end)
                assert type(refused) is (Cancelled if end == "cancel" else Failed)
                assert outside.calls == ["created", "deleted"]
                assert [each.state for each in handle.effects()] == ["undone", "committed"]

    def test_what_an_idempotent_tool_may_have_done_is_undone_too(self, opener: Opener) -> None:
        outside = Outside()

        def delete() -> None:
            outside.seen("deleted")

        @tool(kind="idempotent", undo=delete)
        def create() -> None:
            outside.seen("created")
            raise OSError("reset")

        def trip(run: Run) -> None:
            with run.saga():
                run.act(create)

        made = program(trip)
        with opener() as store:
            assert type(driven(store, made)) is Waiting  # what was sent may still arrive
            assert outside.calls == ["created"]
            opener.clock.advance("60s")
            assert (driven(store, made)).code == "OSError"
            assert outside.calls == ["created", "deleted"]


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
        made = waiting_in_a_saga(outside)
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
        made = waiting_in_a_saga(outside)
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
