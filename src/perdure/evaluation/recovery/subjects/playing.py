"""A task as the model of a framework: each answer of the model calls a tool that does the next operation of the task.

The task runs beside the framework, in a thread. It gets what an operation gave when the model is asked the next time, with the
conversation that holds it. Steps and notes are said by the model, and a tool `keep` gives them back; an effect is a call of a
tool that sends it. A question to a person ends the agent's run, and the answer is the next message. So the conversation is the
state, as it is for agents. Callers: subjects of frameworks for agents.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from perdure.evaluation.recovery.interface import Subject, SubjectAgent, Waits

Kept = dict[str, dict[str, Any]]
KEEP = "keep"


class ScriptedAnswer(NamedTuple):
    """The next answer of the model: a tool with its arguments. No tool: a text, which is the result of the task or an ask."""

    tool: str
    args: dict[str, Any]


class Playing(Subject):
    """A subject whose model plays the task. `next_answer` is the model; the verbs are called by the task."""

    _wanted: queue.SimpleQueue[ScriptedAnswer | BaseException]
    _given: queue.SimpleQueue[Kept]

    def begin(self, program: Callable[[SubjectAgent], None]) -> None:
        """Begin the task; it waits until the model is asked."""
        self._wanted, self._given = queue.SimpleQueue(), queue.SimpleQueue()
        threading.Thread(target=self._play, args=(program,), daemon=True).start()

    def next_answer(self, kept: Kept) -> ScriptedAnswer:
        """The model's next answer, by what the conversation holds. Raises what went wrong in the task."""
        self._given.put(kept)
        wanted = self._wanted.get()
        if isinstance(wanted, BaseException):
            raise wanted
        return wanted

    def _play(self, program: Callable[[SubjectAgent], None]) -> None:
        self.kept = self._given.get()
        try:
            program(self)
        except BaseException as error:  # noqa: BLE001 - raised again by the model
            self._wanted.put(error)

    def _once(self, section: str, name: str, make: Callable[[], ScriptedAnswer]) -> Any:
        if name not in self.kept.get(section, {}):
            self._wanted.put(make())
            self.kept = self._given.get()
        return self.kept[section][name]

    def _keep(self, section: str, name: str, value: Callable[[], Any]) -> Any:
        return self._once(
            section, name, lambda: ScriptedAnswer(KEEP, {"section": section, "name": name, "value": value()})
        )

    def step(self, name: str, work: Callable[[], Any]) -> Any:
        """The model's own work."""
        return self._keep("steps", name, work)

    def note(self, key: str, value: Any) -> None:
        """Said in the conversation."""
        self._keep("notes", key, lambda: value)

    def act(self, name: str, kind: str, payload: Any) -> Any:
        """A call of the tool that sends this kind."""
        args = {"name": name, "kind": kind, "payload": payload}
        return self._once("effects", name, lambda: ScriptedAnswer(self.tool_for(kind), args))

    def ask(self, name: str, question: str) -> str:
        """A question that ends the agent's run."""
        del question
        return self._once("answers", name, lambda: ScriptedAnswer("", {"ask": name}))

    def answer_to(self, asked: str) -> str:
        """The answer of a person. Waits until there is one."""
        if asked not in self.inbox:
            raise Waits([asked])
        return self.inbox[asked]

    def done(self, result: Any) -> None:
        """The last answer."""
        self._wanted.put(ScriptedAnswer("", {"result": result}))

    def tool_for(self, kind: str) -> str:
        """The name of the tool that sends a kind."""
        del kind
        return "send"


def kept_of(calls: list[tuple[str, dict[str, Any], Any]]) -> Kept:
    """The state that calls of a conversation, each with its tool, arguments and result, hold."""
    kept: Kept = {}
    for tool, args, result in calls:
        section = args["section"] if tool == KEEP else "effects"
        kept.setdefault(section, {})[args["name"]] = args["value"] if tool == KEEP else result
    return kept


def as_text(value: Any) -> str:
    """A value as a tool's result, or as the arguments of a call."""
    return json.dumps(value)


def loaded(text: str) -> Any:
    """The value of such a text; None for any other, as "interrupted", which sessions say of a call without a result."""
    try:
        return json.loads(text)
    except ValueError:
        return None
