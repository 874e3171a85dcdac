"""LangGraph, as a graph: one node does one operation a step, and its durability "sync" has the state of the step before on disk.

The task runs beside the graph: it gets what an operation gave when the node is called the next time, and not before the
checkpoint that holds it.
"""
# ruff: noqa: D102, PLC0415 - the verbs are described by the interface; a peer is imported where it is installed

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from perdure_evaluate.recovery.interface import Belief, SubjectAgent
from perdure_evaluate.recovery.subjects.langgraph import LangGraph

Kept = dict[str, dict[str, Any]]


def merged(sections: Kept, more: Kept) -> Kept:
    """The kept entries, and one more."""
    return sections | {section: sections.get(section, {}) | values for section, values in more.items()}


class State(TypedDict):
    """The content of a checkpoint."""

    kept: Annotated[Kept, merged]


class LangGraphNodes(LangGraph):
    """LangGraph with a graph of nodes, on this file and thread."""

    about = "LangGraph on SQLite: a graph, one operation a step, durability sync"

    def run(self, program: Callable[[SubjectAgent], None]) -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver  # type: ignore[import-not-found]
        from langgraph.graph import END, START, StateGraph  # type: ignore[import-not-found]

        self.steps, self.states = queue.SimpleQueue[Callable[[], Kept]](), queue.SimpleQueue[Kept]()
        threading.Thread(target=self._play, args=(program,), daemon=True).start()
        graph = StateGraph(State).add_node("operate", self._operate).add_edge(START, "operate")
        graph.add_conditional_edges("operate", lambda state: END if "done" in state["kept"] else "operate")
        with SqliteSaver.from_conn_string(self.file) as saver:
            self.go_on(graph.compile(checkpointer=saver), {"kept": {"task": {"name": self.place.task}}})

    def _operate(self, state: State) -> dict[str, Any]:
        """The node: hand over what is durable by now, and do what the task wants next."""
        self.states.put(state["kept"])
        return {"kept": self.steps.get()()}

    def _play(self, program: Callable[[SubjectAgent], None]) -> None:
        def failed(error: BaseException) -> Kept:
            raise error

        self.kept = self.states.get()
        try:
            program(self)
            self.steps.put(lambda: {"done": {"result": self.result}})
        except BaseException as error:  # noqa: BLE001 - raised again by the node
            self.steps.put(lambda error=error: failed(error))

    def once(self, section: str, name: str, work: Callable[[], Any]) -> Any:
        if name not in self.kept.get(section, {}):
            self.steps.put(lambda: {section: {name: work()}})
            self.kept = self.states.get()
        return self.kept[section][name]

    def ask(self, name: str, question: str) -> str:
        return self.once("answers", name, lambda: super(LangGraphNodes, self).ask(name, question))

    def believe(self) -> Belief:
        from langgraph.checkpoint.sqlite import SqliteSaver  # type: ignore[import-not-found]

        with SqliteSaver.from_conn_string(self.file) as saver:
            snapshot = saver.get_tuple(self.thread)
        sections: Kept = snapshot.checkpoint["channel_values"].get("kept", {}) if snapshot else {}
        return Belief(
            sections.get("notes", {}),
            sections.get("effects", {}),
            sections.get("done", {}).get("result"),
            "done" in sections,
        )
