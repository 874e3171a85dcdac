"""Google ADK: its SqliteSessionService, one event a turn."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from google.adk.events import Event  # type: ignore[import-not-found]
from google.adk.sessions.sqlite_session_service import SqliteSessionService  # type: ignore[import-not-found]
from google.genai import types  # type: ignore[import-not-found]

from perdure.evaluation.bench.floor import Rate, timed
from perdure.evaluation.bench.peers import TEXT, main


def turns(folder: Path, count: int) -> Rate:
    """One session, one event after the other."""
    service = SqliteSessionService(str(folder / "sessions.db"))

    async def act(session: Any, times: int) -> None:
        for _ in range(times):
            content = types.Content(role="user", parts=[types.Part(text=TEXT)])
            await service.append_event(session, Event(author="user", content=content))

    with asyncio.Runner() as runner:
        session = runner.run(service.create_session(app_name="bench", user_id="one", session_id="one-writer"))
        runner.run(act(session, 10))
        return timed(count, lambda: runner.run(act(session, count)))


if __name__ == "__main__":
    main(turns=turns)
