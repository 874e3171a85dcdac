"""The contract of what is odd: whatever a tool raises, returns or is, its effect is judged and recorded, never lost (P2, P15)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.effects.tool import tool
from perdure.errors import Error, Failed, InDoubt, Invalid
from perdure.handles.aio.run import AsyncRun
from perdure.model.records.effects import Happened
from perdure_testing.contract.aio.runs import driven, program
from perdure_testing.openers import AsyncOpener


class Unprintable(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Grudging(Exception):
    """An error that does not even say whether it may still send."""

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


# The error that is raised, the state that follows, the code that is kept.
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


class AsyncOdditiesContract:
    """Odd tools."""

    @pytest.mark.parametrize("odd", RAISED)
    async def test_whatever_a_tool_raises_is_kept(self, opener: AsyncOpener, odd: str) -> None:
        error, state, code = RAISED[odd]

        @tool
        async def send() -> None:
            raise error

        async def acting(run: AsyncRun) -> Any:
            return await run.act(send)

        async with await opener() as store:
            session = await store.session("s")
            with pytest.raises((Failed, InDoubt)):
                await session.act(send, key="k")
            (effect,) = await session.effects()
            recorded = effect.record.error
            assert recorded is not None
            assert (effect.state, recorded.code) == (state, code or recorded.code)
            assert isinstance(await driven(store, program(acting)), Error)
            (run,) = await store.runs()
            assert [effect.state for effect in await run.effects()] == [state]
            assert run.status == ("failed" if state == "failed" else "waiting")

    async def test_what_a_probe_found_is_done_though_it_cannot_be_kept(self, opener: AsyncOpener) -> None:
        async def look() -> Happened:
            return Happened(object())

        @tool(probe=look)
        async def send() -> None:
            raise OSError("reset")

        async def acting(run: AsyncRun) -> Any:
            return await run.act(send)

        async with await opener() as store:
            assert (await driven(store, program(acting)))["unstorable"] == "object"
            (run,) = await store.runs()
            assert [(effect.state, effect.record.settled_by) for effect in await run.effects()] == [
                ("committed", "probe")
            ]

    async def test_pins_of_a_model_go_by_name(self, opener: AsyncOpener) -> None:
        async def asking(run: AsyncRun) -> Any:
            with pytest.raises(Invalid, match="expected pins by name, got int"):
                await run.model(int, pins=5)  # type: ignore[arg-type]
            with pytest.raises(Invalid, match="expected pins by name, got int"):
                await run.respond(int, tools=[], pins=5)  # type: ignore[arg-type]
            return "refused"

        async with await opener() as store:
            assert await driven(store, program(asking)) == "refused"
