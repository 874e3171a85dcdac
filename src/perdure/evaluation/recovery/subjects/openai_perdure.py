"""OpenAI Agents with its adapter: the agent of `openai-agents` run by `DurableRunner`, with a `PerdureSession`. Each kind of
effect declares what one can know about it, as for `perdure-sqlite`.
"""
# ruff: noqa: D102, PLC0415 - the verbs are described by the interface; a peer is imported where it is installed

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from typing import Any

import perdure
from perdure.adapters.outward import sent_key
from perdure.evaluation.recovery.interface import Belief, SubjectAgent, Waits
from perdure.evaluation.recovery.outside import KINDS
from perdure.evaluation.recovery.subjects.openai_agents import TURNS_MAX, OpenAIAgents, belief_of, keep
from perdure.evaluation.recovery.subjects.perdure_sqlite import NOW, SENDERS
from perdure.evaluation.recovery.subjects.playing import as_text


class OpenAIPerdure(OpenAIAgents):
    """One file, `agent.db`. The conversation is a session of it."""

    about = "OpenAI Agents with DurableRunner and PerdureSession on SQLite"

    @property
    def url(self) -> str:
        return f"sqlite:///{self.place.folder}/agent.db"

    def run(self, program: Callable[[SubjectAgent], None]) -> None:
        NOW[:] = [self]  # type: ignore[list-item]
        with perdure.open(self.url, actor="agent", keep=2) as self.store:
            self._hand_in(self.store)
            super().run(program)

    def converse(self, said: str, number: int) -> str | None:
        from perdure.adapters.openai_agents import DurableRunner, PerdureSession

        session = PerdureSession(self.place.folder.name, self.store)
        options = {"session": session, "key": f"message-{number}", "kinds": KINDS_OF_TOOLS, "max_turns": TURNS_MAX}
        result = asyncio.run(DurableRunner.run(self.agent(), said, **options))
        if result.interruptions:
            raise Waits(doubts=[each.record.args["arguments"]["name"] for each in self.store.effects(in_doubt=True)])
        return json.loads(result.final_output).get("ask")

    def tools(self) -> list[Any]:
        from agents import function_tool  # type: ignore[import-not-found]

        options: dict[str, Any] = {"strict_mode": False, "failure_error_function": None}
        sending = [function_tool(self.send, name_override=each.name, **options) for each in SENDERS.values()]
        return [function_tool(keep, **options), *sending]

    def send(self, name: str, kind: str, payload: Any) -> str:
        return as_text(self.outside.send(name, kind, payload, sent_key() or ""))

    def tool_for(self, kind: str) -> str:
        return SENDERS[KINDS[kind]].name

    def _hand_in(self, store: perdure.Store) -> None:
        """Say what people found out about effects in doubt."""
        for effect in store.effects(in_doubt=True):
            told = self.inbox.get(effect.record.args["arguments"]["name"])
            if told is not None:
                result = as_text(told["result"])
                effect.settle(perdure.Happened(result) if told["happened"] else perdure.Absent(), by="operator")

    def believe(self) -> Belief:
        from perdure.adapters.openai_agents import PerdureSession

        if not (self.place.folder / "agent.db").exists():
            return Belief()
        with perdure.open(self.url, read_only=True) as store:
            return belief_of(asyncio.run(PerdureSession(self.place.folder.name, store).get_items()))


def _found(name: str, kind: str, payload: Any) -> perdure.Happened | perdure.Absent:
    """A probe that gives what the tool gives: text."""
    given = NOW[0].outside.find(name, kind, payload)
    return perdure.Absent() if given is None else perdure.Happened(as_text(given))


def _declared(sender: Any) -> Any:
    made = copy.copy(sender)
    made.probe = None if sender.probe is None else _found
    return made


KINDS_OF_TOOLS: dict[str, Any] = {"keep": "read", **{each.name: _declared(each) for each in SENDERS.values()}}
