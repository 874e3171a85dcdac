"""The differences between two points of a session, or two sessions; and between two runs. The plane behind `diff`.

`stand` reads what a session is at, once for each side (a session, a fork, or one as it was); `diff` compares the two, purely.
Sides that share a past are compared by what things are (their numbers); others by what they are called. Turns from before they
parted are not read. Callers: the handles. Costs what the session has in values, tasks and decisions, and what was said since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from perdure.log.change import Stream
from perdure.model.filters import SessionDecisionFilters, SessionTaskFilters
from perdure.model.limits import PAGE_MAX_ROWS
from perdure.model.records.artifacts import ArtifactRecord
from perdure.model.records.checkpoints import CheckpointRecord
from perdure.model.records.conversation import SessionRecord, Turn
from perdure.model.records.decisions import DecisionRecord
from perdure.model.records.differences import Difference, How, RunDiff, SessionDiff
from perdure.model.records.effects import EffectRecord
from perdure.model.records.runs import RunRecord, StepRecord, WaitRecord
from perdure.model.records.tasks import TaskRecord
from perdure.model.records.values import Entry
from perdure.model.values import digest
from perdure.planes.conversation import artifacts, sessions
from perdure.planes.conversation.turns import turns_on
from perdure.planes.execution import decisions, tasks
from perdure.planes.memory import values
from perdure.planes.reading.lineage import MERGED, ancestry, beside
from perdure.planes.reading.paging import Page
from perdure.planes.reading.row_reading import stored_address
from perdure.planes.reading.sides import OtherSide
from perdure.planes.reading.snapshots import one_state
from perdure.planes.recovery import checkpoints
from perdure.stores.batch import EVENTS
from perdure.stores.store import Reads
from perdure.stores.tx import LOG

T = TypeVar("T")
N = TypeVar("N", CheckpointRecord, ArtifactRecord)

ABOUT = ("title", "status", "goal", "labels", "pins")
TASK = ("title", "status", "priority", "labels", "detail", "note")
TASK_LINKS = ("parent", "needs")  # numbers, which mean something only to sides that share a past
DECISION = ("text", "because", "then", "status", "outcome", "note", "tags")
RUN = ("agent", "status", "reason", "args", "kwargs", "result", "error", "key", "session", "program", "pins")
PLACED = {  # by what it is called, and what is compared
    "steps": ("name", "value", "error"),
    "effects": ("tool", "state", "args", "result", "error"),
    "waits": ("kind", "question", "name", "state", "answer"),
}
CHECKPOINT = ("seq", "hash", "size")
ARTIFACT = ("hash", "media_type", "size")


class Stand(NamedTuple):
    """The state of a session. line: the streams with the events of its past, newest first, each with the last that counts."""

    line: list[tuple[bytes, int]]
    about: SessionRecord
    values: list[Entry]
    tasks: list[TaskRecord]
    decisions: list[DecisionRecord]
    checkpoints: list[CheckpointRecord]
    artifacts: list[ArtifactRecord]


class RunStand(NamedTuple):
    """The state of a run."""

    about: RunRecord
    steps: list[StepRecord]
    effects: list[EffectRecord]
    waits: list[WaitRecord]


# -- reading -------------------------------------------------------------------------------------------------


def between(reads: Reads, stream: Stream, other: OtherSide) -> SessionDiff:
    """The differences from one session to another, or from one point of it to another."""
    a, b = stand(reads, stream), other.read(reads, stand)
    parted = parted_at(a, b)
    mine, theirs = (
        turns_between(reads, stream, parted, a.line[0][1]),
        other.read(reads, turns_between, parted, b.line[0][1]),
    )
    return diff(a, b, mine, theirs)


@one_state
def stand(reads: Reads, stream: Stream) -> Stand:
    """The state of a session, but for its turns."""
    paging: dict[str, Any] = {"limit": PAGE_MAX_ROWS}
    return Stand(
        line=_line(reads, stream),
        about=sessions.info(reads, stream),
        values=list(_all(lambda after: values.entries(reads, stream, **paging, after=after))),
        tasks=list(_all(lambda after: tasks.tasks(reads, stream, SessionTaskFilters(**paging, after=after))))[::-1],
        decisions=list(
            _all(lambda after: decisions.decisions(reads, stream, SessionDecisionFilters(**paging, after=after)))
        )[::-1],
        checkpoints=_newest(_all(lambda before: checkpoints.listing(reads, stream, **paging, before=before))),
        artifacts=_newest(_all(lambda after: artifacts.listing(reads, stream, **paging, after=after))),
    )


def _line(reads: Reads, stream: Stream) -> list[tuple[bytes, int]]:
    last = reads.query(LOG.stream_head, touches=[(EVENTS, stream.id)], stream=stream.id)[0][0]
    ends: list[tuple[bytes, int]] = []
    for ancestor in ancestry(reads, stream):
        ends.append((ancestor.uid, last))
        if (noted := beside(reads, ancestor)) is not None:
            ends.append((stored_address(noted.of, MERGED), min(last, noted.after)))
        last = min(last, ancestor.fork_seq)
    return ends


def _all(page: Callable[[str | None], Page[T]]) -> Iterator[T]:
    rows = page(None).whole()
    yield from rows
    while rows.next is not None:
        rows = page(rows.next).whole()
        yield from rows


def _newest(things: Iterable[N]) -> list[N]:
    """The newest of each name; things come newest first."""
    by_name: dict[str, N] = {}
    for thing in things:
        by_name.setdefault(thing.name, thing)
    return list(by_name.values())


def turns_between(reads: Reads, stream: Stream, after: int, upto: int) -> list[Turn]:
    """All turns with after < seq <= upto."""
    turns: list[Turn] = []
    while page := turns_on(reads, stream, after, upto, PAGE_MAX_ROWS):
        turns += page
        after = page[-1].seq
    return turns


def parted_at(a: Stand, b: Stand) -> int:
    """The last event that both sides have; 0 if they share nothing."""
    theirs = dict(b.line)
    return next((min(last, theirs[uid]) for uid, last in a.line if uid in theirs), 0)


# -- comparing -----------------------------------------------------------------------------------------------


def diff(a: Stand, b: Stand, said_in_a: Sequence[Turn] = (), said_in_b: Sequence[Turn] = ()) -> SessionDiff:
    """The differences from the one to the other. said_in_…: the turns since they parted. Pure."""
    related = parted_at(a, b) > 0
    task_fields = TASK + TASK_LINKS if related else TASK
    return SessionDiff(
        about=_compare(_facts(a.about, ABOUT), _facts(b.about, ABOUT)),
        values=_compare(_by_name(a.values, "value"), _by_name(b.values, "value"), written=True),
        tasks=_things(a.tasks, b.tasks, "id" if related else "", "title", task_fields),
        decisions=_things(a.decisions, b.decisions, "seq" if related else "", "text", DECISION),
        checkpoints=_things(a.checkpoints, b.checkpoints, "", "name", CHECKPOINT if related else CHECKPOINT[1:]),
        artifacts=_things(a.artifacts, b.artifacts, "", "name", ARTIFACT),
        turns_added=tuple(said_in_b),
        turns_removed=tuple(said_in_a),
    )


def diff_runs(a: RunStand, b: RunStand) -> RunDiff:
    """The differences from one run to another; the entries of each are known by its place. Pure."""
    return RunDiff(
        _compare(_facts(a.about, RUN), _facts(b.about, RUN)),
        *(
            _compare(_placed(getattr(a, part), fields), _placed(getattr(b, part), fields))
            for part, fields in PLACED.items()
        ),
    )


def _placed(things: Iterable[Any], fields: Sequence[str]) -> dict[str, Any]:
    """The entries of a run, under their place and name. An entry that a run adopted has no place: its number stands for it."""
    return {f"{entry.place or entry.seq} {getattr(entry, fields[0])}": _fields(entry, fields[1:]) for entry in things}


def _facts(about: SessionRecord | RunRecord, names: Sequence[str]) -> dict[str, Any]:
    facts = {name: getattr(about, name) for name in names}
    return {name: value for name, value in facts.items() if value not in (None, "", (), [], {})}


def _by_name(things: Iterable[Any], field: str) -> dict[str, Any]:
    return {thing.name: getattr(thing, field) for thing in things}


def _compare(before: Mapping[str, Any], after: Mapping[str, Any], *, written: bool = False) -> tuple[Difference, ...]:
    """written: values of users, which are the same if they are written the same (1 is not True)."""
    differences = [Difference(How.REMOVED, name, before[name], None) for name in before if name not in after]
    differences += [Difference(How.ADDED, name, None, after[name]) for name in after if name not in before]
    both = [name for name in before if name in after]
    differences += [
        Difference(How.CHANGED, name, before[name], after[name])
        for name in both
        if not _same(before[name], after[name], written)
    ]
    return tuple(sorted(differences, key=lambda difference: difference.name))


def _same(before: Any, after: Any, written: bool) -> bool:
    return digest(before) == digest(after) if written else before == after


def _things(
    a: Iterable[Any], b: Iterable[Any], identity: str, title: str, fields: Sequence[str]
) -> tuple[Difference, ...]:
    """Things with fields, known by a number, or (where that means nothing) by their title."""
    before, after = _keyed(a, identity, title), _keyed(b, identity, title)
    differences: list[Difference] = []
    for key in dict.fromkeys([*before, *after]):
        old, new = before.get(key), after.get(key)
        changed = [name for name in fields if getattr(old, name, None) != getattr(new, name, None)]
        if old is not None and new is not None:
            if changed:
                differences.append(
                    Difference(How.CHANGED, _called(new, identity, title), _fields(old, changed), _fields(new, changed))
                )
        elif new is not None:
            differences.append(Difference(How.ADDED, _called(new, identity, title), None, _fields(new, fields)))
        else:
            differences.append(Difference(How.REMOVED, _called(old, identity, title), _fields(old, fields), None))
    return tuple(differences)


def _keyed(things: Iterable[Any], identity: str, title: str) -> dict[Any, Any]:
    """Two of one title are told apart by their order."""
    by_key: dict[Any, Any] = {}
    counts: Counter[Any] = Counter()
    for thing in things:
        key = getattr(thing, identity or title)
        counts[key] += 1
        by_key[key, counts[key]] = thing
    return by_key


def _called(thing: Any, identity: str, title: str) -> str:
    return f"{getattr(thing, identity)} {getattr(thing, title)}" if identity else getattr(thing, title)


def _fields(thing: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in names if getattr(thing, name) not in (None, (), "")}
