"""Makes a sample with openai-agents itself: agents that call tools, run over two SQLiteSessions. Runs in the peer's interpreter.

python make_openai_agents.py FOLDER    writes sessions.db, and expected.json: what the library itself reads back from it
"""

from __future__ import annotations

import asyncio
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from agents import Agent, ModelResponse, Runner, SQLiteSession, Usage, function_tool, set_tracing_disabled
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText


@function_tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: sunny, 21 °C"


@function_tool
def fails(reason: str) -> str:
    """A tool that fails."""
    raise RuntimeError(reason)


class Scripted(Model):
    """Says what it is told to say, one answer after the other."""

    def __init__(self, *answers: list[Any]) -> None:
        self.answers = list(answers)

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        return ModelResponse(output=self.answers.pop(0), usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def says(text: str) -> ResponseOutputMessage:
    part = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(
        id=f"msg_{len(text)}", type="message", role="assistant", status="completed", content=[part]
    )


def calls(call: str, name: str, **arguments: str) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        id=f"fc_{call}", call_id=call, name=name, arguments=json.dumps(arguments), type="function_call"
    )


async def make(folder: Path) -> None:
    set_tracing_disabled(True)
    file = folder / "sessions.db"
    first, second = SQLiteSession("trip-1", file), SQLiteSession("trip/ünï", file)
    model = Scripted(
        [says("Let me look."), calls("call_a", "weather", city="Oslo"), calls("call_b", "weather", city="Rome")],
        [says("Oslo and Rome are both sunny.")],
        [calls("call_c", "fails", reason="no network")],
        [says("That did not work.")],
    )
    agent = Agent(name="planner", instructions="Plan trips.", model=model, tools=[weather, fails])
    await Runner.run(agent, "Where is it warm?", session=first)
    await Runner.run(agent, "And in Atlantis?", session=first)
    await second.add_items(
        [{"role": "user", "content": [{"type": "input_text", "text": "parts"}]}, {"role": "user", "content": "hello"}]
    )
    read = {each.session_id: await each.get_items() for each in (first, second)}
    told = {"made with": f"openai-agents {version('openai-agents')}", "sessions": read}
    (folder / "expected.json").write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    first.close()
    second.close()


if __name__ == "__main__":
    asyncio.run(make(Path(sys.argv[1])))
