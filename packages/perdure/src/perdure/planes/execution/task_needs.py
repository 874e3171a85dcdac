"""Needs and parents of tasks: which waits for which, which is a part of which. Neither ever closes a cycle.

Beside `work`, which draws the states. The derived table `task_needs` follows the column `needs`. Keeps P5,
P9.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from perdure.errors import Conflict, Invalid, TooLarge
from perdure.log.change import Change, Op, Stream
from perdure.model.instants import to_datetime
from perdure.model.limits import REFS_MAX
from perdure.model.records.tasks import TaskRecord
from perdure.planes.execution.tasks import UNFINISHED, Q, fence, seq_of_task, task
from perdure.planes.tables import TASK_NEEDS, TASKS
from perdure.stores.tx import Tx


def need(tx: Tx, stream: Stream, seq: int, other: object, *, token: int | None = None) -> TaskRecord:
    """Let a task wait for another one too. Invalid spells out the cycle that this would close."""
    record, needed = _changing(tx, stream, seq, token), seq_of_task(tx, stream, other, "needs")
    if needed in record.needs:
        return record
    if len(record.needs) >= REFS_MAX:
        raise TooLarge(f"at most {REFS_MAX} needs are kept", path="needs")
    edges = tx.query(Q.needs_behind, touches=[(TASK_NEEDS, stream.id)], stream=stream.id, seq=needed)
    _refuse_cycle(edges, needed, seq, "needs")
    return _with_needs(tx, stream, record, {*record.needs, needed})


def unneed(tx: Tx, stream: Stream, seq: int, other: object, *, token: int | None = None) -> TaskRecord:
    """Let a task no longer wait for another one. Nothing is written if it does not."""
    record, needed = _changing(tx, stream, seq, token), seq_of_task(tx, stream, other, "needs")
    return _with_needs(tx, stream, record, {*record.needs} - {needed}) if needed in record.needs else record


def _with_needs(tx: Tx, stream: Stream, record: TaskRecord, needs: Iterable[int]) -> TaskRecord:
    column = sorted(needs)
    columns = {"needs": json.dumps(column), "changed_at": tx.now}
    tx.record(Change("task.needs_changed", stream, TASKS, Op.SET, {"seq": record.id}, columns))
    return msgspec.structs.replace(record, needs=tuple(column), changed_at=to_datetime(tx.now))


def put_under(tx: Tx, stream: Stream, seq: int, parent: object, *, token: int | None = None) -> TaskRecord:
    """Make a task a part of another one, or (None) of none. Invalid spells out a cycle."""
    record = _changing(tx, stream, seq, token)
    above = None if parent is None else seq_of_task(tx, stream, parent, "parent")
    if above == record.parent:
        return record
    if above is not None:
        edges = tx.query(Q.parents_above, touches=[(TASKS, stream.id)], stream=stream.id, seq=above)
        _refuse_cycle(edges, above, seq, "parent")
    columns = {"parent": above, "changed_at": tx.now}
    tx.record(Change("task.put_under", stream, TASKS, Op.SET, {"seq": seq}, columns))
    return msgspec.structs.replace(record, parent=above, changed_at=to_datetime(tx.now))


def _changing(tx: Tx, stream: Stream, seq: int, token: int | None) -> TaskRecord:
    record = task(tx, stream, seq)
    if token is not None:
        fence(record, token)
    if record.status not in UNFINISHED:
        raise Conflict(f"task {seq} is {record.status}", path="task", status=record.status.value)
    return record


def _refuse_cycle(edges: Iterable[tuple[Any, ...]], start: int, goal: int, path: str) -> None:
    way = way_between(edges, start, goal)
    if way:
        cycle = [goal, *way]
        spelled = " → ".join(map(str, cycle))
        raise Invalid(f"this would close a cycle: {spelled}", path=path, cycle=cycle)


def way_between(edges: Iterable[tuple[Any, ...]], start: int, goal: int) -> list[int]:
    """The shortest way from one task to another along these edges, both included; empty if there is none."""
    onward: dict[int, list[int]] = {}
    for source, target in edges:
        onward.setdefault(source, []).append(target)
    ways = {start: [start]}
    queue = [start]
    for place in queue:
        if place == goal:
            return ways[place]
        for following in sorted(onward.get(place, ())):
            if following not in ways:
                ways[following] = [*ways[place], following]
                queue.append(following)
    return []
