"""Pydantic AI: the model plays the task, its tools do the operations, and the program stores the messages in a file.

As its documentation has it: messages are dumped as JSON, stored, and given to the next run as `message_history`. They are stored
before and after each answer, by a file that is renamed. After a crash the agent runs again with them: it carries out calls that
have no result. The tool that sends an effect sends a key where the other side knows keys, and looks first where one can look.
"""
# ruff: noqa: D102, PLC0415 - the verbs are described by the interface; a peer is imported where it is installed

from __future__ import annotations

import asyncio
import os
from typing import Any

from perdure_evaluate.recovery.subjects.model_play import Conversing, ToldPart, as_text, kept_in


class PydanticAI(Conversing):
    """One file, `messages.json`."""

    about = "Pydantic AI: messages in a file, stored before and after each answer"
    peer = "pydantic-ai"

    def converse(self, message: str | None) -> None:
        asyncio.run(self.agent([]).run(message, message_history=self.load() or None))

    def agent(self, capabilities: list[Any]) -> Any:
        from pydantic_ai import Agent
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
        from pydantic_ai.models.function import FunctionModel

        async def answer(messages: list[Any], _info: Any) -> ModelResponse:
            self.keep(messages)
            next_answer = self.next_answer(kept_in(parts_of(messages)))
            part = (
                ToolCallPart(next_answer.tool, next_answer.args)
                if next_answer.tool
                else TextPart(as_text(next_answer.args))
            )
            response = ModelResponse([part])
            self.keep([*messages, response])
            return response

        agent = Agent(FunctionModel(answer), name="evaluated", capabilities=capabilities, retries=0)
        for name, tool in self.functions().items():
            agent.tool_plain(name=name)(tool)
        return agent

    def parts(self) -> list[ToldPart]:
        return parts_of(self.load())

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


def parts_of(messages: list[Any]) -> list[ToldPart]:
    """The parts of a conversation, by its messages."""
    return [_part(part) for message in messages for part in message.parts]


def _part(part: Any) -> ToldPart:
    match part.part_kind:
        case "tool-call":
            return ToldPart("call", part.args_as_dict(), part.tool_call_id, part.tool_name)
        case "tool-return":
            return ToldPart("result", part.content, part.tool_call_id)
        case "text":
            return ToldPart("model", part.content)
    return ToldPart("user", part.content)
