# Generated from testing/contract/aio/restored.py by tools/unasync.py: edit that one.
"""The contract after a restore: nothing that may have been done is done again, until somebody knows better (P3, P4)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.effects.tool import tool
from perdure.handles.sync.run import Run
from perdure.handles.sync.store import Store
from perdure.model.records.conversation import Call
from perdure.model.records.effects import Absent, Happened
from perdure.runtime.agent import agent
from perdure.testing.contract.sync.effects import Outside
from perdure.testing.contract.sync.runs import driven, program
from perdure.testing.openers import Opener


def put_back(store: Store) -> None:
    """Let a store be one that was restored from a backup: what it has planned and sent is of another epoch."""
    store._caller.core.epoch += 1


class RestoredContract:
    """A run of a store that was restored."""

    def test_a_probe_is_asked_before_something_new_is_sent(self, opener: Opener) -> None:
        outside, world = Outside(), {"a"}

        def look(to: str) -> Any:
            outside.seen(f"looked for {to}")
            return Happened("found") if to in world else Absent()

        @tool(probe=look, lands_within=0)
        def send(to: str) -> str:
            return outside.seen(f"sent {to}")

        def outer(run: Run) -> list[Any]:
            run.ask("?")
            found = [run.act(send, "a"), run.act(send, "b")]
            run.checkpoint(found)
            return [*found, run.act(send, "c")]

        made = program(outer)
        with opener() as store:
            driven(store, made)
            put_back(store)  # it sent `a` after the backup
            (store.runs())[0].resume()
            driven(store, made)  # being taken once is not enough
            store.answer((store.asks())[0].id, "go on")
            assert store.drive(made, key="k") == ["found", "sent b", "sent c"]
            assert outside.calls == ["looked for a", "looked for b", "sent b", "looked for c", "sent c"]

    @pytest.mark.parametrize("batch", [False, True])
    @pytest.mark.parametrize("kind", ["keyed", "probed"])
    def test_what_follows_from_something_found_out_anew_is_asked_about(
        self, opener: Opener, kind: str, batch: bool
    ) -> None:
        """It may have been done with other arguments: neither a key nor a probe finds that out."""
        outside = Outside()

        def look(to: str) -> Any:
            raise AssertionError(f"it may be known by another name than {to}")

        def send(to: str, *, key: str = "") -> str:
            assert key or kind == "probed"
            return outside.seen(f"sent {to}")

        declared: dict[str, Any] = {"kind": "keyed"} if kind == "keyed" else {"probe": look}
        sender = tool(name="send", **declared)(send)

        def think() -> dict[str, Any]:
            return {"calls": [Call(to, "send", {"to": to}) for to in "ab"]}

        def outer(run: Run) -> list[Any]:
            run.ask("?")
            if batch:
                return [each.result for each in (run.respond(think, tools=[sender])).answers]
            run.step(think)
            return [run.act(sender, "a"), run.act(sender, "b")]

        made = program(outer)
        with opener() as store:
            driven(store, made)
            put_back(store)  # a model may have said something else since
            store.answer((store.asks())[0].id, "go on")
            driven(store, made)
            assert outside.calls == []
            (store.effects(state="in_doubt"))[0].settle(Happened("sent c"), by="ann")
            driven(store, made)
            assert outside.calls == []
            (store.effects(state="in_doubt"))[0].settle(Absent(), by="ann")
            assert store.drive(made, key="k") == ["sent c", "sent b"]

    @pytest.mark.parametrize("batch", [False, True])
    @pytest.mark.parametrize("verdict", [Happened("sent before"), Absent()])
    def test_a_person_is_asked_before_something_unsafe_is_sent(self, opener: Opener, verdict: Any, batch: bool) -> None:
        """It may have been sent after the backup, and nothing but a person can find out."""
        outside = Outside()

        @tool
        def send() -> str:
            return outside.seen("sent now")

        def think() -> dict[str, Any]:
            return {"calls": [Call("c", "send", {})]}

        def outer(run: Run) -> list[Any]:
            found = run.restored
            if found is None:
                run.ask("?")
                found = (run.respond(think, tools=[send])).answers[0].result if batch else run.act(send)
                run.checkpoint(found)
            return [found, run.act(send)]

        made = program(outer)
        with opener() as store:
            driven(store, made)
            put_back(store)  # it may have sent it after the backup
            store.answer((store.asks())[0].id, "go on")
            driven(store, made)
            driven(store, made)
            (doubt,) = store.effects(state="in_doubt")
            assert outside.calls == []
            doubt.settle(verdict, by="ann")
            sent = "sent before" if isinstance(verdict, Happened) else "sent now"
            driven(store, made)  # a checkpoint does not make it known what came after the backup
            assert outside.count == (0 if isinstance(verdict, Happened) else 1)
            (doubt,) = store.effects(state="in_doubt")
            doubt.settle(Happened("this too"), by="ann")
            assert store.drive(made, key="k") == [sent, "this too"]
            assert outside.count == (0 if isinstance(verdict, Happened) else 1)

    def test_a_run_that_somebody_vouches_for_does_what_it_means_to_do(self, opener: Opener) -> None:
        outside = Outside()

        @tool
        def send() -> str:
            return outside.seen("sent")

        def outer(run: Run) -> list[Any]:
            run.ask("?")
            return [run.act(send), run.act(send)]

        made = program(outer)
        with opener() as store:
            driven(store, made)
            put_back(store)
            (store.runs())[0].resume(vouch=True)
            store.answer((store.asks())[0].id, "go on")
            assert store.drive(made, key="k") == ["sent", "sent"]

    def test_a_child_is_as_wary_as_its_parent(self, opener: Opener) -> None:
        """Its parent may have called it after the backup."""
        outside = Outside()

        @tool
        def send() -> str:
            return outside.seen("sent")

        @agent(name="wary-child")
        def inner(run: Run) -> str:
            return run.act(send)

        def outer(run: Run) -> Any:
            run.ask("?")
            return run.call(inner)

        made = program(outer)
        with opener() as store:
            driven(store, made)
            put_back(store)
            store.answer((store.asks())[0].id, "go on")
            driven(store, made)
            store.recover([inner])
            (doubt,) = store.effects(state="in_doubt")
            doubt.settle(Happened("sent before"), by="ann")
            store.recover([inner])
            assert store.drive(made, key="k") == "sent before"
            assert outside.calls == []
