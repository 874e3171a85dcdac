"""Calls in threads of their own: what comes of one that nobody waits for any more."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest

import perdure
from perdure.runtime.invoking import Overdue, acall
from perdure.stores.in_flight import InFlight


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


def test_a_sync_run_whose_async_caller_was_cancelled_is_driven_by_nobody_else_meanwhile(tmp_path):
    """Its thread goes on. A second drive took the run from it, and called an idempotent tool beside the first call."""
    began, go, calls = threading.Event(), threading.Event(), []

    @perdure.tool(kind="idempotent")
    def send(number: int) -> int:
        calls.append(number)
        began.set()
        assert go.wait(60)
        return number

    @perdure.agent
    def sends(run: perdure.Run) -> int:
        return run.act(send, 7)

    async def work() -> None:
        async with perdure.aopen(f"sqlite:///{tmp_path}/a.db") as store:
            driving = asyncio.ensure_future(store.drive(sends, key="r"))
            assert await asyncio.to_thread(began.wait, 60)
            driving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await driving
            try:
                with pytest.raises(perdure.Conflict, match="being driven"):
                    await store.drive(sends, key="r")
            finally:
                go.set()
            handle = await store.run(agent=sends, key="r")
            assert await handle.result(timeout="60s") == 7
            assert await store.drive(sends, key="r") == 7

    asyncio.run(work())
    assert calls == [7]


def test_a_ctrl_c_right_before_a_call_leaves_no_attempt_under_way(tmp_path, monkeypatch):
    """Its effect was being sent for as long as the process lived."""
    real, left = InFlight.unannounce, [True]

    def interrupted(self: InFlight, *which: Any) -> None:
        real(self, *which)
        if left and left.pop():
            raise KeyboardInterrupt

    monkeypatch.setattr(InFlight, "unannounce", interrupted)
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        session = store.session("s")
        send = perdure.tool(kind="idempotent", name="send")(lambda number: number)
        with pytest.raises(KeyboardInterrupt):
            session.act(send, 7, key="k")
        assert session.act(send, 7, key="k") == 7
