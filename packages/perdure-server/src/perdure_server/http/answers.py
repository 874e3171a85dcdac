"""Answers: the records of the planes, and the few shapes that only HTTP has. The OpenAPI document is made from them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from perdure.model.records.conversation import SessionRecord
from perdure.model.records.effects import EffectRecord
from perdure.model.records.emitted import EventRecord
from perdure.model.records.runs import RunRecord, WaitRecord
from perdure.model.refs import Ref
from perdure.planes.reading.paging import DamagedRow
from perdure.upkeep.findings import Finding

T = TypeVar("T")


class Paged(msgspec.Struct, Generic[T], frozen=True):
    """A page of a list. next: the cursor of the page that follows, for `after`; null if that was all.

    damaged: rows of this page that cannot be read.
    """

    items: list[T]
    next: str | None
    damaged: list[DamagedRow] = []


class SessionAnswer(SessionRecord, frozen=True, kw_only=True):
    """A session. uid: its identity, the same on every store that it is moved to."""

    uid: str


class ScopeAnswer(msgspec.Struct, frozen=True):
    """A scope that is there."""

    name: str
    uid: str


class EventAnswer(msgspec.Struct, frozen=True):
    """An event of the log. body: all that it says; data: what was emitted, or the document of the change."""

    seq: int
    kind: str
    table: str
    actor: str
    at: datetime
    data: Any
    about: tuple[str, ...]
    refs: tuple[Ref, ...]
    session: str
    stream_kind: str
    uid: str
    ref: Ref
    body: dict[str, Any]
    emptied: bool


class EffectAnswer(EffectRecord, frozen=True, kw_only=True):
    """An effect. id: how commands and other routes name it. left: its sender is gone, and nobody has recorded the doubt yet."""

    id: str  # pyright: ignore[reportIncompatibleMethodOverride] - a field here, so that it is in the answer
    settled: bool  # pyright: ignore[reportIncompatibleMethodOverride] - as above
    left: bool = False


class AskAnswer(WaitRecord, frozen=True, kw_only=True):
    """A question to a person, or an approval. id: how commands and other routes name it."""

    id: str  # pyright: ignore[reportIncompatibleMethodOverride] - as above


class RunAnswer(RunRecord, frozen=True, kw_only=True):
    """A run. ended: whether it is over."""

    ended: bool  # pyright: ignore[reportIncompatibleMethodOverride] - as above


class HealthAnswer(msgspec.Struct, frozen=True):
    """The findings of `perdure doctor`. sound: nothing is wrong; a warning is not wrong yet."""

    sound: bool
    outgrown: bool
    findings: list[Finding]


class AliveAnswer(msgspec.Struct, frozen=True):
    """The server answers, and its store can be read."""

    status: str
    version: str


class WhoAnswer(msgspec.Struct, frozen=True):
    """The holder of the token, and what this server and store are."""

    token: str
    tenant: str
    role: str
    actor: str
    rights: list[str]
    expires_at: datetime | None
    store: str
    epoch: int
    version: str


class CountAnswer(msgspec.Struct, frozen=True):
    """How many there were."""

    count: int


class DoneAnswer(msgspec.Struct, frozen=True):
    """It was done; there is nothing more to say. changed: whether anything was different before."""

    changed: bool = True


def session_answer(record: SessionRecord, uid: str) -> SessionAnswer:
    """A session as it is answered."""
    return SessionAnswer(*fields(record), uid=uid)


def event_answer(record: EventRecord) -> EventAnswer:
    """An event as it is answered."""
    return EventAnswer(*(getattr(record, name) for name in EventAnswer.__struct_fields__))


def effect_answer(record: EffectRecord, *, left: bool = False) -> EffectAnswer:
    """An effect as it is answered."""
    return EffectAnswer(*fields(record), id=record.id, settled=record.settled, left=left)


def ask_answer(record: WaitRecord) -> AskAnswer:
    """A question as it is answered."""
    return AskAnswer(*fields(record), id=record.id)


def run_answer(record: RunRecord) -> RunAnswer:
    """A run as it is answered."""
    return RunAnswer(*fields(record), ended=record.ended)


def fields(record: msgspec.Struct) -> list[Any]:
    """The fields of a record in order."""
    return [getattr(record, name) for name in record.__struct_fields__]
