"""The adapters' half of the subjects of frameworks: effects in the ledger of a store, doubt that waits for a person.

Each kind of effect declares what one can know about it, as for `perdure-sqlite`; its tool gives a text, as those of the stock
subjects. Callers: subjects of frameworks with their adapter, which derive from `Ledgered` and from the stock subject.
"""
# ruff: noqa: D102 - the verbs are described by the interface

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import perdure
from perdure_adapters.tool_calls import sent_key
from perdure_evaluate.recovery.interface import Belief, SubjectAgent, Waits
from perdure_evaluate.recovery.outside import KINDS
from perdure_evaluate.recovery.subjects.model_play import KEEP, Playing, as_text, keep
from perdure_evaluate.recovery.subjects.perdure_sqlite import NOW, SENDERS


class Ledgered(Playing):
    """One file, `agent.db`."""

    store: perdure.Store

    @property
    def url(self) -> str:
        return f"sqlite:///{self.place.folder}/agent.db"

    def run(self, program: Callable[[SubjectAgent], None]) -> None:
        NOW[:] = [self]  # type: ignore[list-item]
        with perdure.open(self.url, actor="agent", keep=2) as self.store:
            self.hand_in()
            super().run(program)

    def believe(self) -> Belief:
        if not (self.place.folder / "agent.db").exists():
            return Belief()
        with perdure.open(self.url, read_only=True) as self.store:
            return super().believe()

    def functions(self) -> dict[str, Callable[..., str]]:
        return {KEEP: keep, **{sender.name: self.send for sender in SENDERS.values()}}

    def tool_for(self, kind: str) -> str:
        return SENDERS[KINDS[kind]].name

    def send(self, name: str, kind: str, payload: Any) -> str:
        """Send an effect, with the ledger's key."""
        return as_text(self.outside.send(name, kind, payload, sent_key() or ""))

    def hand_in(self) -> None:
        """Say what people found out about effects in doubt."""
        for effect in self.store.effects(in_doubt=True):
            answer = self.inbox.get(name_of(effect))
            if answer is not None:
                result = as_text(answer["result"])
                effect.settle(perdure.Happened(result) if answer["happened"] else perdure.Absent(), by="operator")

    def wait_for_doubts(self) -> None:
        """Wait for a person."""
        raise Waits(doubts=[name_of(effect) for effect in self.store.effects(in_doubt=True)])


def name_of(effect: Any) -> str:
    """The name of the operation that an effect is."""
    return effect.record.args["arguments"]["name"]


def _happened(name: str, kind: str, payload: Any) -> perdure.Happened | perdure.Absent:
    """A probe that gives what the tool gives: text."""
    result = NOW[0].outside.find(name, kind, payload)
    return perdure.Absent() if result is None else perdure.Happened(as_text(result))


def _declared(sender: Any) -> Any:
    twin = copy.copy(sender)
    twin.probe = None if sender.probe is None else _happened
    return twin


KINDS_OF_TOOLS: dict[str, Any] = {KEEP: "read", **{sender.name: _declared(sender) for sender in SENDERS.values()}}
