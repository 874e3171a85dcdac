"""A task as the model of a framework: each answer of the model calls a tool that does the next operation of the task.

The task runs beside the framework, in a thread. It gets what an operation gave when the model is asked the next time, with the
conversation that holds it. Steps and notes are said by the model, and a tool `keep` gives them back; an effect is a call of a
tool that sends it. A question to a person ends the agent's run, and the answer is the next message. So the conversation is the
state, as it is for agents. Callers: subjects of frameworks for agents.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import warnings
from abc import abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

from perdure_evaluate.recovery.interface import Belief, Subject, SubjectAgent, Waits
from perdure_evaluate.recovery.outside import KINDS, Knowing

Kept = dict[str, dict[str, Any]]
KEEP = "keep"
BEGIN = "begin"


class ScriptedAnswer(NamedTuple):
    """The next answer of the model: a tool with its arguments. No tool: a text, which is the result of the task or an ask."""

    tool: str
    args: dict[str, Any]


class ToldPart(NamedTuple):
    """One part of a conversation. by: user, model, call or result; value: its text, or the arguments of a call."""

    by: str
    value: Any
    call: str = ""
    tool: str = ""


class Playing(Subject):
    """A subject whose model plays the task. `next_answer` is the model; the verbs are called by the task."""

    _answers: queue.SimpleQueue[ScriptedAnswer | BaseException]
    _states: queue.SimpleQueue[Kept]

    def begin(self, program: Callable[[SubjectAgent], None]) -> None:
        """Begin the task; it waits until the model is asked."""
        self._answers, self._states = queue.SimpleQueue(), queue.SimpleQueue()
        threading.Thread(target=self._play, args=(program,), daemon=True).start()

    def next_answer(self, state: Kept) -> ScriptedAnswer:
        """The model's next answer, by what the conversation holds. Raises what went wrong in the task."""
        self._states.put(state)
        answer = self._answers.get()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _play(self, program: Callable[[SubjectAgent], None]) -> None:
        self.kept = self._states.get()
        try:
            program(self)
        except BaseException as error:  # noqa: BLE001 - raised again by the model
            self._answers.put(error)

    def _once(self, section: str, name: str, make: Callable[[], ScriptedAnswer]) -> Any:
        if name not in self.kept.get(section, {}):
            self._answers.put(make())
            self.kept = self._states.get()
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

    def answer_to(self, question: str) -> str:
        """The answer of a person. Waits until there is one."""
        if question not in self.inbox:
            raise Waits([question])
        return self.inbox[question]

    def done(self, result: Any) -> None:
        """The last answer."""
        self._answers.put(ScriptedAnswer("", {"result": result}))

    def tool_for(self, kind: str) -> str:
        """The name of the tool that sends a kind."""
        del kind
        return "send"

    def functions(self) -> dict[str, Callable[..., str]]:
        """The functions of the tools, by name; each gives a text."""
        return {KEEP: keep, "send": self.send}

    def send(self, name: str, kind: str, payload: Any) -> str:
        """Send an effect: with a key where the other side knows keys, and after a look where one can look."""
        looked = self.outside.find(name, kind, payload) if KINDS[kind] is Knowing.FOUND else None
        return as_text(looked or self.outside.send(name, kind, payload, f"{self.place.folder.name}-{name}"))


class Conversing(Playing):
    """A subject whose framework is called with a message, or with none to continue, until the model has given the result."""

    def run(self, program: Callable[[SubjectAgent], None]) -> None:
        """Continue the conversation."""
        self.begin(program)
        message = None if self.parts() else BEGIN
        while "result" not in (last := last_words(self.parts())):
            if "ask" in last:
                message = self.answer_to(last["ask"])
            self.converse(message)
            message = None

    @abstractmethod
    def parts(self) -> list[ToldPart]:
        """The conversation, from the store."""

    @abstractmethod
    def converse(self, message: str | None) -> None:
        """Run the agent with a message, or with none where its last life left it, until it asks or gives the result."""

    def believe(self) -> Belief:
        """The belief that stands in the conversation."""
        return belief_of(self.parts())


def keep(section: str, name: str, value: Any) -> str:
    """Say something in the conversation."""
    return as_text([section, name, value])


def kept_in(parts: list[ToldPart]) -> Kept:
    """The state that a conversation holds. A call of `keep` says it all, whether or not its result is there yet."""
    state: Kept = {}
    results = {part.call: loaded(part.value) for part in parts if part.by == "result"}
    for part in (part for part in parts if part.by == "call"):
        name, result = part.value["name"], results.get(part.call)
        if part.tool == KEEP:
            state.setdefault(part.value["section"], {})[name] = part.value["value"]
        elif result is not None:
            state.setdefault("effects", {})[name] = result
    for before, part in pairwise(parts):
        if part.by == "user" and "ask" in (words := last_words([before])):
            state.setdefault("answers", {}).setdefault(words["ask"], part.value)
    return state


def last_words(parts: list[ToldPart]) -> dict[str, Any]:
    """The text that a run ended with, if nothing came after it."""
    return json.loads(parts[-1].value) if parts and parts[-1].by == "model" else {}


def belief_of(parts: list[ToldPart]) -> Belief:
    """The belief that stands in a conversation: it ends with the model's text."""
    state, last = kept_in(parts), last_words(parts)
    return Belief(state.get("notes", {}), state.get("effects", {}), last.get("result"), "result" in last)


def hush(logger: str) -> None:
    """Let a framework say nothing about its experimental parts: a life has nobody to tell it to."""
    logging.getLogger(logger).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message=r"\[[A-Z_]+\] ")


def as_text(value: Any) -> str:
    """A value as a tool's result, or as the arguments of a call."""
    return json.dumps(value)


def loaded(text: Any) -> Any:
    """The value of such a text; None for any other, as "interrupted", which sessions say of a call without a result."""
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return None
