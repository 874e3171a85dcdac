"""Pydantic AI with its adapter: the agent of `pydantic-ai` with `PerdureDurability`, in a run of Perdure."""
# ruff: noqa: D102, PLC0415 - the verbs are described by the interface; a peer is imported where it is installed

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import perdure
from perdure_evaluate.recovery.interface import Belief, SubjectAgent, Waits
from perdure_evaluate.recovery.subjects.model_play import BEGIN, KEEP
from perdure_evaluate.recovery.subjects.model_play_perdure import KINDS_OF_TOOLS, Ledgered, name_of
from perdure_evaluate.recovery.subjects.perdure_sqlite import NOW
from perdure_evaluate.recovery.subjects.pydantic_ai import PydanticAI


class PydanticPerdure(Ledgered, PydanticAI):
    """The task is a run of the store."""

    about = "Pydantic AI with PerdureDurability on SQLite"

    def run(self, program: Callable[[SubjectAgent], None]) -> None:
        from perdure_adapters.pydantic_ai import PerdureDurability, within

        NOW[:] = [self]  # type: ignore[list-item]
        self.begin(program)
        agent = self.agent([PerdureDurability(kinds=KINDS_OF_TOOLS)])

        async def evaluated(run: perdure.AsyncRun, task: str, seed: int) -> str:  # noqa: ARG001 - what names the work
            message, history = BEGIN, None
            with within(run):
                while True:
                    result = await agent.run(message, message_history=history)
                    question = json.loads(result.output).get("ask")
                    if question is None:
                        return result.output
                    message, history = await run.ask(question, detail=question), result.all_messages()

        with perdure.open(self.url, actor="agent", keep=2) as self.store:
            self.hand_in()
            work = perdure.agent(name="evaluated-pydantic")(evaluated)
            try:
                asyncio.run(self.store.aio.drive(work, self.place.task, self.place.seed, key=self.place.folder.name))
            except (perdure.InDoubt, perdure.Waiting):
                asks = [wait.detail for run in self.store.runs() for wait in run.waits() if wait.kind == "ask"]
                raise Waits(asks, [name_of(effect) for effect in self.store.effects(in_doubt=True)]) from None

    def keep(self, messages: list[Any]) -> None:
        """Nothing: the run keeps the answers."""

    def hand_in(self) -> None:
        """Say what people answered, and what they found out about effects in doubt."""
        for wait in (wait for run in self.store.runs() for wait in run.waits()):
            if wait.kind == "ask" and wait.detail in self.inbox:
                self.store.answer(wait.id, self.inbox[wait.detail], by="person")
        super().hand_in()

    def believe(self) -> Belief:
        if not (self.place.folder / "agent.db").exists():
            return Belief()
        with perdure.open(self.url, read_only=True) as store:
            runs = list(store.runs())
            if not runs:
                return Belief()
            effects = {
                name_of(effect): json.loads(effect.result)
                for effect in runs[0].effects()
                if effect.state == "committed"
            }
            entries = [json.loads(step.value["result"]) for step in runs[0].steps() if step.name == KEEP]
            notes = {name: value for section, name, value in entries if section == "notes"}
            record = runs[0].record
            return Belief(notes, effects, json.loads(record.result)["result"] if record.ended else None, record.ended)
