"""Microsoft Agent Framework: the model plays the task, its tools do the operations, a `FileHistoryProvider` keeps the messages.

As its documentation has it: the provider is given to the agent, each answer is stored before its calls are carried out, and
after a crash the agent runs again with its session, and no message.
"""
# ruff: noqa: D102, PLC0415 - the verbs are described by the interface; a peer is imported where it is installed

from __future__ import annotations

import asyncio
import json
from typing import Any

from perdure_evaluate.recovery.subjects.model_play import Conversing, ToldPart, hush


class AgentFramework(Conversing):
    """One folder, `history`. The session is named by the folder of the case."""

    about = "Microsoft Agent Framework with FileHistoryProvider"
    peer = "agent-framework"

    def converse(self, message: str | None) -> None:
        asyncio.run(self.answered(message))

    async def answered(self, message: Any) -> Any:
        """The framework's response to a message, or to none."""
        from agent_framework import AgentSession  # type: ignore[import-not-found]

        return await self.agent().run(message, session=AgentSession(session_id=self.place.folder.name))

    def history(self) -> Any:
        from agent_framework import FileHistoryProvider  # type: ignore[import-not-found]

        hush("agent_framework")
        return FileHistoryProvider(self.place.folder / "history")

    def agent(self, **options: Any) -> Any:
        from agent_framework import Agent, tool  # type: ignore[import-not-found]

        from perdure_evaluate.recovery.subjects.agent_framework_client import client_of

        tools = [tool(fn, name=name, approval_mode="never_require") for name, fn in self.functions().items()]
        options = {
            "context_providers": [self.history()],
            **options,
            "require_per_service_call_history_persistence": True,
        }
        return Agent(client_of(self), tools=tools, **options)

    def parts(self) -> list[ToldPart]:
        return parts_of(asyncio.run(self.history().get_messages(self.place.folder.name)))


def parts_of(messages: Any) -> list[ToldPart]:
    """The parts of a conversation, by its messages."""
    contents = [(message.role, content) for message in messages for content in message.contents]
    return [_part(role, content) for role, content in contents if content.type in _KINDS]


_KINDS = frozenset({"text", "function_call", "function_result"})


def _part(role: str, content: Any) -> ToldPart:
    if content.type == "function_call":
        args = content.arguments
        return ToldPart("call", json.loads(args) if isinstance(args, str) else args, content.call_id, content.name)
    if content.type == "function_result":
        return ToldPart("result", content.result, content.call_id)
    return ToldPart("user" if role == "user" else "model", content.text)
