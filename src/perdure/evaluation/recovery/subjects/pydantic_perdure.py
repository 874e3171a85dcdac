"""Pydantic AI with its adapter: the agent of `pydantic-ai` with `PerdureDurability`, in a run of Perdure. Each kind of effect
declares what one can know about it, as for `perdure-sqlite`.
"""
# ruff: noqa: D102, PLC0415 - the verbs are described by the interface; a peer is imported where it is installed

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import perdure
from perdure.adapters.outward import sent_key
from perdure.evaluation.recovery.interface import Belief, SubjectAgent, Waits
from perdure.evaluation.recovery.outside import KINDS
from perdure.evaluation.recovery.subjects.perdure_sqlite import NOW, SENDERS
from perdure.evaluation.recovery.subjects.playing import KEEP
from perdure.evaluation.recovery.subjects.pydantic_ai import PydanticAI, say


class PydanticPerdure(PydanticAI):
    """One file, `agent.db`. The task is a run of it."""

    about = "Pydantic AI with PerdureDurability on SQLite"

    @property
    def url(self) -> str:
        return f"sqlite:///{self.place.folder}/agent.db"

    def run(self, program: Callable[[SubjectAgent], None]) -> None:
        from perdure.adapters.pydantic_ai import PerdureDurability, within

        NOW[:] = [self]  # type: ignore[list-item]
        self.begin(program)
        agent = self.agent([PerdureDurability(kinds={KEEP: "read", **{each.name: each for each in SENDERS.values()}})])

        async def evaluated(run: perdure.AsyncRun, task: str, seed: int) -> str:  # noqa: ARG001 - what names the work
            said, history = "begin", None
            with within(run):
                while True:
                    result = await agent.run(said, message_history=history)
                    asked = json.loads(result.output).get("ask")
                    if asked is None:
                        return result.output
                    said, history = await run.ask(asked, detail=asked), result.all_messages()

        with perdure.open(self.url, actor="agent", keep=2) as store:
            self._hand_in(store)
            made = perdure.agent(name="evaluated-pydantic")(evaluated)
            try:
                asyncio.run(store.aio.drive(made, self.place.task, self.place.seed, key=self.place.folder.name))
            except (perdure.InDoubt, perdure.Waiting):
                asks = [each.detail for run in store.runs() for each in run.waits() if each.kind == "ask"]
                raise Waits(asks, [_name(each) for each in store.effects(in_doubt=True)]) from None

    def tools(self) -> dict[str, Callable[..., Any]]:
        return {KEEP: say, **{each.name: self.send for each in SENDERS.values()}}

    def tool_for(self, kind: str) -> str:
        return SENDERS[KINDS[kind]].name

    def send(self, name: str, kind: str, payload: Any) -> Any:
        return self.outside.send(name, kind, payload, sent_key() or "")

    def keep(self, messages: list[Any]) -> None:
        """Nothing: the run keeps the answers."""

    def _hand_in(self, store: perdure.Store) -> None:
        """Say what people answered, and what they found out about effects in doubt."""
        for each in (each for run in store.runs() for each in run.waits()):
            if each.kind == "ask" and each.detail in self.inbox:
                store.answer(each.id, self.inbox[each.detail], by="person")
        for effect in store.effects(in_doubt=True):
            told = self.inbox.get(_name(effect))
            if told is not None:
                verdict = perdure.Happened(told["result"]) if told["happened"] else perdure.Absent()
                effect.settle(verdict, by="operator")

    def believe(self) -> Belief:
        if not (self.place.folder / "agent.db").exists():
            return Belief()
        with perdure.open(self.url, read_only=True) as store:
            runs = list(store.runs())
            if not runs:
                return Belief()
            effects = {_name(each): each.result for each in runs[0].effects() if each.state == "committed"}
            said = [json.loads(step.value["result"]) for step in runs[0].steps() if step.name == KEEP]
            notes = {name: value for section, name, value in said if section == "notes"}
            found = runs[0].record
            return Belief(notes, effects, json.loads(found.result)["result"] if found.ended else None, found.ended)


def _name(effect: Any) -> str:
    return effect.record.args["arguments"]["name"]
