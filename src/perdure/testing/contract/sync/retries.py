# Generated from testing/contract/aio/retries.py by tools/unasync.py: edit that one.
"""The contract of trying again: what uses up a retry, what does not, and how long the other side is believed (P4, P15)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.effects import ledger, settling
from perdure.effects.meaning import intend
from perdure.effects.tool import Tool, tool
from perdure.errors import Failed, InDoubt, Unavailable, Waiting
from perdure.handles.sync.session import Session
from perdure.testing.contract.sync.effects import SENDER, Outside
from perdure.testing.openers import Opener


class Stopped(BaseException):
    """What stops a process, as far as a tool can be seen to raise it."""


def died_with(session: Session, found: Tool, key: str) -> None:
    """Somebody dispatched this effect and gave no sign of life since."""
    session._write(ledger.dispatch, intend(found.name, found.kind, {}, found.rule, key, None), SENDER)


class RetriesContract:
    """What is tried again, and how often."""

    @pytest.mark.parametrize("error", [OSError("reset"), Unavailable("not now")])
    @pytest.mark.parametrize("retries", [1, 0])
    def test_a_death_uses_up_no_retry(self, opener: Opener, retries: int, error: Exception) -> None:
        outside = Outside()

        @tool(kind="idempotent", retries=retries, backoff="1ms")
        def flaky() -> str:
            outside.seen()
            if outside.count == 1:
                raise error
            return "done"

        with opener() as store:
            session = store.session("s")
            died_with(session, flaky, "k")
            if retries:
                assert session.act(flaky, key="k") == "done"
            else:  # the control: its own failure does
                with pytest.raises(Failed):
                    session.act(flaky, key="k")
            (effect,) = session.effects()
            assert (effect.record.attempt, effect.record.mishaps) == (2 + retries, 1)
            assert (outside.count, (store.verify()).ok) == (1 + retries, True)

    @pytest.mark.parametrize("kind", ["idempotent", "keyed"])
    def test_a_tool_that_ends_its_process_each_time_comes_to_an_end(self, opener: Opener, kind: str) -> None:
        outside = Outside()

        @tool(kind=kind, retries=1_000)
        def fatal(*, key: str = "") -> None:
            outside.seen(key)
            raise Stopped

        with opener() as store:
            session = store.session("s")
            for _ in range(settling.MISHAPS_MAX):
                with pytest.raises(Stopped):
                    session.act(fatal, key="k")
            for _ in range(2):
                with pytest.raises(InDoubt, match="5 times whoever sent it died or was stopped") as doubt:
                    session.act(fatal, key="k")
                assert doubt.value.facts["action"] == "ask a person"
            assert outside.count == settling.MISHAPS_MAX == 5

    @pytest.mark.parametrize("late", [False, True])
    def test_keys_are_kept_from_the_first_dispatch_on(self, opener: Opener, late: bool) -> None:
        outside = Outside()

        @tool(kind="keyed", keeps_keys="24h", retries=9, backoff="1ms")
        def pay(*, key: str) -> Any:
            outside.seen(key)
            if outside.count == 1:
                raise Stopped
            return "paid"

        with opener() as store:
            session = store.session("s")
            with pytest.raises(Waiting):
                session.act(pay, key="k", approve="Really?")
            opener.clock.advance("25h")  # the approval took longer than the other side keeps keys
            (ask,) = store.asks()
            store.answer(ask.id, "approve", by="ann")
            with pytest.raises(Stopped):
                session.act(pay, key="k", approve="Really?")
            opener.clock.advance("24h" if late else "23h")
            if late:  # the control: now it may have forgotten it
                with pytest.raises(InDoubt, match="the other side may have forgotten its key"):
                    session.act(pay, key="k", approve="Really?")
            else:
                assert session.act(pay, key="k", approve="Really?") == "paid"
            assert outside.count == (1 if late else 2)
