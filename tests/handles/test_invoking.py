"""Calls in threads of their own: what comes of one that nobody waits for any more."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from perdure.runtime.invoking import Overdue, acall


def test_a_late_answer_is_told_though_the_loop_is_closed_just_when_it_comes(monkeypatch):
    """It was looked whether the loop is open, and then told; who came in between took the answer along."""
    go, told = threading.Event(), threading.Event()
    late: list[Any] = []
    loop = asyncio.new_event_loop()

    def slow() -> str:
        assert go.wait(60)
        return "late"

    async def leave() -> None:
        with pytest.raises(Overdue):
            await acall(slow, 0.01, lambda *outcome: (late.append(outcome), told.set()), is_async=False)

    loop.run_until_complete(leave())
    loop.close()
    monkeypatch.setattr(loop, "is_closed", lambda: False)  # as it was when somebody looked
    go.set()
    assert told.wait(60)
    assert late == [("late", None)]
