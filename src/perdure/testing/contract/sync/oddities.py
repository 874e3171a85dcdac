# Generated from testing/contract/aio/oddities.py by tools/unasync.py: edit that one.
"""The contract of what is odd: whatever a tool raises, returns or is, its effect is judged and recorded, never lost (P2, P15)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.effects.tool import tool
from perdure.errors import Error, Failed, InDoubt, Invalid
from perdure.handles.sync.run import Run
from perdure.model.records.effects import Happened
from perdure.testing.contract.sync.runs import driven, program
from perdure.testing.openers import Opener


class Unprintable(Exception):
    """What cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Grudging(Exception):
    """What does not even say whether it may still send."""

    @property
    def quiet(self) -> bool:
        """Our own errors say so."""
        raise RuntimeError("no words")


class Text(str):
    """Text that does not do what text does."""

    __slots__ = ()

    def encode(self, *_: Any, **__: Any) -> bytes:
        """Not this."""
        raise RuntimeError("no words")


# What is raised, the state that follows, the code that is kept.
RAISED: dict[str, tuple[Exception, str, str | None]] = {
    "a number for a code": (Failed("no", code=404), "failed", "404"),  # type: ignore[arg-type]
    "a code past all bounds": (Failed("no", code="c" * 9_000), "failed", "c" * 200),
    "a code that no database takes": (Failed("no", code="a\0b\ud800"), "failed", "ab?"),
    "a code that cannot be printed": (Failed("no", code=Unprintable()), "failed", None),  # type: ignore[arg-type]
    "a message that is none": (Failed(None), "failed", "Failed"),  # type: ignore[arg-type]
    "a message that no database takes": (Failed("\0\ud800"), "failed", "Failed"),
    "text that is none": (Failed("no", code=Text("c")), "failed", "c"),
    "no words": (Unprintable(), "in_doubt", "Unprintable"),
    "no words about quiet": (Grudging("no"), "in_doubt", "Grudging"),
    "a group": (ExceptionGroup("g", [ValueError("a")]), "in_doubt", "ExceptionGroup"),
}


class OdditiesContract:
    """Odd tools."""

    @pytest.mark.parametrize("odd", RAISED)
    def test_whatever_a_tool_raises_is_kept(self, opener: Opener, odd: str) -> None:
        error, state, code = RAISED[odd]

        @tool
        def send() -> None:
            raise error

        def acting(run: Run) -> Any:
            return run.act(send)

        with opener() as store:
            session = store.session("s")
            with pytest.raises((Failed, InDoubt)):
                session.act(send, key="k")
            (effect,) = session.effects()
            said = effect.record.error
            assert said is not None
            assert (effect.state, said.code) == (state, code or said.code)
            assert isinstance(driven(store, program(acting)), Error)
            (run,) = store.runs()
            assert [each.state for each in run.effects()] == [state]
            assert run.status == ("failed" if state == "failed" else "waiting")

    def test_what_a_probe_found_is_done_though_it_cannot_be_kept(self, opener: Opener) -> None:
        def look() -> Happened:
            return Happened(object())

        @tool(probe=look)
        def send() -> None:
            raise OSError("reset")

        def acting(run: Run) -> Any:
            return run.act(send)

        with opener() as store:
            assert driven(store, program(acting)) == {"unstorable": "object"}
            (run,) = store.runs()
            assert [(each.state, each.record.settled_by) for each in run.effects()] == [("committed", "probe")]

    def test_pins_of_a_model_go_by_name(self, opener: Opener) -> None:
        def asking(run: Run) -> Any:
            with pytest.raises(Invalid, match="expected pins by name, got int"):
                run.model(int, pins=5)  # type: ignore[arg-type]
            with pytest.raises(Invalid, match="expected pins by name, got int"):
                run.respond(int, tools=[], pins=5)  # type: ignore[arg-type]
            return "refused"

        with opener() as store:
            assert driven(store, program(asking)) == "refused"
