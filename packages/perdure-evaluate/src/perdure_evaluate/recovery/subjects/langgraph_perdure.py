"""LangGraph with its adapter: the entrypoint of `langgraph`, whose thread `PerdureSaver` keeps, and whose effects go through the
ledger of the thread's session. Each kind of effect declares what one can know about it, as for `perdure-sqlite`.
"""
# ruff: noqa: D102, PLC0415 - the verbs are described by the interface; a peer is imported where it is installed

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import perdure
from perdure_evaluate.recovery.interface import Belief, SubjectAgent, Waits
from perdure_evaluate.recovery.outside import KINDS
from perdure_evaluate.recovery.subjects.langgraph import LangGraph
from perdure_evaluate.recovery.subjects.perdure_sqlite import NOW, SENDERS


class LangGraphPerdure(LangGraph):
    """One file, `agent.db`. The thread is a session of it."""

    about = "LangGraph with PerdureSaver on SQLite: an entrypoint with tasks, effects in the ledger"

    @property
    def url(self) -> str:
        return f"sqlite:///{self.place.folder}/agent.db"

    def run(self, program: Callable[[SubjectAgent], None]) -> None:
        from langgraph.func import entrypoint, task  # type: ignore[import-not-found]

        from perdure_adapters.langgraph import PerdureSaver

        @task
        def operate(section: str, name: str, work: Callable[[], Any]) -> Any:
            return [section, name, work()]

        def evaluated(_: Any) -> Any:
            program(self)
            return [self.result]

        NOW[:] = [self]  # type: ignore[list-item]
        self.operate = operate
        with perdure.open(self.url, actor="agent", keep=2) as store:
            self.session = store.session(self.place.folder.name)
            self._hand_in()
            try:
                self.go_on(entrypoint(checkpointer=PerdureSaver(store))(evaluated), [self.place.task, self.place.seed])
            except perdure.InDoubt:
                doubts = [
                    effect.record.args["name"]
                    for effect in self.session.effects(open=True)
                    if effect.state == "in_doubt"
                ]
                raise Waits(doubts=doubts) from None

    def _hand_in(self) -> None:
        """Say what people found out about effects in doubt."""
        for effect in self.session.effects(open=True):
            answer = self.inbox.get(effect.record.args["name"])
            if answer is not None and effect.state == "in_doubt":
                effect.settle(
                    perdure.Happened(answer["result"]) if answer["happened"] else perdure.Absent(), by="operator"
                )

    def believe(self) -> Belief:
        from perdure_adapters.langgraph import PerdureSaver

        with perdure.open(self.url, read_only=True) as store:
            checkpoints = list(PerdureSaver(store).list(self.thread))
            effects = {
                effect.record.args["name"]: effect.result
                for effect in store.session(self.place.folder.name).effects()
                if effect.state == "committed"
            }
        return self.believed(checkpoints, effects)

    def act(self, name: str, kind: str, payload: Any) -> Any:
        send = SENDERS[KINDS[kind]]
        return self.once("effects", name, lambda: self.session.act(send, name, kind, payload, key=f"act-{name}"))
