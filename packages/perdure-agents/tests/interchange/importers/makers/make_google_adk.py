"""Makes a sample with google-adk itself: an agent that calls tools, on its session services. Runs in the peer's interpreter.

python make_google_adk.py FOLDER    writes sessions.db, and expected.json: what the library itself reads back from it;
                               and database.db by DatabaseSessionService, where SQLAlchemy is there
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools import ToolContext
from google.genai import types


def weather(city: str, tool_context: ToolContext) -> dict[str, str]:
    """The weather of a city."""
    tool_context.state["last_city"] = city
    tool_context.state["user:likes"] = "sun"
    tool_context.state["app:calls"] = 2
    return {"city": city, "sky": "sunny"}


class Scripted(BaseLlm):
    """Says what it is told to say."""

    answers: list[list[Any]]

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=types.Content(role="model", parts=self.answers.pop(0)))


def calls(city: str) -> Any:
    return types.Part(function_call=types.FunctionCall(name="weather", args={"city": city}))


def told(event: Any) -> dict[str, Any]:
    parts = event.content.parts if event.content else []
    return {
        "id": event.id,
        "author": event.author,
        "text": [part.text for part in parts if part.text],
        "calls": [[each.id, each.name, each.args] for each in event.get_function_calls()],
        "results": [[each.id, each.response] for each in event.get_function_responses()],
    }


async def make(service: Any) -> dict[str, Any]:
    answers = [[types.Part(text="Let me look."), calls("Oslo"), calls("Rome")], [types.Part(text="Both are sunny.")],
               [types.Part(text="Yes.")]]  # fmt: skip
    agent = LlmAgent(name="planner", model=Scripted(model="scripted", answers=answers), tools=[weather])
    runner = Runner(app_name="trips", agent=agent, session_service=service)
    read: dict[str, Any] = {}
    for user, name, texts in (("ann", "trip-1", ["Where is it warm?", "Sure?"]), ("bob", "empty", [])):
        await service.create_session(app_name="trips", user_id=user, session_id=name, state={"began": True})
        for text in texts:
            message = types.Content(role="user", parts=[types.Part(text=text)])
            async for _ in runner.run_async(user_id=user, session_id=name, new_message=message):
                pass
        session = await service.get_session(app_name="trips", user_id=user, session_id=name)
        read[f"trips/{user}/{name}"] = {"events": [told(each) for each in session.events], "state": dict(session.state)}
    return read


def write(folder: Path, read: dict[str, Any], name: str) -> None:
    expected = {"made with": f"google-adk {version('google-adk')}", "sessions": read}
    (folder / name).write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")


def main(folder: Path) -> None:
    write(folder, asyncio.run(make(SqliteSessionService(str(folder / "sessions.db")))), "expected.json")
    if find_spec("sqlalchemy"):
        from google.adk.sessions.database_session_service import DatabaseSessionService

        service = DatabaseSessionService(f"sqlite+aiosqlite:///{folder}/database.db")
        write(folder, asyncio.run(make(service)), "expected-database.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
