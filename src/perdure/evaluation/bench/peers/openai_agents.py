"""OpenAI Agents: its SQLiteSession, one item a turn."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agents import SQLiteSession  # type: ignore[import-not-found]

from perdure.evaluation.bench.floor import Rate, timed
from perdure.evaluation.bench.peers import TEXT, TURNS, main

ITEM = {"role": "user", "content": TEXT}


def turns(folder: Path, count: int) -> Rate:
    """One session, one turn after the other."""
    session = SQLiteSession("one-writer", folder / "sessions.db")

    async def act(times: int) -> None:
        for _ in range(times):
            await session.add_items([ITEM])

    with asyncio.Runner() as runner:
        runner.run(act(10))
        return timed(count, lambda: runner.run(act(count)))


def crowd(folder: Path, count: int) -> Rate:
    """Many sessions of one file at once."""
    sessions = [SQLiteSession(f"s{number}", folder / "sessions.db") for number in range(count // TURNS)]

    async def one(session: SQLiteSession) -> None:
        for _ in range(TURNS):
            await session.add_items([ITEM])

    async def act() -> None:
        await asyncio.gather(*(one(session) for session in sessions))

    return timed(count, lambda: asyncio.run(act()))


if __name__ == "__main__":
    main(turns=turns, crowd=crowd)
