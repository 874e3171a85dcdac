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
from itertools import pairwise
from typing import Any

from perdure.evaluation.recovery.interface import Belief, SubjectAgent
from perdure.evaluation.recovery.outside import KINDS, Knowing
from perdure.evaluation.recovery.subjects.playing import KEEP, Kept, Playing, as_text, kept_of, loaded

TURNS_MAX = 1_000_000


class OpenAIAgents(Playing):
    """One file, `session.sqlite`. The session is named by the folder."""

    about = "OpenAI Agents with SQLiteSession"
    peer = "openai-agents"

    def run(self, program: Callable[[SubjectAgent], None]) -> None:
        self.begin(program)
        said, number = "begin", 0
        while (asked := self.converse(said, number)) is not None:
            said, number = self.answer_to(asked), number + 1

    def converse(self, said: str, number: int) -> str | None:
        """Run the agent with a message, the number-th; the question that it ended with, or none at the end of the task."""
        from agents import Runner  # type: ignore[import-not-found]

        last = last_words(asyncio.run(self.session().get_items()))
        if not last or ("ask" in last and number):  # an answer comes after its ask
            result = Runner.run(self.agent(), said, session=self.session(), max_turns=TURNS_MAX)
            last = json.loads(asyncio.run(result).final_output)
        return last.get("ask")

    def session(self) -> Any:
        from agents import SQLiteSession  # type: ignore[import-not-found]

        return SQLiteSession(self.place.folder.name, self.place.folder / "session.sqlite")

    def agent(self) -> Any:
        from agents import Agent, set_tracing_disabled  # type: ignore[import-not-found]

        from perdure.evaluation.recovery.subjects.openai_model import model_of

        set_tracing_disabled(disabled=True)
        return Agent(name="evaluated", model=model_of(self), tools=self.tools())

    def tools(self) -> list[Any]:
        from agents import function_tool  # type: ignore[import-not-found]

        options = {"strict_mode": False, "failure_error_function": None}
        return [function_tool(keep, **options), function_tool(self.send, **options)]

    def send(self, name: str, kind: str, payload: Any) -> str:
        looked = self.outside.find(name, kind, payload) if KINDS[kind] is Knowing.FOUND else None
        return as_text(looked or self.outside.send(name, kind, payload, f"{self.place.folder.name}-{name}"))

    def believe(self) -> Belief:
        return belief_of(asyncio.run(self.session().get_items()))


def keep(section: str, name: str, value: Any) -> str:
    """Say something in the conversation."""
    return as_text([section, name, value])


def kept_in(items: list[Any]) -> Kept:
    """The state that the items of a conversation hold. A call of `keep` says it all, whether or not its output is there yet."""
    given = {item["call_id"]: loaded(item["output"]) for item in items if item.get("type") == "function_call_output"}
    calls = [item for item in items if item.get("type") == "function_call"]
    found = [(each["name"], json.loads(each["arguments"]), given.get(each["call_id"])) for each in calls]
    kept = kept_of([each for each in found if each[0] == KEEP or each[2] is not None])
    for before, item in pairwise(items):
        asked = last_words([before]).get("ask") if item.get("role") == "user" else None
        if asked is not None:
            kept.setdefault("answers", {}).setdefault(asked, item["content"])
    return kept


def belief_of(items: list[Any]) -> Belief:
    """The belief that stands in a conversation: it ends with the model's message."""
    kept, last = kept_in(items), last_words(items)
    return Belief(kept.get("notes", {}), kept.get("effects", {}), last.get("result"), "result" in last)


def last_words(items: list[Any]) -> dict[str, Any]:
    """The text that a run ended with, if nothing came after it."""
    return json.loads(items[-1]["content"][0]["text"]) if items and items[-1].get("role") == "assistant" else {}
