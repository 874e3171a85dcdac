"""Perdure on SQLite: the task is an agent; its steps, effects, notes and asks are the run's. Each kind of effect declares what
one can know about it, and nothing else. A task with a workspace has it watched, and leaves a checkpoint after everything it did.
"""
# ruff: noqa: D102 - the verbs are described by the interface

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import perdure
from perdure_evaluate.recovery.interface import HeldElsewhere, SubjectAgent, Waits
from perdure_evaluate.recovery.outside import KINDS, Knowing
from perdure_evaluate.recovery.subjects.perdure_tended import Tended


class PerdureSqlite(Tended):
    """One file, `agent.db`."""

    about = "Perdure on SQLite"
    leases = True
    now: perdure.Run

    def run(self, program: Callable[[SubjectAgent], None]) -> None:
        NOW[:], self.program, self.kept, self.reached = [self], program, [], 0
        agent = perdure.agent(name="evaluated", workspace=self.workspace, pins={"version": self.place.version})
        # keep: a disk that is full has room again only when this life is over.
        with perdure.open(self.url, actor="agent", lease=self.place.lease_seconds, keep=2) as store:
            self.hand_in(store)
            try:
                store.drive(agent(evaluated), self.place.task, self.place.seed, key=self.key, session=self.key)
            except perdure.Waiting as waiting:
                run = store.run(waiting.facts["run"])
                doubts = [effect.record.args["name"] for effect in run.effects(open=True) if effect.state == "in_doubt"]
                raise Waits([wait.detail for wait in run.waits() if wait.kind == "ask"], doubts) from None
            except perdure.Conflict as conflict:
                raise HeldElsewhere(str(conflict)) from None

    @property
    def workspace(self) -> str | None:
        return str(self.place.workspace) if self.place.workspace else None

    def step(self, name: str, work: Callable[[], Any]) -> Any:
        return self._once(name, lambda: self.now.step(called(name, work)))

    def act(self, name: str, kind: str, payload: Any) -> Any:
        return self._once(name, lambda: self.now.act(SENDERS[KINDS[kind]], name, kind, payload))

    def note(self, key: str, value: Any) -> None:
        self._once(key, lambda: self.now.atomic(called(key, lambda tx: tx.session(self.key).set(key, value) and None)))

    def read(self, name: str, key: str) -> Any:
        return self._once(name, lambda: self.now.atomic(called(name, lambda tx: tx.session(self.key).get(key))))

    def ask(self, name: str, question: str) -> str:
        return self._once(name, lambda: self.now.ask(question, detail=name))

    def done(self, result: Any) -> None:
        self.result = result

    def _once(self, name: str, do: Callable[[], Any]) -> Any:
        """Work that the last checkpoint has is not done again. Nothing before it is replayed, so the names are compared here."""
        if self.reached == len(self.kept):
            self.kept.append([name, do()])
            if self.workspace:
                self.now.checkpoint(self.kept)
        (did, result), self.reached = self.kept[self.reached], self.reached + 1
        if did != name:  # docs/guide/evolving.md
            raise perdure.Failed(f"the program does not do what this run did: it did {did}, and now does {name}")
        return result


NOW: list[PerdureSqlite] = []  # the subject of this process: tools and agents are functions of a module


def evaluated(run: perdure.Run, task: str, seed: int) -> Any:  # noqa: ARG001 - what names the work
    """The task."""
    NOW[0].now, NOW[0].kept, NOW[0].reached = run, run.restored or [], 0
    NOW[0].program(NOW[0])
    return NOW[0].result


def called(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function by the name of its operation, as functions of a program have names."""

    def operation(*args: Any) -> Any:
        return fn(*args)

    operation.__name__ = name
    return operation


def send(name: str, kind: str, payload: Any, *, key: str = "") -> Any:
    """The tool."""
    return NOW[0].outside.send(name, kind, payload, key)


def happened(name: str, kind: str, payload: Any) -> perdure.Happened | perdure.Absent:
    """Its probe, where there is one."""
    result = NOW[0].outside.find(name, kind, payload)
    return perdure.Absent() if result is None else perdure.Happened(result)


SENDERS = {
    Knowing.KEYED: perdure.tool(kind="keyed", name="send_keyed", retries=3)(send),
    Knowing.FOUND: perdure.tool(probe=happened, lands_within=0.05, name="send_found", retries=3)(send),
    Knowing.SAME: perdure.tool(kind="idempotent", name="send_same", retries=3)(send),
    Knowing.BLIND: perdure.tool(name="send_blind")(send),
}
