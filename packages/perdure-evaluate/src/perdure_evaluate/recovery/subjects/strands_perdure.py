"""Strands Agents with its adapter: the agent of `strands` with a `PerdureSessionManager`."""
# ruff: noqa: D102, PLC0415 - the verbs are described by the interface; a peer is imported where it is installed

from __future__ import annotations

from typing import Any

from perdure_evaluate.recovery.subjects.playing import ToldPart
from perdure_evaluate.recovery.subjects.playing_perdure import KINDS_OF_TOOLS, Ledgered
from perdure_evaluate.recovery.subjects.strands import Strands, parts_of


class StrandsPerdure(Ledgered, Strands):
    """The conversation is a session of the store."""

    about = "Strands Agents with PerdureSessionManager on SQLite"

    def converse(self, said: str | None) -> None:
        agent = self.agent()
        asked = agent._interrupt_state
        result = agent(_settled(asked.interrupts.values()) if asked.activated else said)
        if result.stop_reason == "interrupt":
            self.wait_for_doubts()

    def session(self) -> Any:
        from perdure_adapters.strands import PerdureSessionManager

        return PerdureSessionManager(self.place.folder.name, self.store, kinds=KINDS_OF_TOOLS)

    def parts(self) -> list[ToldPart]:
        from perdure_adapters.strands import PerdureSessionRepository

        found = PerdureSessionRepository(self.store).list_messages(self.place.folder.name, "default")
        return parts_of([each.to_message() for each in found])


def _settled(interrupts: Any) -> list[Any]:
    """The answers to all interrupts, after a person has settled the effects."""
    return [{"interruptResponse": {"interruptId": each.id, "response": "settled"}} for each in interrupts]
