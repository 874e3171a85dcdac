"""Everything of a tenant that rests on something, and whether it still holds: what `store.checked` and `doctor --stale` list.

Memories, values, decisions and tasks that carry checks, and tasks whose claimer has died. Blocking work, page by page; callers:
the handles.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from perdure.boot.checking import Carrier, Looking, Outcomes, carrier_of, judged
from perdure.errors import NotFound
from perdure.log.change import Stream
from perdure.model.filters import MemoryFilters, TaskFilters
from perdure.model.instants import instant_us
from perdure.model.records.checks import CheckResult, ClaimerAlive
from perdure.model.records.decisions import DecisionStatus
from perdure.model.records.memories import MemoryRecord, Validity
from perdure.model.records.tasks import TaskRecord, TaskStatus
from perdure.model.values import encode
from perdure.planes.execution import decisions, tasks
from perdure.planes.memory import checks, memories, values
from perdure.planes.memory.checks import Carried, Thing
from perdure.stores.core import Core
from perdure.stores.store import Reads

PAGE = 100
PAGE_SECONDS = 10.0  # for the checks of one page: nobody waits for a context window here
_GONE = "its claimer is gone"


class CheckedThing(NamedTuple):
    """One thing, with what it rests on. name: its number, or a value's name; memory: set if it is one."""

    kind: str
    name: str
    text: str
    carrier: Carrier
    memory: MemoryRecord | None = None


class Stood(NamedTuple):
    """One thing, with what came of its checks."""

    thing: CheckedThing
    outcomes: Outcomes


def checked(core: Core, tenant: int, looking: Looking) -> list[Stood]:
    """All that carries checks, memories first, each with what came of them now. Each page may take as long as `looking` says."""
    results: list[Stood] = []
    for page in (*_memories(core, tenant), *_others(core, tenant)):
        outcomes = judged(core, tenant, [thing.carrier for thing in page], looking)
        results += map(Stood, page, outcomes)
    return [*results, *_abandoned(core, tenant)]


def _memories(core: Core, tenant: int) -> Iterator[list[CheckedThing]]:
    after: str | None = None
    while True:
        page = core.read(memories.memories_of_store, MemoryFilters(after=after, limit=PAGE), tenant=tenant)
        yield [
            CheckedThing("memory", str(record.seq), record.text, carrier_of(stream, record), record)
            for stream, record in page
            if record.checks
        ]
        after = page.next
        if after is None:
            return


def _others(core: Core, tenant: int) -> Iterator[list[CheckedThing]]:
    after: str | None = None
    while True:
        page = core.read(checks.checks_of_store, after=after, limit=PAGE, tenant=tenant)
        things = [core.read(_resting, stream, carried, tenant=tenant) for stream, carried in page]
        yield [thing for thing in things if thing is not None]
        after = page.next
        if after is None:
            return


def _resting(reads: Reads, stream: Stream, carried: Carried) -> CheckedThing | None:
    """The thing that carries checks, while it counts: a value of that version, a decision in force, an unfinished task."""
    try:
        text, since = _text_and_change(reads, stream, carried)
    except NotFound:
        return None
    if since is None:
        return None
    task = int(carried.name) if carried.thing is Thing.TASK else 0
    return CheckedThing(carried.thing.value, carried.name, text, Carrier(stream, carried.checks, since, task))


def _text_and_change(reads: Reads, stream: Stream, carried: Carried) -> tuple[str, int | None]:
    """The text of a thing, and when it was last changed; None: it counts no more."""
    if carried.thing is Thing.VALUE:
        entry = values.entry(reads, stream, carried.name)
        if entry is None or entry.version != carried.version:
            return "", None
        text = entry.value if isinstance(entry.value, str) else encode(entry.value).decode()
        return text, instant_us(entry.updated_at, 0)
    if carried.thing is Thing.DECISION:
        decision = decisions.decision(reads, stream, int(carried.name))
        counts = decision.status is not DecisionStatus.SUPERSEDED
        return decision.text, instant_us(decision.changed_at, 0) if counts else None
    task = tasks.task(reads, stream, int(carried.name))
    return task.title, instant_us(task.changed_at, 0) if task.status in tasks.UNFINISHED else None


def _abandoned(core: Core, tenant: int) -> Iterator[Stood]:
    """Tasks that say that they are being done, by somebody who is gone."""
    after: str | None = None
    while True:
        page = core.read(tasks.tasks_of_store, TaskFilters(status=TaskStatus.DOING, after=after), tenant=tenant)
        yield from (_abandoned_task(stream, task) for stream, task in page if task.abandoned)
        after = page.next
        if after is None:
            return


def _abandoned_task(stream: Stream, task: TaskRecord) -> Stood:
    check = ClaimerAlive(task.id)
    carrier = Carrier(stream, (check,), instant_us(task.changed_at, 0), task.id)
    return Stood(CheckedThing("task", str(task.id), task.title, carrier), (CheckResult(check, Validity.STALE, _GONE),))
