"""LangGraph, functional: the task is an entrypoint, whatever it does is a task of its own, and a person's answer is an interrupt.

As its documentation has it: side effects and whatever may come out differently stand in tasks, whose results are kept, so that
they are not done again; durability is "sync"; a task may run again after a crash, so it sends a key where the other side knows
keys, and looks first where one can look.
"""
# ruff: noqa: ARG002, D102, PLC0415 - the verbs are described by the interface; a peer is imported where it is installed

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure_evaluate.recovery.interface import Belief, Subject, SubjectAgent, Waits
from perdure_evaluate.recovery.outside import KINDS, Knowing

STEPS_MAX = 1_000_000


class LangGraph(Subject):
    """One file, `checkpoints.sqlite`. The thread is named by the folder."""

    about = "LangGraph on SQLite: an entrypoint with tasks, durability sync"
    peer = "langgraph"

    @property
    def file(self) -> str:
        return str(self.place.folder / "checkpoints.sqlite")

    @property
    def thread(self) -> Any:
        return {"configurable": {"thread_id": self.place.folder.name}, "recursion_limit": STEPS_MAX}

    def run(self, program: Callable[[SubjectAgent], None]) -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver  # type: ignore[import-not-found]
        from langgraph.func import entrypoint, task  # type: ignore[import-not-found]

        @task
        def operate(section: str, name: str, work: Callable[[], Any]) -> Any:
            return [section, name, work()]

        def evaluated(_: Any) -> Any:
            program(self)
            return [self.result]

        self.operate = operate
        with SqliteSaver.from_conn_string(self.file) as saver:
            self.go_on(entrypoint(checkpointer=saver)(evaluated), [self.place.task, self.place.seed])

    def go_on(self, graph: Any, value: Any) -> None:
        """Begin; or answer what it asked; or continue what was interrupted; or find that it is over."""
        from langgraph.types import Command  # type: ignore[import-not-found]

        state = graph.get_state(self.thread)
        if state.created_at is not None:
            due = [interrupt for interrupt in state.interrupts if interrupt.value in self.inbox]
            answers = {interrupt.id: self.inbox[interrupt.value] for interrupt in due}
            value = Command(resume=answers) if answers else None
        if not self.believe().ended:
            graph.invoke(value, self.thread, durability="sync")
        if questions := [interrupt.value for interrupt in graph.get_state(self.thread).interrupts]:
            raise Waits(questions)

    def believe(self) -> Belief:
        from langgraph.checkpoint.sqlite import SqliteSaver  # type: ignore[import-not-found]

        with SqliteSaver.from_conn_string(self.file) as saver:
            return self.believed(list(saver.list(self.thread)), {})

    def believed(self, checkpoints: list[Any], effects: dict[str, Any]) -> Belief:
        """The belief that stands in checkpoints. effects: those that are known from elsewhere too."""
        sections: dict[str, dict[str, Any]] = {"notes": {}, "effects": dict(effects), "steps": {}}
        for _, _, value in [write for checkpoint in checkpoints for write in checkpoint.pending_writes or []]:
            if isinstance(value, list) and len(value) == 3 and value[0] in sections:
                sections[value[0]][value[1]] = value[2]
        ended = checkpoints[0].checkpoint["channel_values"].get("__end__") if checkpoints else None
        return Belief(sections["notes"], sections["effects"], ended[0] if ended else None, ended is not None)

    def once(self, section: str, name: str, work: Callable[[], Any]) -> Any:
        return self.operate(section, name, work).result()[2]

    def step(self, name: str, work: Callable[[], Any]) -> Any:
        return self.once("steps", name, work)

    def act(self, name: str, kind: str, payload: Any) -> Any:
        return self.once("effects", name, lambda: self._sent(name, kind, payload))

    def _sent(self, name: str, kind: str, payload: Any) -> Any:
        looked = self.outside.find(name, kind, payload) if KINDS[kind] is Knowing.FOUND else None
        return looked or self.outside.send(name, kind, payload, f"{self.place.folder.name}-{name}")

    def note(self, key: str, value: Any) -> None:
        self.once("notes", key, lambda: value)

    def ask(self, name: str, question: str) -> str:
        from langgraph.types import interrupt  # type: ignore[import-not-found]

        return interrupt(name)

    def done(self, result: Any) -> None:
        self.result = result
