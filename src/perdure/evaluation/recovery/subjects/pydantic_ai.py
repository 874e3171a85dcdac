"""Pydantic AI: the model plays the task, its tools do the operations, and the program stores the messages in a file.

As its documentation has it: messages are dumped as JSON, stored, and given to the next run as `message_history`. They are stored
before and after each answer, by a file that is renamed. After a crash the agent runs again with them: it carries out calls that
have no result. The tool that sends an effect sends a key where the other side knows keys, and looks first where one can look.
"""
# ruff: noqa: D102, PLC0415 - the verbs are described by the interface; a peer is imported where it is installed

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from perdure.evaluation.recovery.interface import Belief, SubjectAgent
from perdure.evaluation.recovery.outside import KINDS, Knowing
from perdure.evaluation.recovery.subjects.playing import KEEP, Kept, Playing, as_text, kept_of


class PydanticAI(Playing):
    """One file, `messages.json`."""

    about = "Pydantic AI: messages in a file, stored before and after each answer"
    peer = "pydantic-ai"

    def run(self, program: Callable[[SubjectAgent], None]) -> None:
        self.begin(program)
        said: str | None = None if self.load() else "begin"
        while "result" not in (last := last_words(self.load())):
            if "ask" in last:
                said = self.answer_to(last["ask"])
            asyncio.run(self.agent([]).run(said, message_history=self.load() or None))

    def agent(self, capabilities: list[Any]) -> Any:
        from pydantic_ai import Agent
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
        from pydantic_ai.models.function import FunctionModel

        async def answer(messages: list[Any], _info: Any) -> ModelResponse:
            self.keep(messages)
            wanted = self.next_answer(kept_in(messages))
            part = ToolCallPart(wanted.tool, wanted.args) if wanted.tool else TextPart(as_text(wanted.args))
            response = ModelResponse([part])
            self.keep([*messages, response])
            return response

        made = Agent(FunctionModel(answer), name="evaluated", capabilities=capabilities, retries=0)
        for name, tool in self.tools().items():
            made.tool_plain(name=name)(tool)
        return made

    def tools(self) -> dict[str, Callable[..., Any]]:
        return {KEEP: say, "send": self.send}

    def send(self, name: str, kind: str, payload: Any) -> Any:
        looked = self.outside.find(name, kind, payload) if KINDS[kind] is Knowing.FOUND else None
        return looked or self.outside.send(name, kind, payload, f"{self.place.folder.name}-{name}")

    def load(self) -> list[Any]:
        from pydantic_ai.messages import ModelMessagesTypeAdapter

        path = self.place.folder / "messages.json"
        return ModelMessagesTypeAdapter.validate_json(path.read_bytes()) if path.exists() else []

    def keep(self, messages: list[Any]) -> None:
        from pydantic_ai.messages import ModelMessagesTypeAdapter

        beside = self.place.folder / "messages.new"
        with beside.open("wb") as out:
            out.write(ModelMessagesTypeAdapter.dump_json(messages))
            out.flush()
            os.fsync(out.fileno())
        beside.rename(self.place.folder / "messages.json")

    def believe(self) -> Belief:
        messages = self.load()
        kept, last = kept_in(messages), last_words(messages)
        return Belief(kept.get("notes", {}), kept.get("effects", {}), last.get("result"), "result" in last)


def say(section: str, name: str, value: Any) -> str:
    """Say something in the conversation."""
    return as_text([section, name, value])


def last_words(messages: list[Any]) -> dict[str, Any]:
    """The text that a run ended with, if nothing came after it."""
    texts = [part.content for part in messages[-1].parts if part.part_kind == "text"] if messages else []
    return json.loads(texts[0]) if texts else {}


def kept_in(messages: list[Any]) -> Kept:
    """The state that messages hold."""
    parts = [part for message in messages for part in message.parts]
    results = {part.tool_call_id: part.content for part in parts if part.part_kind == "tool-return"}
    calls = [part for part in parts if part.part_kind == "tool-call" and part.tool_call_id in results]
    kept = kept_of([(part.tool_name, part.args_as_dict(), results[part.tool_call_id]) for part in calls])
    for before, message in pairwise(messages):
        if "ask" in (asked := last_words([before])):
            kept.setdefault("answers", {})[asked["ask"]] = message.parts[-1].content
    return kept
