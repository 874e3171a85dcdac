"""Doubt as LangGraph's own pause: one question at a time for each task, and an answer counts for that question alone.

LangGraph gives a task that is run again every answer it ever got, in order, tells nobody which question was which, and gives the
last one once more to a run without any. An old "absent" would so be taken for a word about the attempt after it, or about another
call of the same node. So the session keeps which attempt of which effect was asked about, and the last time that somebody had
resumed the graph then: an answer counts if it came after that, for that attempt, and once. Callers: `ledger`. Keeps P4.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from threading import Lock
from typing import Any, NamedTuple

from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.types import Interrupt, interrupt

from perdure.errors import InDoubt, NotFound, Waiting
from perdure.handles.sync.store import Store
from perdure.model.records.conversation import Call
from perdure.model.records.effects import EffectState, Verdict
from perdure.model.storable import storable
from perdure_adapters import doubt_questions
from perdure_adapters.langgraph.configuration import RESUME_MAP, SCRATCHPAD
from perdure_adapters.langgraph.saver import PerdureSaver

TASKS_MAX = 256
ANSWER_SECONDS = 5.0  # for an answer to become durable
LOOK_SECONDS = 0.01


class Called(NamedTuple):
    """A tool call, its key, and the checkpoints that its task began from, which it waits for. paused: by the tool itself."""

    call: Call
    declared: Any
    thread: str
    key: str
    saver: PerdureSaver
    checkpoints: Mapping[str, str]
    seconds: float
    paused: list[GraphBubbleUp]


class GivenAnswers:
    """The answers that one run of a task has. at: the last time that somebody resumed the graph. used: the last answer was."""

    def __init__(self, called: Called, question: dict[str, Any]) -> None:
        self.run = _place()[SCRATCHPAD]
        self.by_id: Collection[str] = _place().get(RESUME_MAP) or ()
        self.used = False
        self.answers: list[Any] = []
        try:
            while True:
                self.answers.append(interrupt(None))
        except GraphInterrupt as pause:
            self.pause: str = pause.args[0][0].id
        self.at = self._resumed_at(called, question["after"])

    def _resumed_at(self, called: Called, before: int) -> int:
        """LangGraph may store an answer while the task is running already."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while (at := called.saver.resumed_at(called.thread, called.checkpoints)) <= before:
            if not self.answers or self.by_id or time.monotonic() > deadline:
                break
            time.sleep(LOOK_SECONDS)
        return at

    def answers_to(self, question: dict[str, Any]) -> bool:
        """Whether somebody has resumed the graph since this was asked."""
        return bool(self.answers) and not self.used and (question["id"] in self.by_id or self.at > question["after"])


class Questions:
    """The questions of a ledger. Calls of one node run side by side: they share the answers of their task."""

    def __init__(self) -> None:
        self._mutex = Lock()
        self._given: OrderedDict[str, GivenAnswers] = OrderedDict()

    def ask(self, store: Store, called: Called, doubt: InDoubt | Waiting) -> Verdict | None:
        """The verdict that a person gave about this doubt; None for any other answer. Pauses the graph until there is one."""
        question = _question(called, doubt)
        task = str(_place().get("checkpoint_ns") or "")
        name = f"langgraph.asked/{hashlib.sha256(task.encode()).hexdigest()[:32]}"
        with self._mutex:
            session, about = store.session(called.thread), _about(store, doubt)
            earlier = session.get(name, None) or {"about": None, "after": 0, "id": ""}
            answers = self._answers(task, called, earlier)
            if earlier["about"] == about and answers.answers_to(earlier):
                answers.used = True
                session.set(name, {"about": None, "after": answers.at, "id": ""})
                return doubt_questions.verdict_of(answers.answers[-1])
            if earlier["about"] not in (None, about) and _is_open(store, earlier["about"]):
                question = earlier["question"]  # of a call beside this one, which comes first
            else:
                record = {"about": about, "after": answers.at, "id": answers.pause, "question": storable(question)}
                session.set(name, record)
        raise GraphInterrupt((Interrupt(value=question, id=answers.pause),))

    def _answers(self, task: str, called: Called, question: dict[str, Any]) -> GivenAnswers:
        answers = self._given.get(task)
        if answers is None or answers.run is not _place()[SCRATCHPAD]:
            answers = self._given[task] = GivenAnswers(called, question)
            while len(self._given) > TASKS_MAX:
                self._given.popitem(last=False)
        return answers


def _place() -> dict[str, Any]:
    return get_config().get("configurable") or {}


def _about(store: Store, doubt: InDoubt | Waiting) -> list[Any]:
    """The attempt that is in doubt: an effect, and which of its attempts."""
    effect = doubt.facts.get("effect")
    return [effect, store.effect(effect).record.attempt if effect else 0]


def _is_open(store: Store, about: list[Any]) -> bool:
    try:
        effect = store.effect(about[0]).record if about[0] else None
    except NotFound:
        return False
    return effect is not None and (effect.state, effect.attempt) == (EffectState.IN_DOUBT, about[1])


def _question(called: Called, doubt: InDoubt | Waiting) -> dict[str, Any]:
    """The value of the interrupt: what a person must find out, in LangChain's words."""
    question = doubt_questions.question(called.call, doubt)
    args = question.pop("arguments")
    return {**question, "args": args, "thread": called.thread}
