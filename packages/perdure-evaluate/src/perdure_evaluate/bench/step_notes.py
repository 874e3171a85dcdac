"""Agents whose steps note when and where they were done, as a user's own small module would have them.

Callers: `perdure worker`, which the cases of `workers.py` start. The clock is the machine's (CLOCK_MONOTONIC), so that what is
noted in one process can be compared with another's.
"""

from __future__ import annotations

import asyncio
import os
import time

import perdure

STEP_SECONDS = 0.05
STEPS = 10_000  # of a run that is still at work whenever its worker is killed


def note(_number: int) -> list[int]:
    """When and in which process this step is done."""
    return [time.monotonic_ns(), os.getpid()]


async def plod(number: int) -> list[int]:
    """Plod after some work."""
    await asyncio.sleep(STEP_SECONDS)
    return note(number)


@perdure.agent(name="bench-begin")
def begin(run: perdure.Run) -> list[int]:
    """One step."""
    return run.step(note, 0)


@perdure.agent(name="bench-takeover")
async def takeover(run: perdure.AsyncRun) -> int:
    """Many steps, one after the other."""
    return sum([len(await run.step(plod, number)) for number in range(STEPS)])
