"""A program that was changed: the same task, with an operation renamed, one put in before it, or one taken out.

Below the wire: the harness sees the names that it knows, the subject sees those of the changed program. An effect as other people
see it (its name and content at the other side) stays the same; the key that a subject sends is its own. Callers: lives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from perdure_evaluate.recovery.interface import Belief, Outside, SubjectAgent

KINDS = ("renamed", "inserted", "removed")
MARK = "~new"


def canonical(name: str) -> str:
    """The name of an operation before it was renamed."""
    return name.removesuffix(MARK)


def canonical_belief(belief: Belief) -> Belief:
    """A belief in the names that the harness knows. Of an effect that has both names, the result under the old one counts."""
    renamed_first = sorted(belief.effects.items(), key=lambda item: item[0] == canonical(item[0]))
    return msgspec.structs.replace(belief, effects={canonical(name): result for name, result in renamed_first})


class Edited:
    """A subject's agent, as a changed program calls it. edit: `KIND.NAME`, or nothing. Only a note can be taken out: it gives
    nothing that others could rest on.
    """

    def __init__(self, agent: SubjectAgent, edit: str) -> None:
        self._agent = agent
        self._kind, _, self._name = edit.partition(".")

    def step(self, name: str, work: Callable[[], Any]) -> Any:
        """Pure work."""
        return self._agent.step(self._met(name), work)

    def act(self, name: str, kind: str, payload: Any) -> Any:
        """Something outside."""
        return self._agent.act(self._met(name), kind, payload)

    def note(self, key: str, value: Any) -> None:
        """State."""
        if (self._kind, self._name) != ("removed", key):
            self._agent.note(self._met(key), value)

    def read(self, name: str, key: str) -> Any:
        """State, as it stands now."""
        return self._agent.read(self._met(name), key)

    def ask(self, name: str, question: str) -> str:
        """A person's answer."""
        return self._agent.ask(self._met(name), question)

    def done(self, result: Any) -> None:
        """The end."""
        self._agent.done(result)

    def _met(self, name: str) -> str:
        """The name in this program; what was put in before it is done first."""
        if name != self._name:
            return name
        if self._kind == "inserted":
            self._agent.step(f"{name}{MARK}", lambda: "inserted")
        return f"{name}{MARK}" if self._kind == "renamed" else name


class EditedOutside:
    """The other side, which does not know how a program calls its operations."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside

    def send(self, name: str, kind: str, payload: Any, key: str = "") -> Any:
        """Do it."""
        return self._outside.send(canonical(name), kind, payload, key)

    def find(self, name: str, kind: str, payload: Any) -> Any:
        """Look."""
        return self._outside.find(canonical(name), kind, payload)
