"""Rules that forbid something by a pattern: which of them an act breaks, and the correction that it leaves (decision 0046).

A rule with the tag `forbid:PATTERN` is broken by a command, or by an edit of a path, that the pattern matches. Nothing is guessed
from its text. Callers: the hooks of coding agents' hosts. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple, Protocol, TypeVar

FORBID = "forbid:"
BROKEN = "rule-broken"
SAID_MAX_CHARS = 4_000


class ForbiddingRule(Protocol):
    """A memory of the kind `rule`: a handle, or its record."""

    @property
    def scope(self) -> str:
        """Where it stands."""
        ...

    @property
    def seq(self) -> int:
        """Its number there."""
        ...

    @property
    def text(self) -> str:
        """Its words."""
        ...

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags: what it forbids is among them."""
        ...

    @property
    def about(self) -> tuple[str, ...]:
        """Its subjects."""
        ...


R = TypeVar("R", bound=ForbiddingRule)


class Correction(NamedTuple):
    """The arguments of `remember` for a rule that was broken."""

    text: str
    kind: str
    tags: list[str]
    about: tuple[str, ...]


def broken_by(act: str, rules: Iterable[R]) -> list[R]:
    """The rules that an act breaks: a command, or the path of an edit, in which one of their patterns stands."""

    def forbids(tag: str) -> bool:
        return tag.startswith(FORBID) and fnmatchcase(act, f"*{tag.removeprefix(FORBID)}*")

    return [rule for rule in rules if any(map(forbids, rule.tags))]


def correction_of(rule: ForbiddingRule, tool: str, act: str) -> Correction:
    """The memory that an act leaves which broke a rule. It is about whom the rule is."""
    text = f"The rule {rule.scope}/{rule.seq} was broken: {rule.text!r}. It was broken by {tool}: {act}"
    return Correction(text[:SAID_MAX_CHARS], "correction", [BROKEN], rule.about)
