"""Strands Agents with its adapter: the agent of `strands` with a `PerdureSessionManager`."""
# ruff: noqa: D102, PLC0415 - the verbs are described by the interface; a peer is imported where it is installed

from __future__ import annotations

from typing import Any

from perdure_evaluate.recovery.subjects.model_play import ToldPart
from perdure_evaluate.recovery.subjects.model_play_perdure import KINDS_OF_TOOLS, Ledgered
from perdure_evaluate.recovery.subjects.strands import Strands, parts_of


class StrandsPerdure(Ledgered, Strands):
    """The conversation is a session of the store."""

    about = "Strands Agents with PerdureSessionManager on SQLite"

    def converse(self, message: str | None) -> None:
        agent = self.agent()
        state = agent._interrupt_state
        result = agent(_settled(state.interrupts.values()) if state.activated else message)
        if result.stop_reason == "interrupt":
            self.wait_for_doubts()

    def session(self) -> Any:
        from perdure_adapters.strands import PerdureSessionManager

        return PerdureSessionManager(self.place.folder.name, self.store, kinds=KINDS_OF_TOOLS)

    def parts(self) -> list[ToldPart]:
        from perdure_adapters.strands import PerdureSessionRepository

        messages = PerdureSessionRepository(self.store).list_messages(self.place.folder.name, "default")
        return parts_of([message.to_message() for message in messages])


def _settled(interrupts: Any) -> list[Any]:
    """The answers to all interrupts, after a person has settled the effects."""
    return [{"interruptResponse": {"interruptId": interrupt.id, "response": "settled"}} for interrupt in interrupts]
