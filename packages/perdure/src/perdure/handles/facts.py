"""Facts that handles show of their records, in both colours: nothing here waits, so nothing of it is generated twice.

Inherited by the handles of `aio` and, by translation, of `sync`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from perdure.errors import Refused
from perdure.log.change import Stream
from perdure.model.records.artifacts import ArtifactRecord
from perdure.model.records.checks import CheckResult, standing_of
from perdure.model.records.decisions import DecisionRecord, DecisionStatus
from perdure.model.records.effects import (
    EffectRecord,
    EffectState,
)
from perdure.model.records.emitted import EventRecord
from perdure.model.records.memories import MemoryKind, MemoryRecord, MemoryStatus, Why
from perdure.model.records.tasks import TaskRecord, TaskStatus
from perdure.model.records.values import LockRecord
from perdure.model.refs import Ref
from perdure.planes.reading.sides import OtherSide

if TYPE_CHECKING:
    from perdure.boot import stale

M = TypeVar("M", bound="MemoryFacts")


class _Fact:
    def __init__(self, about: str) -> None:
        self.__doc__ = about

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, handle: Any, owner: type) -> Any:
        return self if handle is None else getattr(handle._record, self._name)

    def __set__(self, handle: object, value: object) -> NoReturn:
        raise AttributeError(f"{self._name} is read from the store, and cannot be set")


def fact(about: str) -> Any:
    """A fact that a handle shows as its record has it, under the same name. A checker takes it for an attribute of its type."""
    return _Fact(about)


class StreamFacts:
    """The facts of a stream that a handle is on."""

    __slots__ = ()
    _caller: Any
    _stream: Stream

    @property
    def name(self) -> str:
        """The name under which the stream was opened."""
        return self._stream.name

    @property
    def uid(self) -> str:
        """The stream's identity: the same on every store that it is moved to."""
        return self._stream.uid.hex()

    def _beside(self, other: StreamFacts) -> OtherSide:
        """Another handle, to be compared with this one."""
        mine, theirs = self._caller, other._caller
        is_here = theirs.core is mine.core and theirs.tenant == mine.tenant
        return OtherSide(theirs.core, theirs.tenant, other._stream, is_here=is_here)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class TaskFacts:
    """The facts of a task, as they were last read."""

    __slots__ = ()
    _record: TaskRecord
    _token: int | None

    @property
    def record(self) -> TaskRecord:
        """Everything that was last read, as plain data."""
        return self._record

    id: int = fact("Its number in its session.")
    session: str = fact("The name of its session.")
    title: str = fact("The task in words.")
    detail: Any = fact("More about it, as it was given.")
    status: TaskStatus = fact("todo, doing, blocked, done, failed or cancelled.")
    note: str | None = fact("The note of its last move.")
    priority: int = fact("Higher comes first.")
    parent: int | None = fact("The number of the task that it is a part of.")
    needs: tuple[int, ...] = fact("The numbers of the tasks that must be done before.")
    labels: tuple[str, ...] = fact("Its labels, sorted.")
    actor: str = fact("The actor that wrote it down.")
    at: datetime = fact("When it was written down.")
    changed_at: datetime = fact("When it was last changed.")
    closed_at: datetime | None = fact(
        "When it was done, failed or cancelled; None if it was not, or by an older Perdure."
    )
    claimed_by: str | None = fact("The actor that claimed it.")
    claim_expires_at: datetime | None = fact("When the claim ends by itself, if it was given a time.")
    token: int = fact("Grows with every claim: pass it on to what must be protected from an earlier claimer.")
    abandoned: bool = fact("Whether the claim is void: its time is over, or its holder has died.")
    key: str | None = fact("The key under which it was written down, if it was given one.")
    ref: Ref = fact("The reference by which others name it.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.session!r}, {self.id}, {self.title!r}, {self.status.value})"


class DecisionFacts:
    """The facts of a decision, as they were last read."""

    __slots__ = ()
    _record: DecisionRecord

    @property
    def record(self) -> DecisionRecord:
        """Everything that was last read, as plain data."""
        return self._record

    seq: int = fact("Its number in its session.")
    session: str = fact("The name of its session.")
    text: str = fact("The decision in words.")
    because: str = fact("The reason.")
    then: str | None = fact("The step that is to follow.")
    status: DecisionStatus = fact("open, closed or superseded.")
    outcome: str | None = fact("The outcome, once it is closed.")
    note: str | None = fact("The note of its closing.")
    tags: tuple[str, ...] = fact("Its tags, sorted.")
    actor: str = fact("The actor that decided.")
    at: datetime = fact("When it was decided.")
    changed_at: datetime = fact("When it was last changed.")
    closed_at: datetime | None = fact(
        "When it ceased to be open; None for one that is open, or that an older Perdure closed."
    )
    supersedes: int | None = fact("The number of the decision that this one replaced.")
    superseded_by: int | None = fact("The number of the decision that replaced this one.")
    refs: tuple[Ref, ...] = fact("The things that it refers to.")
    ref: Ref = fact("The reference by which others name it.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.session!r}, {self.seq}, {self.text[:60]!r}, {self.status.value})"


class MemoryFacts:
    """The facts of a memory, as they were last read."""

    __slots__ = ()
    _record: MemoryRecord

    @property
    def record(self) -> MemoryRecord:
        """Everything that was last read, as plain data."""
        return self._record

    seq: int = fact("Its number in its session or scope.")
    scope: str = fact("The name of the session or scope that holds it.")
    text: str = fact("The text of the memory.")
    kind: MemoryKind = fact("fact, preference, rule …")
    status: MemoryStatus = fact("live, superseded or forgotten.")
    tags: tuple[str, ...] = fact("Its tags, sorted.")
    about: tuple[str, ...] = fact("The subjects that it names, sorted.")
    at: datetime = fact("When it was written down.")
    superseded_by: int | None = fact("The number of the memory that replaced this one.")
    refs: tuple[Ref, ...] = fact("The turns, decisions and events that it came from.")
    ref: Ref = fact("The reference by which others name it.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.scope!r}, {self.seq}, {self.kind.value}, {self.text[:60]!r}, {self.status.value})"


class HitFacts(Generic[M]):
    """The facts of a memory that was recalled."""

    __slots__ = ("memory", "outcomes", "score", "standing", "why")

    def __init__(self, memory: M, score: float, why: Why, outcomes: Sequence[CheckResult] = ()) -> None:
        self.memory = memory
        self.score = score
        self.why = why
        self.standing = standing_of(outcomes)
        self.outcomes = tuple(outcomes)

    @property
    def ref(self) -> Ref:
        """The reference to the memory, as in `session.say(…, shown=hits)`."""
        return self.memory.ref

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.memory!r}, {self.score:.3f}, {str(self.why)!r})"


class CheckedFacts(Generic[M]):
    """The facts of something that carries checks."""

    __slots__ = ("kind", "memory", "name", "outcomes", "scope", "standing", "text")

    def __init__(self, stood: stale.Stood, memory: M | None) -> None:
        thing = stood.thing
        self.kind = thing.kind
        self.scope = thing.carrier.stream.name
        self.name = thing.name
        self.text = thing.text
        self.memory = memory
        self.standing = standing_of(stood.outcomes)
        self.outcomes = stood.outcomes

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kind} {self.scope!r} {self.name}, {self.standing.value})"


class BatchFacts:
    """The events of a batch of the feed."""

    __slots__ = ()
    events: Sequence[EventRecord]

    def __iter__(self) -> Iterator[EventRecord]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.events)} event{'' if len(self.events) == 1 else 's'})"


class EffectFacts:
    """The facts of an effect, as they were last read."""

    __slots__ = ()
    _record: EffectRecord

    @property
    def record(self) -> EffectRecord:
        """Everything that was last read, as plain data."""
        return self._record

    id: str = fact("The name that people use: `perdure settle` takes it.")
    state: EffectState = fact("planned, dispatched, in_doubt, committed, failed, withdrawn, undoing or undone.")
    settled: bool = fact("Whether nothing is left to do or to find out.")
    key: str = fact("Its key in its session, as it was given.")
    sent_key: str = fact(
        "The key to send to the other side, which may deduplicate on it. No other effect anywhere has it."
    )
    tool: str = fact("The name of the tool.")
    result: Any = fact("Its result, once it is committed.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r}, {self.tool!r}, {self.state.value})"


class ArtifactFacts:
    """The facts of an artifact, as they were last read."""

    __slots__ = ()
    record: ArtifactRecord

    @property
    def _record(self) -> ArtifactRecord:
        return self.record

    session: str = fact("The name of the session that it was attached to.")
    seq: int = fact("The number of the event that attached it.")
    name: str = fact("The name under which it was attached.")
    media_type: str = fact("Its media type, as given or guessed by its name.")
    size: int = fact("Bytes of its content.")
    hash: str = fact("The sha256 of its content, in hex.")
    at: datetime = fact("When it was attached.")
    actor: str = fact("The actor that attached it.")
    ref: Ref = fact("The value that `refs=` of other verbs take.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArtifactFacts) and type(other) is type(self) and self.record == other.record

    def __hash__(self) -> int:
        return hash(self.record)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.hash[:12]})"


class LockFacts:
    """The facts of a lock, while it is held."""

    __slots__ = ()
    _held: LockRecord | None
    _name: str

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self._name

    token: int = fact("Grows with every holder, for ever. A caller with a smaller token held the lock before.")
    deadline: datetime = fact("When the lock is free again unless it is renewed or released.")

    @property
    def _record(self) -> LockRecord:
        if self._held is None:
            raise Refused("the lock was not acquired", path="lock", hint="use it in a with statement")
        return self._held
