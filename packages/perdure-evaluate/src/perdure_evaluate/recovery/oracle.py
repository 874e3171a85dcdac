"""The acts that must have happened: the task played by an agent that forgets nothing, on the answers that were acknowledged
first.

`Oracle` gives the effects, notes and result that follow from the steps that others have seen; and, played before anything is
killed, the boundaries at which one can kill.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from perdure_evaluate.recovery.outside import receipt
from perdure_evaluate.recovery.tasks import TASKS, RecoveryTask

ANSWER = "yes"  # the answer of people, always
PHASES = {
    "step": ("before", "worked", "recorded"),
    "act": ("before", "calling", "sent", "replied", "recorded"),
    "note": ("before", "recorded"),
    "read": ("before", "recorded"),
    "ask": ("before", "recorded"),
    "done": ("before", "recorded"),
}
UNKNOWN = "an answer that nobody has seen"


class ExpectedEffect(NamedTuple):
    """An effect that must have happened."""

    kind: str
    payload: Any


class Oracle:
    """An agent that does everything once. steps: what was acknowledged first, by name; else it is worked here.

    amended: notes that somebody else changed before they were read.
    """

    def __init__(
        self, seed: int, steps: Mapping[str, Any], effects: Mapping[str, Any], amended: Mapping[str, Any]
    ) -> None:
        self._seed = seed
        self._steps = steps
        self._results = effects
        self._amended = amended
        self.operations: dict[str, str] = {}
        self.effects: dict[str, ExpectedEffect] = {}
        self.notes: dict[str, Any] = {}
        self.result: Any = None
        self.points: list[str] = []

    def step(self, name: str, work: Callable[[random.Random], Any]) -> Any:
        """The acknowledged value, or the one that a first life would see."""
        self._pass("step", name)
        return self._steps[name] if name in self._steps else work(chance(self._seed, name, 0))

    def act(self, name: str, kind: str, payload: Any) -> Any:
        """The answer of the other side."""
        self._pass("act", name)
        self.effects[name] = ExpectedEffect(kind, payload)
        return self._results.get(name, receipt(name, kind))

    def note(self, key: str, value: Any) -> None:
        """Keep it."""
        self._pass("note", key)
        self.notes[key] = self._amended.get(key, value)

    def read(self, name: str, key: str) -> Any:
        """The present content."""
        self._pass("read", name)
        return self.notes[key]

    def ask(self, name: str, question: str) -> str:
        """The answer of people."""
        del question
        self._pass("ask", name)
        return ANSWER

    def done(self, result: Any) -> None:
        """The end."""
        self._pass("done", "done")
        self.result = result

    def _pass(self, verb: str, name: str) -> None:
        self.operations[name] = verb
        self.points += [f"{name}:{phase}" for phase in PHASES[verb]]


def chance(seed: int, name: str, life: int) -> random.Random:
    """The source of a step's draws: another life, another draw."""
    return random.Random(f"{seed}/{name}/{life}")


def foretell(
    task: RecoveryTask,
    seed: int,
    steps: Mapping[str, Any] | None = None,
    effects: Mapping[str, Any] | None = None,
    amended: Mapping[str, Any] | None = None,
) -> Oracle:
    """Play a task to its end. steps, effects: what was acknowledged first; amended: what somebody else changed."""
    oracle = Oracle(seed, steps or {}, effects or {}, amended or {})
    task.play(oracle)
    return oracle


@cache
def points_of(task: str, seed: int) -> tuple[str, ...]:
    """Every boundary of a task, in order."""
    return tuple(foretell(TASKS[task], seed).points)


@cache
def operations_of(task: str, seed: int) -> dict[str, str]:
    """The verbs of a task's operations, by name, in order."""
    return foretell(TASKS[task], seed).operations


@cache
def effects_of(task: str) -> dict[str, str]:
    """The kinds of a task's effects, by name."""
    return {name: effect.kind for name, effect in foretell(TASKS[task], 0).effects.items()}
