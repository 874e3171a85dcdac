"""Perdure on SQLite: the task is an agent; its steps, effects, notes and asks are the run's. What each kind of effect lets one
know is declared, and nothing else.
"""
# ruff: noqa: D102 - the verbs are described by the interface

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import perdure
from perdure.evaluation.recovery.interface import Agent, Belief, Held, Subject, Waits
from perdure.evaluation.recovery.outside import KINDS, Knowing


class PerdureSqlite(Subject):
    """One file, `agent.db`. The run and its session are named by the folder."""

    about = "Perdure on SQLite"
    leases = True
    now: perdure.Run

    def run(self, program: Callable[[Agent], None]) -> None:
        NOW[:] = [self]
        self.program, self.key = program, self.place.folder.name
        with perdure.open(self.url, actor="agent", lease=self.place.lease_seconds) as store:
            for found in store.runs(session=self.key):
                self._hand_in(store, found)
            try:
                store.drive(evaluated, self.place.task, self.place.seed, key=self.key, session=self.key)
            except perdure.Waiting as waiting:
                run = store.run(waiting.facts["run"])
                doubts = [each.record.args["name"] for each in run.effects(open=True) if each.state == "in_doubt"]
                raise Waits([each.detail for each in run.waits() if each.kind == "ask"], doubts) from None
            except perdure.Conflict as conflict:
                raise Held(str(conflict)) from None

    def _hand_in(self, store: perdure.Store, run: Any) -> None:
        """What people have said since."""
        for each in run.waits():
            if each.kind == "ask" and each.detail in self.inbox:
                store.answer(each.id, self.inbox[each.detail], by="person")
        for each in run.effects(open=True):
            if each.state == "in_doubt" and (said := self.inbox.get(each.record.args["name"])):
                each.settle(perdure.Happened(said["result"]) if said["happened"] else perdure.Absent(), by="person")

    def believe(self) -> Belief:
        with perdure.open(self.url, read_only=True) as store:
            for run in store.runs(session=self.place.folder.name):
                done = {each.record.args["name"]: each.result for each in run.effects() if each.state == "committed"}
                notes = self._notes(store.session(self.place.folder.name))
                return Belief(notes, done, run.record.result, run.record.ended)
        return Belief()

    def _notes(self, session: perdure.Session, after: str | None = None) -> dict[str, Any]:
        page = session.entries(limit=1000, after=after)
        return {each.name: each.value for each in page} | (self._notes(session, page.next) if page.next else {})

    @property
    def url(self) -> str:
        return f"sqlite:///{self.place.folder}/agent.db"

    def step(self, name: str, work: Callable[[], Any]) -> Any:  # noqa: ARG002 - a run knows its places itself
        return self.now.step(work)

    def act(self, name: str, kind: str, payload: Any) -> Any:
        return self.now.act(SENDERS[KINDS[kind]], name, kind, payload)

    def note(self, key: str, value: Any) -> None:
        self.now.atomic(lambda tx: tx.session(self.key).set(key, value) and None)

    def ask(self, name: str, question: str) -> str:
        return self.now.ask(question, detail=name)

    def done(self, result: Any) -> None:
        self.result = result


NOW: list[PerdureSqlite] = []  # the subject of this process: tools and agents are functions of a module


@perdure.agent(name="evaluated")
def evaluated(run: perdure.Run, task: str, seed: int) -> Any:  # noqa: ARG001 - what names the work
    """The task."""
    NOW[0].now = run
    NOW[0].program(NOW[0])
    return NOW[0].result


def send(name: str, kind: str, payload: Any, *, key: str = "") -> Any:
    """The tool."""
    return NOW[0].outside.send(name, kind, payload, key)


def found(name: str, kind: str, payload: Any) -> perdure.Happened | perdure.Absent:
    """Its probe, where there is one."""
    given = NOW[0].outside.find(name, kind, payload)
    return perdure.Absent() if given is None else perdure.Happened(given)


SENDERS = {
    Knowing.KEYED: perdure.tool(kind="keyed", name="send_keyed", retries=3)(send),
    Knowing.FOUND: perdure.tool(probe=found, lands_within=0.05, name="send_found", retries=3)(send),
    Knowing.SAME: perdure.tool(kind="idempotent", name="send_same", retries=3)(send),
    Knowing.BLIND: perdure.tool(name="send_blind")(send),
}
