"""The contract of beginnings: a run and its session begin together, and its time is counted where it continues (P1, P13)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import KeyReused, Waiting
from perdure.handles.aio.run import AsyncRun
from perdure_testing.contract.aio.runs import program
from perdure_testing.openers import AsyncOpener


async def nothing(_run: AsyncRun, n: int = 0) -> int:
    """An agent that does nothing."""
    return n


class AsyncBeginningsContract:
    """How runs begin, and begin anew."""

    async def test_a_run_and_its_session_begin_in_one_commit(self, opener: AsyncOpener) -> None:
        agent = program(nothing)
        async with await opener() as store:
            await store.start(agent, 1, key="k")
            with pytest.raises(KeyReused):
                await store.start(agent, 2, key="k", session="s")
            assert not await store.sessions()
            run = await store.start(agent, 1, key="other", session="s")
            assert ([session.name for session in await store.sessions()], run.record.session) == (["s"], "s")

    @pytest.mark.parametrize("cut", [True, False])
    async def test_checkpoints_by_time_count_from_the_last_one_whoever_goes_on(
        self, opener: AsyncOpener, cut: bool
    ) -> None:
        saved: list[bool] = []

        async def steady(run: AsyncRun) -> Any:
            if run.restored is None and cut:
                await run.checkpoint({"n": 1}, now=True)
            for n in range(3):
                await run.ask(f"{n}?")
                saved.append(await run.checkpoint({"n": 1}))
            return "done"

        async with await opener() as store:
            agent = program(steady, checkpoint="every 10m")
            for _ in range(2):
                with pytest.raises(Waiting):
                    await store.drive(agent, key="k")
                opener.clock.advance("6m")
                (ask,) = await store.asks()
                await store.answer(ask.id, "yes")
            with pytest.raises(Waiting):
                await store.drive(agent, key="k")
            assert saved[-1] is True
            assert True not in saved[:-1]  # the control: not before its time
