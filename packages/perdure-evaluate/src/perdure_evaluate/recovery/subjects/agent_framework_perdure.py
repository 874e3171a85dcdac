"""Microsoft Agent Framework with its adapter: the agent of `agent-framework` with a `PerdureHistoryProvider`."""
# ruff: noqa: D102, PLC0415 - the verbs are described by the interface; a peer is imported where it is installed

from __future__ import annotations

import asyncio
from typing import Any

from perdure_evaluate.recovery.subjects.agent_framework import AgentFramework
from perdure_evaluate.recovery.subjects.model_play_perdure import KINDS_OF_TOOLS, Ledgered


class AgentFrameworkPerdure(Ledgered, AgentFramework):
    """The conversation is a session of the store."""

    about = "Microsoft Agent Framework with PerdureHistoryProvider on SQLite"

    def converse(self, message: str | None) -> None:
        if asyncio.run(self.answered(message)).user_input_requests:
            self.wait_for_doubts()

    def history(self) -> Any:
        from perdure_adapters.agent_framework import PerdureHistoryProvider

        return PerdureHistoryProvider(self.store)

    def agent(self, **options: Any) -> Any:
        history = self.history()
        return super().agent(
            context_providers=[history], middleware=history.middleware(kinds=KINDS_OF_TOOLS), **options
        )
