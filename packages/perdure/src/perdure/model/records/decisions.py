"""Records of decisions, as the verbs of `planes.execution.decisions` return them."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from perdure.model.refs import Ref


class DecisionStatus(enum.StrEnum):
    """A decision is open until it is closed with an outcome, or superseded by another decision."""

    OPEN = "open"
    CLOSED = "closed"
    SUPERSEDED = "superseded"


DecisionStatusName: TypeAlias = Literal["open", "closed", "superseded"]


class DecisionRecord(msgspec.Struct, frozen=True):
    """A decision: what was decided, why, what is to follow, and the outcome.

    supersedes, superseded_by: sequence numbers of the decisions before and after it in the same session.
    changed_at: when it was last changed.
    closed_at: when it ceased to be open, unless an older Perdure closed it.
    """

    seq: int
    session: str
    text: str
    because: str
    then: str | None
    status: DecisionStatus
    outcome: str | None
    note: str | None
    tags: tuple[str, ...]
    actor: str
    at: datetime
    supersedes: int | None
    superseded_by: int | None
    refs: tuple[Ref, ...]
    ref: Ref
    changed_at: datetime
    closed_at: datetime | None = None


class Reference(msgspec.Struct, frozen=True):
    """Something that refers to a thing: the event with the reference, and its place."""

    kind: str
    session: str
    seq: int
    actor: str
    at: datetime
    ref: Ref
