"""Google ADK: the model plays the task, its tools do the operations, and a `SqliteSessionService` keeps the session.

As its documentation has it: the app is resumable, and after a crash its last invocation is resumed by its id. A question ends an
invocation, and its answer begins the next one.
"""
# ruff: noqa: D102, PLC0415 - the verbs are described by the interface; a peer is imported where it is installed

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

from perdure_evaluate.recovery.subjects.model_play import Conversing, ToldPart, hush

APP = "evaluated"
REQUEST = "adk_request_confirmation"  # the framework's own call, which asks a person


class GoogleAdk(Conversing):
    """One file, `sessions.db`. The session is named by the folder of the case."""

    about = "Google ADK with SqliteSessionService: resumable"
    peer = "google-adk"

    @property
    def who(self) -> dict[str, str]:
        return {"user_id": "person", "session_id": self.place.folder.name}

    def converse(self, message: str | None) -> None:
        hush("google_adk")
        asyncio.run(self.invoke(message))

    async def invoke(self, message: str | None) -> None:
        """Run the agent with a message, or resume its last invocation."""
        from google.adk.agents.run_config import RunConfig  # type: ignore[import-not-found]
        from google.adk.runners import Runner  # type: ignore[import-not-found]

        service = self.service()
        session = await self.session(service) or await service.create_session(app_name=APP, **self.who)
        config = RunConfig(max_llm_calls=0)  # without a limit
        runner = Runner(app=self.app(), session_service=service)
        async for _ in runner.run_async(**self.who, run_config=config, **self.next_message(session.events, message)):
            pass

    def next_message(self, events: list[Any], message: str | None) -> dict[str, Any]:
        """The arguments by which the runner goes on."""
        from google.genai import types  # type: ignore[import-not-found]

        if message is None:
            return {"invocation_id": events[-1].invocation_id}
        return {"new_message": types.Content(role="user", parts=[types.Part(text=message)])}

    def app(self) -> Any:
        from google.adk.agents import LlmAgent  # type: ignore[import-not-found]
        from google.adk.apps.app import App, ResumabilityConfig  # type: ignore[import-not-found]

        from perdure_evaluate.recovery.subjects.google_adk_model import model_of

        tools: Any = [_with_name(name, fn) for name, fn in self.functions().items()]
        agent = LlmAgent(name="agent", model=model_of(self), tools=tools)
        resumable = ResumabilityConfig(is_resumable=True)
        return App(name=APP, root_agent=agent, plugins=self.plugins(), resumability_config=resumable)

    def plugins(self) -> list[Any]:
        return []

    def service(self) -> Any:
        from google.adk.sessions.sqlite_session_service import SqliteSessionService  # type: ignore[import-not-found]

        return SqliteSessionService(str(self.place.folder / "sessions.db"))

    async def session(self, service: Any) -> Any:
        return await service.get_session(app_name=APP, **self.who)

    def parts(self) -> list[ToldPart]:
        session = asyncio.run(self.session(self.service()))
        return parts_of([event.content for event in session.events if event.content]) if session is not None else []


def _with_name(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function by the name of its tool."""

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    call.__name__ = name
    return call


def parts_of(contents: list[Any]) -> list[ToldPart]:
    """The parts of a conversation, by its contents. A model is shown no ids: a result belongs to the call before it."""
    parts: list[ToldPart] = []
    calls = 0
    for role, part in ((content.role, part) for content in contents for part in content.parts or ()):
        called, response = part.function_call, part.function_response
        if called and called.name != REQUEST:
            calls += 1
            parts.append(ToldPart("call", called.args, str(calls), called.name))
        elif response and response.name != REQUEST:
            parts.append(ToldPart("result", response.response.get("result"), str(calls)))
        elif part.text:
            parts.append(ToldPart("user" if role == "user" else "model", part.text))
    return parts
