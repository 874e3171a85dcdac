# Generated from testing/contract/aio/programs.py by tools/unasync.py: edit that one.
"""The contract of changed programs: what differs is named with its place, and nothing is done (P13)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.effects.tool import tool
from perdure.errors import Changed, Parked, Waiting
from perdure.handles.sync.run import Run
from perdure.testing.contract.sync.effects import Outside
from perdure.testing.contract.sync.runs import driven, program
from perdure.testing.openers import Opener


class Deployed:
    """A program that began, and what deploys may have made of it: the place, what was expected and what is found."""

    CHANGES = (
        ("renamed", "0//1", "step one", "step other"),
        ("arguments", "0//2", "step one with arguments", "step one with arguments"),
        ("fewer", "0//2", "step one", "nothing more"),
        ("more", "0//2", "step one", "effect send"),
        ("asked", "0//3", "ask", "ask with arguments"),
    )

    def __init__(self) -> None:
        self.outside = Outside()
        self.send = tool(name="send")(self._sent)

    def _sent(self) -> Any:
        return self.outside.seen("sent")

    def one(self, n: int) -> Any:
        """A step."""
        return self.outside.seen(n)

    def other(self, n: int) -> Any:
        """Another one."""
        return self.outside.seen(n)

    def began(self, run: Run) -> None:
        """The program as it was."""
        run.step(self.one, 1)
        run.step(self.one, 2)
        run.ask("?")

    def renamed(self, run: Run) -> None:
        """It calls another function, and catches what it must not."""
        try:
            run.step(self.other, 1)
        except Exception:  # noqa: BLE001 - what a careless agent does
            run.act(self.send)

    def arguments(self, run: Run) -> None:
        """It calls with other arguments."""
        run.step(self.one, 1)
        run.step(self.one, 3)
        run.act(self.send)

    def fewer(self, run: Run) -> None:
        """It leaves something out."""
        run.step(self.one, 1)

    def more(self, run: Run) -> None:
        """It does something in between."""
        run.step(self.one, 1)
        run.act(self.send)
        run.step(self.one, 2)
        run.ask("?")

    def asked(self, run: Run) -> None:
        """It asks something else."""
        run.step(self.one, 1)
        run.step(self.one, 2)
        run.ask("Another question?")


class ProgramsContract:
    """A run is never guessed at."""

    @pytest.mark.parametrize(("change", "place", "expected", "found"), Deployed.CHANGES)
    def test_a_changed_program_is_named_and_does_nothing(
        self, opener: Opener, change: str, place: str, expected: str, found: str
    ) -> None:
        deployed = Deployed()
        with opener() as store:
            driven(store, program(deployed.began))
            before = deployed.outside.count
            (handle,) = store.runs(status="waiting")
            handle.resume()
            with pytest.raises(Changed) as parked:
                store.drive(program(getattr(deployed, change)), key="k")
            assert all(way in parked.value.hint for way in ("perdure resume", "run.patched", "perdure pin"))
            assert (handle.envelope()).verdict.says == f"it is parked (changed): {parked.value.hint}"
            assert parked.value.facts["reason"] == "changed"
            assert f"at {place} it did {expected}" in parked.value.message
            assert f"now does {found}" in parked.value.message
            (event,) = store.events(kind="run.parked", limit=1)
            assert event.data["place"] == place
            assert (event.data["expected"].startswith(expected), event.data["found"].startswith(found)) == (True, True)
            handle.unpark()
            assert type(driven(store, program(deployed.began))) is Waiting  # the old program goes on
            assert deployed.outside.count == before
            assert (store.verify()).ok

    def test_both_ways_stand_in_a_patched_program(self, opener: Opener) -> None:
        def note(text: str) -> str:
            return text

        def old(run: Run) -> list[str]:
            return [run.step(note, "old"), run.ask("?")]

        def new(run: Run) -> list[Any]:
            said = []
            for _ in range(2):
                way = "new" if run.patched("v2") else "old"
                said.append(way)
            return [run.step(note, said[0]), run.ask("?"), *said, run.patched("v2")]

        with opener() as store:
            driven(store, program(old), key="began")
            made = program(new)
            for key in ("began", "fresh"):
                for _ in range(2):
                    (store.start(made, key=key)).resume()
                    driven(store, made, key=key)
                store.answer((store.asks())[0].id, "a")
            assert store.drive(made, key="began") == ["old", "a", "old", "old", False]
            assert store.drive(made, key="fresh") == ["new", "a", "new", "new", True]

    def test_a_run_that_another_program_was_tried_with_can_be_pinned_to_its_own(self, opener: Opener) -> None:
        def one(run: Run) -> Any:
            return run.ask("one?")

        def two(run: Run) -> Any:
            return run.ask("two?")

        with opener() as store:
            old, new = program(one), program(two)
            driven(store, old)
            (handle,) = store.runs()
            for _ in range(2):  # also when it is tried again in vain
                handle.resume()
                assert type(driven(store, new)) is Changed
                assert (handle.refresh()).record.program == old.program
            handle.pin(handle.record.program)
            handle.resume()
            assert "pinned" in (driven(store, new)).message
            assert (handle.refresh()).status == "ready"
            store.answer((store.asks())[0].id, "yes")
            assert store.drive(old, key="k") == "yes"

    def test_whatever_parks_a_run_says_so_with_facts_of_any_name(self, opener: Opener) -> None:
        def halt(_run: Run) -> None:
            raise Parked("look", reason="mine", why="a", stream="b", program="c", facts="d", hint="e")

        def nested(_run: Run) -> None:
            raise Changed("another one is", reason="changed", place="0//1")

        with opener() as store:
            for each, reason in ((halt, "mine"), (nested, "changed")):
                driven(store, program(each), key=each.__name__)
                (handle,) = store.runs(status="parked", limit=1)
                assert handle.record.reason == reason

    def test_a_pinned_run_is_for_its_program_alone(self, opener: Opener) -> None:
        def one(_run: Run) -> int:
            return 1

        def two(_run: Run) -> int:
            return 2

        with opener() as store:
            old = program(one)
            handle = store.start(old, key="k")
            handle.pin(old.program)
            with pytest.raises(Changed) as refused:
                store.drive(program(two), key="k")
            assert refused.value.facts["expected"] == old.program
            assert (handle.refresh()).status == "ready"
            handle.pin(None)
            assert store.drive(program(two), key="k") == 2
