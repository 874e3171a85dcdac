"""Strands Agents: the model plays the task, its tools do the operations, and a `FileSessionManager` keeps the conversation.

As its documentation has it: the session manager is given to the agent, and stores each message; after a crash the agent is made
again and called, with no prompt: it carries out calls that have no result.
"""
# ruff: noqa: D102, PLC0415 - the verbs are described by the interface; a peer is imported where it is installed

from __future__ import annotations

from typing import Any

from perdure_evaluate.recovery.subjects.model_play import Conversing, ToldPart


class Strands(Conversing):
    """One folder, `sessions`. The session is named by the folder of the case."""

    about = "Strands Agents with FileSessionManager"
    peer = "strands"

    def converse(self, message: str | None) -> None:
        self.agent()(message)

    def session(self) -> Any:
        from strands.session import FileSessionManager  # type: ignore[import-not-found]

        return FileSessionManager(self.place.folder.name, storage_dir=str(self.place.folder / "sessions"))

    def agent(self) -> Any:
        from strands import Agent, tool  # type: ignore[import-not-found]

        from perdure_evaluate.recovery.subjects.strands_model import model_of

        tools: Any = [tool(name=name, description=name)(fn) for name, fn in self.functions().items()]
        return Agent(model=model_of(self), tools=tools, session_manager=self.session(), callback_handler=None)

    def parts(self) -> list[ToldPart]:
        return parts_of(self.agent().messages)


def parts_of(messages: list[Any]) -> list[ToldPart]:
    """The parts of a conversation, by its messages."""
    return [_part(message["role"], block) for message in messages for block in message["content"]]


def _part(role: str, block: Any) -> ToldPart:
    if "toolUse" in block:
        use = block["toolUse"]
        return ToldPart("call", use["input"], use["toolUseId"], use["name"])
    if "toolResult" in block:
        return ToldPart("result", block["toolResult"]["content"][0].get("text"), block["toolResult"]["toolUseId"])
    return ToldPart("user" if role == "user" else "model", block["text"])
