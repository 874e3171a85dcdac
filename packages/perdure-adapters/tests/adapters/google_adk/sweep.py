"""A program: kills an agent of Google ADK at every crash point, and prints what the outside world saw, as JSON.

`python sweep.py MODE FOLDER MOST`. MODE: see MODES. A life that follows a death resumes the invocation, or (again) sends the
message again. unsafe: the tool says nothing about itself, and a person answers the confirmation by what the outside world shows.
streamed: answers come in parts. slow: on a slow disk. twice: the life after the first one is killed too.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

import perdure
from adapters.google_adk.shop import Scripted
from adapters.lives import Life
from adapters.sweeping import happened, report, slowed
from perdure_adapters.google_adk import PerdurePlugin, PerdureSessionService, plugin

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
WHO = {"app_name": "shop", "user_id": "alice", "session_id": "order"}

ROUNDS_MAX = 6


def bank(life: Life) -> Any:
    async def charge(cents: int) -> dict[str, Any]:
        """Charge a card."""
        life.at("tool.charge.before")
        life.see("charged", cents)
        life.at("tool.charge.after")
        return {"charged": cents}

    return charge


def looked_up(life: Life, cents: int) -> Any:
    return perdure.Happened({"charged": cents}) if happened(life, f"charged {cents}") else perdure.Absent()


def said(event: Any) -> list[str]:
    return [part.text for part in (event.content.parts if event.content else None) or () if part.text]


def asked(events: Any) -> list[Any]:
    """The confirmations that nobody has answered."""
    answered = {each.id for event in events for each in event.get_function_responses()}
    calls = [call for event in events for call in event.get_function_calls()]
    return [call for call in calls if call.name == "adk_request_confirmation" and call.id not in answered]


def verdicts(life: Life, questions: list[Any]) -> Any:
    """A person looks at the bank's book, and says what happened."""
    parts = []
    for each in questions:
        cents = each.args["originalFunctionCall"]["args"]["cents"]
        verdict = {"happened": {"charged": cents}} if happened(life, f"charged {cents}") else "absent"
        answer = {"confirmed": True, "payload": verdict}
        parts.append(types.Part(function_response=types.FunctionResponse(id=each.id, name=each.name, response=answer)))
    return types.Content(role="user", parts=parts)


async def finish(life: Life, service: Any, runner: Runner, *, again: bool, streamed: bool) -> None:
    """Run the agent until it is done, as the program of a user does."""
    config = RunConfig(streaming_mode=StreamingMode.SSE if streamed else StreamingMode.NONE)
    found = await service.get_session(**WHO) or await service.create_session(**WHO)
    for _ in range(ROUNDS_MAX):
        if any(said(event) == ["done"] for event in found.events):
            return
        message: Any = types.Content(role="user", parts=[types.Part(text="buy it")])
        more: dict[str, Any] = {"new_message": message}
        if questions := asked(found.events):
            more = {"new_message": verdicts(life, questions)}
        elif found.events and not again:
            more = {"invocation_id": found.events[-1].invocation_id}
        async for _ in runner.run_async(user_id="alice", session_id="order", run_config=config, **more):
            pass
        found = await service.get_session(**WHO)
    raise AssertionError("the agent does not come to an end")


def run(life: Life, service: Any, plugins: list[Any], *, again: bool, streamed: bool = False) -> None:
    agent = LlmAgent(name="shop", model=Scripted(model="scripted", asked=life.answered), tools=[bank(life)])
    config = None if again else ResumabilityConfig(is_resumable=True)
    app = App(name="shop", root_agent=agent, plugins=plugins, resumability_config=config)
    asyncio.run(finish(life, service, Runner(app=app, session_service=service), again=again, streamed=streamed))


def with_perdure(
    kind: str, *, again: bool = False, unsafe: bool = False, streamed: bool = False, forgets: str = ""
) -> Any:
    def program(life: Life) -> None:
        if forgets == "calls":  # a control: a call without a response is not recognised when it is made again
            plugin.key_among = lambda events, call_id: None
        if forgets == "answers":  # a control: a message that is sent again is a new question to the model
            plugin.answer_among = lambda events, invocation, agent: None
        declared = perdure.tool(
            lambda cents: None, name="charge", probe=lambda cents: looked_up(life, cents), lands_within=0
        )
        with perdure.open(f"{kind}:///{life.folder}/agent.db") as store:
            made = PerdurePlugin(store, kinds={} if unsafe else {"charge": declared})
            run(life, PerdureSessionService(store), [made], again=again, streamed=streamed)

    return program


def stock(*, again: bool) -> Any:
    def program(life: Life) -> None:
        run(life, SqliteSessionService(str(life.folder / "stock.db")), [], again=again)

    return program


MODES = {
    "sqlite": with_perdure("sqlite"),
    "again": with_perdure("sqlite", again=True),
    "unsafe": with_perdure("sqlite", unsafe=True),
    "unsafe-again": with_perdure("sqlite", unsafe=True, again=True),
    "files": with_perdure("files"),
    "slow": slowed(with_perdure("sqlite")),
    "slow-again": slowed(with_perdure("sqlite", again=True)),
    "streamed": with_perdure("sqlite", streamed=True),
    "streamed-again": with_perdure("sqlite", streamed=True, again=True),
    "twice": with_perdure("sqlite", again=True),
    "unsafe-twice": with_perdure("sqlite", unsafe=True),
    "forgets": with_perdure("sqlite", again=True, forgets="calls"),
    "asks-anew": with_perdure("sqlite", again=True, forgets="answers"),
    "stock": stock(again=False),
    "stock-again": stock(again=True),
}

if __name__ == "__main__":
    report(MODES, *sys.argv[1:])
