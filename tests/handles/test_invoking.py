"""Calls in threads of their own: what comes of one that nobody waits for any more."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest

import perdure
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


def test_a_call_whose_event_loop_was_dropped_is_still_under_way(tmp_path):
    """Its thread may yet send: nobody takes the effect for that of a dead sender. When the call comes back, that is recorded."""
    began, go, calls = threading.Event(), threading.Event(), []

    @perdure.tool(kind="idempotent")
    def send(number: int) -> int:
        calls.append(number)
        began.set()
        assert go.wait(60)
        return number

    async def act() -> Any:
        return await (await store.aio.session("s")).act(send, 7, key="k")

    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        loop, acting = asyncio.new_event_loop(), act()
        task = loop.create_task(acting)
        while not began.is_set():
            loop.run_until_complete(asyncio.sleep(0.001))
        loop.close()
        with contextlib.suppress(RuntimeError):  # no loop takes what it would say
            acting.close()
        task._log_destroy_pending = False
        with pytest.raises(perdure.Conflict, match="being sent"):
            asyncio.run(act())
        go.set()
        while store.session("s").effects(open=True):
            threading.Event().wait(0.001)
        assert asyncio.run(act()) == 7
    assert calls == [7]
