"""Driving an agent of the other colour: an async agent from a sync store, a sync agent from an async store.

The store is the same, only the caller differs. Callers: the handles of runs, in both colours.
"""

from __future__ import annotations

from perdure.handles.callers import AsyncCaller, Caller
from perdure.handles.invoking import awaited
from perdure.model.records.runs import RunRecord
from perdure.planes.leasing import Lease
from perdure.runtime.agent import Agent
from perdure.runtime.course import Drive


def drive(caller: Caller, agent: Agent, lease: Lease, record: RunRecord | None = None) -> Drive:
    """Drive a claimed run from sync code. An async agent gets an event loop of its own."""
    if not agent.is_async:
        from perdure.handles.sync.driving import drive_claimed  # noqa: PLC0415 - the colour that is needed, no other

        return drive_claimed(caller, agent, lease, record)
    from perdure.handles.aio import driving  # noqa: PLC0415 - only who has async agents pays for it

    return awaited(driving.drive_claimed(_async(caller), agent, lease, record))


async def adrive(caller: AsyncCaller, agent: Agent, lease: Lease, record: RunRecord | None = None) -> Drive:
    """Drive a claimed run from async code. A sync agent gets a thread of its own: it may block."""
    if agent.is_async:
        from perdure.handles.aio import driving  # noqa: PLC0415 - the colour that is needed, no other

        return await driving.drive_claimed(caller, agent, lease, record)
    from asyncio import to_thread  # noqa: PLC0415 - only async callers pay for it

    from perdure.handles.sync.driving import drive_claimed  # noqa: PLC0415 - as above

    return await to_thread(
        drive_claimed, Caller(caller.core, caller.actor, caller.tenant, caller.heartbeat), agent, lease, record
    )


def _async(caller: Caller) -> AsyncCaller:
    return AsyncCaller(caller.core, caller.actor, caller.tenant, caller.heartbeat)
