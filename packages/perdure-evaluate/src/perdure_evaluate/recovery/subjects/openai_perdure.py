"""OpenAI Agents with its adapter: the agent of `openai-agents` run by `DurableRunner`, with a `PerdureSession`."""
# ruff: noqa: D102, PLC0415 - the verbs are described by the interface; a peer is imported where it is installed

from __future__ import annotations

import asyncio
import json
from typing import Any

from perdure_evaluate.recovery.subjects.model_play_perdure import KINDS_OF_TOOLS, Ledgered
from perdure_evaluate.recovery.subjects.openai_agents import TURNS_MAX, OpenAIAgents


class OpenAIPerdure(Ledgered, OpenAIAgents):
    """The conversation is a session of the store."""

    about = "OpenAI Agents with DurableRunner and PerdureSession on SQLite"

    def converse(self, message: str, number: int) -> str | None:
        from perdure_adapters.openai_agents import DurableRunner

        options = {"key": f"message-{number}", "kinds": KINDS_OF_TOOLS, "max_turns": TURNS_MAX}
        result = asyncio.run(DurableRunner.run(self.agent(), message, session=self.session(), **options))
        if result.interruptions:
            self.wait_for_doubts()
        return json.loads(result.final_output).get("ask")

    def session(self) -> Any:
        from perdure_adapters.openai_agents import PerdureSession

        return PerdureSession(self.place.folder.name, self.store)
