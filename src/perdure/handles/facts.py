"""Facts that handles show of their records, in both colours: nothing here waits, so nothing of it is generated twice.

Inherited by the handles of `aio` and, by translation, of `sync`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

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

    @property
    def id(self) -> int:
        """Its number in its session."""
        return self._record.id

    @property
    def session(self) -> str:
        """The name of its session."""
        return self._record.session

    @property
    def title(self) -> str:
        """The task in words."""
        return self._record.title

    @property
    def detail(self) -> Any:
        """More about it, as it was given."""
        return self._record.detail

    @property
    def status(self) -> TaskStatus:
        """todo, doing, blocked, done, failed or cancelled."""
        return self._record.status

    @property
    def note(self) -> str | None:
        """The note of its last move."""
        return self._record.note

    @property
    def priority(self) -> int:
        """Higher comes first."""
        return self._record.priority

    @property
    def parent(self) -> int | None:
        """The number of the task that it is a part of."""
        return self._record.parent

    @property
    def needs(self) -> tuple[int, ...]:
        """The numbers of the tasks that must be done before."""
        return self._record.needs

    @property
    def labels(self) -> tuple[str, ...]:
        """Its labels, sorted."""
        return self._record.labels

    @property
    def actor(self) -> str:
        """The actor that wrote it down."""
        return self._record.actor

    @property
    def at(self) -> datetime:
        """When it was written down."""
        return self._record.at

    @property
    def changed_at(self) -> datetime:
        """When it was last changed."""
        return self._record.changed_at

    @property
    def closed_at(self) -> datetime | None:
        """When it was done, failed or cancelled; None for one that is not, or that an older Perdure closed."""
        return self._record.closed_at

    @property
    def claimed_by(self) -> str | None:
        """The actor that claimed it."""
        return self._record.claimed_by

    @property
    def claim_expires_at(self) -> datetime | None:
        """When the claim ends by itself, if it was given a time."""
        return self._record.claim_expires_at

    @property
    def token(self) -> int:
        """Grows with every claim: pass it on to what must be protected from an earlier claimer."""
        return self._record.token

    @property
    def abandoned(self) -> bool:
        """Whether the claim is void: its time is over, or its holder has died."""
        return self._record.abandoned

    @property
    def key(self) -> str | None:
        """The key under which it was written down, if it was given one."""
        return self._record.key

    @property
    def ref(self) -> Ref:
        """The reference by which others name it."""
        return self._record.ref

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

    @property
    def seq(self) -> int:
        """Its number in its session."""
        return self._record.seq

    @property
    def session(self) -> str:
        """The name of its session."""
        return self._record.session

    @property
    def text(self) -> str:
        """The decision in words."""
        return self._record.text

    @property
    def because(self) -> str:
        """The reason."""
        return self._record.because

    @property
    def then(self) -> str | None:
        """The step that is to follow."""
        return self._record.then

    @property
    def status(self) -> DecisionStatus:
        """open, closed or superseded."""
        return self._record.status

    @property
    def outcome(self) -> str | None:
        """The outcome, once it is closed."""
        return self._record.outcome

    @property
    def note(self) -> str | None:
        """The note of its closing."""
        return self._record.note

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags, sorted."""
        return self._record.tags

    @property
    def actor(self) -> str:
        """The actor that decided."""
        return self._record.actor

    @property
    def at(self) -> datetime:
        """When it was decided."""
        return self._record.at

    @property
    def changed_at(self) -> datetime:
        """When it was last changed."""
        return self._record.changed_at

    @property
    def closed_at(self) -> datetime | None:
        """When it ceased to be open; None for one that is open, or that an older Perdure closed."""
        return self._record.closed_at

    @property
    def supersedes(self) -> int | None:
        """The number of the decision that this one replaced."""
        return self._record.supersedes

    @property
    def superseded_by(self) -> int | None:
        """The number of the decision that replaced this one."""
        return self._record.superseded_by

    @property
    def refs(self) -> tuple[Ref, ...]:
        """The things that it refers to."""
        return self._record.refs

    @property
    def ref(self) -> Ref:
        """The reference by which others name it."""
        return self._record.ref

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

    @property
    def seq(self) -> int:
        """Its number in its session or scope."""
        return self._record.seq

    @property
    def scope(self) -> str:
        """The name of the session or scope that holds it."""
        return self._record.scope

    @property
    def text(self) -> str:
        """The text of the memory."""
        return self._record.text

    @property
    def kind(self) -> MemoryKind:
        """fact, preference, rule …"""
        return self._record.kind

    @property
    def status(self) -> MemoryStatus:
        """live, superseded or forgotten."""
        return self._record.status

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags, sorted."""
        return self._record.tags

    @property
    def about(self) -> tuple[str, ...]:
        """The subjects that it names, sorted."""
        return self._record.about

    @property
    def at(self) -> datetime:
        """When it was written down."""
        return self._record.at

    @property
    def superseded_by(self) -> int | None:
        """The number of the memory that replaced this one."""
        return self._record.superseded_by

    @property
    def refs(self) -> tuple[Ref, ...]:
        """The turns, decisions and events that it came from."""
        return self._record.refs

    @property
    def ref(self) -> Ref:
        """The reference by which others name it."""
        return self._record.ref

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

    @property
    def id(self) -> str:
        """The name that people use: `perdure settle` takes it."""
        return self._record.id

    @property
    def state(self) -> EffectState:
        """planned, dispatched, in_doubt, committed, failed, withdrawn, undoing or undone."""
        return self._record.state

    @property
    def settled(self) -> bool:
        """Whether nothing is left to do or to find out."""
        return self._record.settled

    @property
    def key(self) -> str:
        """Its key in its session, as it was given."""
        return self._record.key

    @property
    def sent_key(self) -> str:
        """The key to send to the other side, which may deduplicate on it. No other effect anywhere has it."""
        return self._record.sent_key

    @property
    def tool(self) -> str:
        """The name of the tool."""
        return self._record.tool

    @property
    def result(self) -> Any:
        """Its result, once it is committed."""
        return self._record.result

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r}, {self.tool!r}, {self.state.value})"


class ArtifactFacts:
    """The facts of an artifact, as they were last read."""

    __slots__ = ()
    record: ArtifactRecord

    @property
    def session(self) -> str:
        """The name of the session that it was attached to."""
        return self.record.session

    @property
    def seq(self) -> int:
        """The number of the event that attached it."""
        return self.record.seq

    @property
    def name(self) -> str:
        """The name under which it was attached."""
        return self.record.name

    @property
    def media_type(self) -> str:
        """Its media type, as given or guessed by its name."""
        return self.record.media_type

    @property
    def size(self) -> int:
        """Bytes of its content."""
        return self.record.size

    @property
    def hash(self) -> str:
        """The sha256 of its content, in hex."""
        return self.record.hash

    @property
    def at(self) -> datetime:
        """When it was attached."""
        return self.record.at

    @property
    def actor(self) -> str:
        """The actor that attached it."""
        return self.record.actor

    @property
    def ref(self) -> Ref:
        """The value that `refs=` of other verbs take."""
        return self.record.ref

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

    @property
    def token(self) -> int:
        """Grows with every holder, for ever. A caller with a smaller token held the lock before."""
        return self._record.token

    @property
    def deadline(self) -> datetime:
        """When the lock is free again unless it is renewed or released."""
        return self._record.deadline

    @property
    def _record(self) -> LockRecord:
        if self._held is None:
            raise Refused("the lock was not acquired", path="lock", hint="use it in a with statement")
        return self._held
