"""Records of differences between two points of a session or run, or between two of them, as `planes.audit.diff` returns them."""

from __future__ import annotations

import enum
from collections import Counter
from typing import Any

import msgspec

from perdure.model.records.conversation import Turn


class How(enum.StrEnum):
    """How a thing changed from the first point to the second."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class Difference(msgspec.Struct, frozen=True):
    """One thing that differs between the two points. before, after: its content; None where it does not exist.

    If a thing with fields (a task, a decision) changed, both hold only the fields that differ.
    """

    how: How
    name: str
    before: Any
    after: Any


class RunDiff(msgspec.Struct, frozen=True):
    """The differences from one run to another, or from one point of a run to another.

    about: status, arguments, result, program and the like. steps, effects, waits: by their place in the run.
    """

    about: tuple[Difference, ...]
    steps: tuple[Difference, ...]
    effects: tuple[Difference, ...]
    waits: tuple[Difference, ...]

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not any(getattr(self, name) for name in self.__struct_fields__)


class SessionDiff(msgspec.Struct, frozen=True):
    """The differences from one point of a session to another, or from one session to another.

    about: goal, status, title, labels, pins.
    checkpoints: the newest of each name.
    turns_added, turns_removed: turns that only the second, or only the first, has.
    """

    about: tuple[Difference, ...]
    values: tuple[Difference, ...]
    tasks: tuple[Difference, ...]
    decisions: tuple[Difference, ...]
    checkpoints: tuple[Difference, ...]
    artifacts: tuple[Difference, ...]
    turns_added: tuple[Turn, ...]
    turns_removed: tuple[Turn, ...]

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not any(getattr(self, name) for name in self.__struct_fields__)


class Repeated(msgspec.Struct, frozen=True):
    """One recorded thing that a fork of a run does not keep. then: its fate there (see `effects.what_if.forecast`)."""

    seq: int
    place: str
    kind: str
    name: str
    then: str


class Forecast(msgspec.Struct, frozen=True):
    """The consequences of forking a run at a place: how much is kept as recorded, and what would be done anew."""

    seq: int
    place: str
    known_at: int
    kept: int
    again: tuple[Repeated, ...]

    @property
    def by_fate(self) -> dict[str, int]:
        """How many things have which fate."""
        return dict(Counter(repetition.then for repetition in self.again))
