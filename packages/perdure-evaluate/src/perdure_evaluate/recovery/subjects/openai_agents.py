"""OpenAI Agents: the model plays the task, its tools do the operations, and an `SQLiteSession` keeps the conversation.

As its documentation has it: the session is given to the runner, which stores what each turn brought; after a crash the runner is
called again with the session. A question ends a run, and its answer begins the next one. The tool that sends an effect sends a
key where the other side knows keys, and looks first where one can look.
"""
# ruff: noqa: D102, PLC0415 - the verbs are described by the interface; a peer is imported where it is installed

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from perdure_evaluate.recovery.interface import Belief, SubjectAgent
from perdure_evaluate.recovery.subjects.model_play import BEGIN, Playing, ToldPart, belief_of, last_words

TURNS_MAX = 1_000_000


class OpenAIAgents(Playing):
    """One file, `session.sqlite`. The session is named by the folder."""

    about = "OpenAI Agents with SQLiteSession"
    peer = "openai-agents"

    def run(self, program: Callable[[SubjectAgent], None]) -> None:
        self.begin(program)
        message, number = BEGIN, 0
        while (question := self.converse(message, number)) is not None:
            message, number = self.answer_to(question), number + 1

    def converse(self, message: str, number: int) -> str | None:
        """Run the agent with a message, the number-th; the question that it ended with, or none at the end of the task."""
        from agents import Runner  # type: ignore[import-not-found]

        last = last_words(self.parts())
        if not last or ("ask" in last and number):  # an answer comes after its ask
            result = Runner.run(self.agent(), message, session=self.session(), max_turns=TURNS_MAX)
            last = json.loads(asyncio.run(result).final_output)
        return last.get("ask")

    def session(self) -> Any:
        from agents import SQLiteSession  # type: ignore[import-not-found]

        return SQLiteSession(self.place.folder.name, self.place.folder / "session.sqlite")

    def agent(self) -> Any:
        from agents import Agent, set_tracing_disabled  # type: ignore[import-not-found]

        from perdure_evaluate.recovery.subjects.openai_model import model_of

        set_tracing_disabled(disabled=True)
        return Agent(name="evaluated", model=model_of(self), tools=self.tools())

    def tools(self) -> list[Any]:
        from agents import function_tool  # type: ignore[import-not-found]

        options: dict[str, Any] = {"strict_mode": False, "failure_error_function": None}
        return [function_tool(fn, name_override=name, **options) for name, fn in self.functions().items()]

    def parts(self) -> list[ToldPart]:
        return parts_of(asyncio.run(self.session().get_items()))

    def believe(self) -> Belief:
        return belief_of(self.parts())


def parts_of(items: list[Any]) -> list[ToldPart]:
    """The parts of a conversation, by its items."""
    return [_part(item) for item in items]


def _part(item: Any) -> ToldPart:
    match item.get("type"):
        case "function_call":
            return ToldPart("call", json.loads(item["arguments"]), item["call_id"], item["name"])
        case "function_call_output":
            return ToldPart("result", item["output"], item["call_id"])
    is_user = item["role"] == "user"
    return ToldPart("user" if is_user else "model", item["content"] if is_user else item["content"][0]["text"])
