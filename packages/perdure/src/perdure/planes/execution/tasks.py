"""Tasks: what is to be done, what waits for what, and who is at it. Keeps P5, P7, P9, P11.

      task()                claim                        done
       ──────▶ todo ───────────────────▶ doing ─────────────────────▶ done
                ▲ ▲ ◀─── release, void ───│ │
        unblock │ │                       │ └── fail ──▶ failed ─┐
                │ └──────── reopen ───────┼──────────────────────┤
             blocked ◀────── block ───────┘                      │
                                                     cancelled ──┘
    todo and blocked take done, fail and cancel too; todo takes block; doing takes cancel.

A claim gives the task to one holder, fenced by a token that grows with every claim. It is *void* when its
time is over, the holder's heartbeat has lapsed (see `presence`), or the holder is proved to be dead: then the task is
as good as todo, and whoever claims it next makes the old token Stale. As long as nobody did, the old claimer may
still finish: nothing was done twice. Anybody may cancel.

A task is ready when all that it needs is done. One that needs a failed or cancelled task is *stuck*: it stays
where it is, `stuck=True` lists it, and the ways out are to reopen what failed, to drop the need
(`needs.unneed`), or to cancel it. Needs and parents never form a cycle (see `needs`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import msgspec

from perdure.errors import Conflict, Invalid, KeyReused, NotFound, Stale, TooLarge
from perdure.log.change import Change, Op, Stream
from perdure.log.table import Table
from perdure.model.filters import SessionTaskFilters, TaskFilters
from perdure.model.instants import to_datetime
from perdure.model.limits import KEY_MAX_CHARS, REFS_MAX, check_name, check_page, check_text
from perdure.model.records.tasks import TaskRecord, TaskStatus
from perdure.model.values import digest, to_plain
from perdure.planes import subjects
from perdure.planes.execution import imported
from perdure.planes.memory.checks import Thing
from perdure.planes.memory.checks import put as put_checks
from perdure.planes.reading.body_reading import body_of, doc_of, stored_value
from perdure.planes.reading.durations import Duration, deadline
from perdure.planes.reading.labels import from_labels, to_labels
from perdure.planes.reading.listing import Listing, rows_of_stream
from perdure.planes.reading.origins import check_seq
from perdure.planes.reading.paging import Page, read_rows
from perdure.planes.reading.row_reading import (
    stored_fields,
    stored_instant,
    stored_instant_or_none,
    stored_numbers,
    stored_state,
    stored_text,
)
from perdure.planes.reading.snapshots import one_state
from perdure.planes.recovery import presence
from perdure.planes.tables import HOLDERS, TAGS, TASK_NEEDS, TASKS
from perdure.stores.batch import EVENTS
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

Q = Statements("perdure.planes.execution", "tasks.sql")

TODO, DOING, BLOCKED = TaskStatus.TODO, TaskStatus.DOING, TaskStatus.BLOCKED
DONE, FAILED, CANCELLED = TaskStatus.DONE, TaskStatus.FAILED, TaskStatus.CANCELLED
UNFINISHED = frozenset({TODO, DOING, BLOCKED})
PRIORITY_MAX = 2**31


class Move(NamedTuple):
    """One arrow of the drawing: the event that it makes, where it may begin, where it ends."""

    kind: str
    sources: frozenset[TaskStatus]
    target: TaskStatus


MOVES = {
    "done": Move("task.done", UNFINISHED, DONE),
    "fail": Move("task.failed", UNFINISHED, FAILED),
    "cancel": Move("task.cancelled", UNFINISHED, CANCELLED),
    "block": Move("task.blocked", frozenset({TODO, DOING}), BLOCKED),
    "unblock": Move("task.unblocked", frozenset({BLOCKED}), TODO),
    "release": Move("task.released", frozenset({DOING}), TODO),
    "reopen": Move("task.reopened", frozenset({FAILED, CANCELLED}), TODO),
}


# -- making --------------------------------------------------------------------------------------------------


def add(
    tx: Tx,
    stream: Stream,
    title: str,
    *,
    needs: Iterable[object] = (),
    parent: object = None,
    priority: int = 0,
    labels: Iterable[str] = (),
    detail: Any = None,
    key: str | None = None,
    checks: Iterable[object] = (),
    about: Iterable[str] = (),
) -> TaskRecord:
    """Write a task down, or with a key that was used before, give the task that stands under it. checks: on what it rests."""
    check_name(title, "title")
    doc = None if detail is None else {"detail": to_plain(detail, "detail")}
    columns: dict[str, Any] = {
        "key": key,
        "status": TODO.value,
        "priority": _priority(priority),
        "title": title,
        "actor": tx.actor,
        "at": tx.now,
        "labels": to_labels(labels),
        "token": 0,
        "changed_at": tx.now,
    }
    existing = None if key is None else _under(tx, stream, check_name(key, "key", KEY_MAX_CHARS))
    if existing is not None:
        return _same(tx, stream, existing, _digest(title, priority, from_labels(columns["labels"]), detail))
    columns["parent"] = None if parent is None else seq_of_task(tx, stream, parent, "parent")
    columns["needs"] = json.dumps(_needed(tx, stream, needs))
    seq = tx.record(Change("task.added", stream, TASKS, set=columns, doc=doc, subjects=subjects.named(about)))
    put_checks(tx, stream, Thing.TASK, seq, checks)
    return TaskRecord(
        id=seq, session=stream.name, title=title, status=TODO, priority=priority, parent=columns["parent"],
        needs=tuple(json.loads(columns["needs"])), labels=from_labels(columns["labels"]), detail=detail, note=None,
        actor=tx.actor, at=to_datetime(tx.now), holder=None, claimed_by=None, claim_expires_at=None, token=0,
        abandoned=False, ref=stream.ref(seq), changed_at=to_datetime(tx.now), key=key,
    )  # fmt: skip


def _under(tx: Tx, stream: Stream, key: str) -> TaskRecord | None:
    rows = tx.query(Q.task_by_key, touches=[(TASKS, stream.id)], stream=stream.id, key=key)
    for seq, copied in rows:
        if copied:
            imported.check_own(tx, stream, key, seq)
        return task(tx, stream, seq)
    return None


def _same(tx: Tx, stream: Stream, existing: TaskRecord, fresh: str) -> TaskRecord:
    """The task that stands, if it was made of the same; it may have been edited since."""
    before = _made_of(tx, stream, existing)
    if before == fresh:
        return existing
    message = f"key {existing.key!r} stands for another input, task {existing.id}"
    raise KeyReused(message, path="key", seq=existing.id, stored=before, given=fresh)


def _made_of(tx: Tx, stream: Stream, existing: TaskRecord) -> str:
    """The digest of what a task was written down with; in a fork, which restates it, of what it was there."""
    rows = tx.query(Q.task_made, touches=[(TASKS, stream.id), (EVENTS, stream.id)], stream=stream.id, seq=existing.id)
    if not rows or rows[0][0] is None:
        return _digest(existing.title, existing.priority, existing.labels, existing.detail)
    where = f"{stream.name} seq {existing.id}"
    columns = body_of(tx, rows[0][0], where).set or {}
    detail = stored_value(stored_fields(doc_of(tx, rows[0][0], where), where).get("detail"), where)
    return _digest(columns["title"], columns["priority"], from_labels(columns["labels"], where), detail)


def _digest(title: str, priority: int, labels: tuple[str, ...], detail: Any) -> str:
    parts = {"title": title, "priority": priority, "labels": list(labels), "detail": detail}
    return digest(parts, "task").hex()


def _priority(priority: object) -> int:
    if type(priority) is not int or abs(priority) >= PRIORITY_MAX:
        raise Invalid(f"expected a whole number, got {priority!r}", path="priority")
    return priority


def _needed(tx: Tx, stream: Stream, needs: Iterable[object]) -> list[int]:
    if isinstance(needs, (str, bytes)) or not isinstance(needs, Iterable):
        raise Invalid(f"expected a list of tasks, got {type(needs).__name__}", path="needs")
    seqs = {seq_of_task(tx, stream, other, f"needs[{i}]") for i, other in enumerate(needs)}
    if len(seqs) > REFS_MAX:
        raise TooLarge(f"{len(seqs)} needs, at most {REFS_MAX} are kept", path="needs")
    return sorted(seqs)


def seq_of_task(tx: Tx, stream: Stream, task: object, path: str) -> int:
    """The number of a task that is given as such or by a handle or record; it must be one of this session."""
    ref = getattr(task, "ref", None)
    if ref is not None and ref.uid != stream.uid.hex():
        raise Invalid("a task of another session cannot be waited for or worked under", path=path)
    seq = check_seq(task if ref is None else ref.seq, path)
    if tx.row(TASKS, stream, seq) is None:
        raise NotFound(f"{stream.kind} {stream.name!r} has no task {seq}", path=path)
    return seq


# -- claiming and moving -------------------------------------------------------------------------------------


def claim(tx: Tx, stream: Stream, seq: int, *, holder: str, ttl: Duration | None = None) -> TaskRecord:
    """Take a task that is todo or abandoned. Conflict names who holds it, or what it still waits for."""
    record = task(tx, stream, seq)
    if record.status is DOING and not record.abandoned:
        raise _held(record)
    if record.status not in (TODO, DOING):
        raise Conflict(f"task {seq} is {record.status}", path="task", status=record.status.value)
    unmet = tx.query(Q.needs_unmet, touches=[(TASKS, stream.id), (TASK_NEEDS, stream.id)], stream=stream.id, seq=seq)
    if unmet:
        waits = ", ".join(f"{other} ({status})" for other, status in unmet)
        raise Conflict(f"task {seq} still waits for {waits}", path="needs", needs=[other for other, _ in unmet])
    return _take(tx, stream, record, holder, ttl)


def claim_next(
    tx: Tx, stream: Stream, *, holder: str, ttl: Duration | None = None, label: str | None = None
) -> TaskRecord | None:
    """Take the first task that is ready; None if none is. Nobody comes between finding and taking."""
    ready_tasks = ready(tx, stream, limit=1, label=label)
    return _take(tx, stream, ready_tasks[0], holder, ttl) if ready_tasks else None


def _take(tx: Tx, stream: Stream, record: TaskRecord, holder: str, ttl: Duration | None) -> TaskRecord:
    expires_at = deadline(tx, ttl)
    columns = {
        "status": DOING.value,
        "holder": holder,
        "claimed_by": tx.actor,
        "claim_expires_at": expires_at,
        "token": record.token + 1,
        "changed_at": tx.now,
    }
    presence.touch_holder(tx, holder, expires_at)
    tx.record(Change("task.claimed", stream, TASKS, Op.SET, {"seq": record.id}, columns))
    return msgspec.structs.replace(
        record,
        status=DOING,
        holder=holder,
        claimed_by=tx.actor,
        claim_expires_at=None if expires_at is None else to_datetime(expires_at),
        token=record.token + 1,
        abandoned=False,
        changed_at=to_datetime(tx.now),
    )


def give_back(tx: Tx, stream: Stream, claimed: TaskRecord) -> None:
    """Release a task of which its claimer never heard. Nothing if it does not stand as it was claimed then."""
    record = task(tx, stream, claimed.id)
    same = ("status", "holder", "token", "changed_at")
    if all(getattr(record, name) == getattr(claimed, name) for name in same):
        move(tx, stream, claimed.id, "release", token=claimed.token)


def move(
    tx: Tx,
    stream: Stream,
    seq: int,
    verb: str,
    *,
    note: str | None = None,
    token: int | None = None,
    about: Iterable[str] = (),
) -> TaskRecord:
    """Follow one arrow of the drawing. A task that is there already, with the same note, is left as it is."""
    arrow = MOVES[verb]
    if note is not None:
        check_text(note, "note")
    record = task(tx, stream, seq)
    if record.status is arrow.target and token in (None, record.token) and note in (None, record.note):
        return record
    fence(record, token, anybody=verb == "cancel")
    if record.status not in arrow.sources:
        hint = "reopen it first" if record.status in (FAILED, CANCELLED) else ""
        raise Conflict(f"task {seq} is {record.status}", path="task", hint=hint, status=record.status.value)
    closed_at = None if arrow.target in UNFINISHED else tx.now
    columns = {
        "status": arrow.target.value, "holder": None, "claimed_by": None, "claim_expires_at": None, "changed_at": tx.now,
        "closed_at": closed_at,
    }  # fmt: skip
    doc, mark = (None, "") if note is None else ({"note": note}, "note_seq")
    tx.record(
        Change(
            kind=arrow.kind,
            stream=stream,
            table=TASKS,
            op=Op.SET,
            key={"seq": seq},
            set=columns,
            doc=doc,
            mark=mark,
            subjects=subjects.named(about),
        )
    )
    return msgspec.structs.replace(
        record, status=arrow.target, holder=None, claimed_by=None, claim_expires_at=None, abandoned=False,
        note=record.note if note is None else note, changed_at=to_datetime(tx.now),
        closed_at=None if closed_at is None else to_datetime(closed_at),
    )  # fmt: skip


def edit(
    tx: Tx,
    stream: Stream,
    seq: int,
    *,
    title: str | None = None,
    priority: int | None = None,
    labels: Iterable[str] | None = None,
    detail: Any = ...,
    token: int | None = None,
    about: Iterable[str] = (),
) -> TaskRecord:
    """Change what a task says; what is not given stays. Nothing is written when nothing changes. Anybody may edit one that
    is not claimed; a claimer must still hold it.
    """
    record = task(tx, stream, seq)
    fence(record, token)
    options: dict[str, Any] = {
        "title": None if title is None else check_name(title, "title"),
        "priority": None if priority is None else _priority(priority),
        "labels": None if labels is None else from_labels(to_labels(labels)),
    }
    changed = {name: value for name, value in options.items() if value is not None and value != getattr(record, name)}
    doc, mark = None, ""
    if detail is not ... and detail != record.detail:
        doc, mark = {"detail": to_plain(detail, "detail")}, "doc_seq"
        changed["detail"] = detail
    if not changed:
        return record
    columns = {
        name: to_labels(value) if name == "labels" else value for name, value in changed.items() if name != "detail"
    }
    columns["changed_at"] = tx.now
    tx.record(
        Change(
            kind="task.edited",
            stream=stream,
            table=TASKS,
            op=Op.SET,
            key={"seq": seq},
            set=columns,
            doc=doc,
            mark=mark,
            subjects=subjects.named(about),
        )
    )
    return msgspec.structs.replace(record, **changed, changed_at=to_datetime(tx.now))


def fence(record: TaskRecord, token: int | None, *, anybody: bool = False) -> None:
    """A caller that claimed a task must still hold it; any other must not move it while somebody does."""
    if token is not None and (record.status is not DOING or record.token != token):
        raise Stale(f"the claim on task {record.id} was lost", path="task", token=record.token, status=record.status)
    if token is None and record.status is DOING and not record.abandoned and not anybody:
        raise _held(record)


def _held(record: TaskRecord) -> Conflict:
    ends = "" if record.claim_expires_at is None else f" until {record.claim_expires_at.isoformat()}"
    return Conflict(
        f"task {record.id} is claimed by {record.claimed_by} ({record.holder}){ends}",
        path="task",
        holder=record.holder,
        claimed_by=record.claimed_by,
        deadline=record.claim_expires_at,
    )


# -- reading -------------------------------------------------------------------------------------------------


def task(reads: Reads, stream: Stream, seq: int) -> TaskRecord:
    """One task of a session. NotFound if there is none with this number."""
    check_seq(seq, "task")
    rows = reads.query(Q.task_get, touches=[(TASKS, stream.id), (HOLDERS, stream.tenant)], stream=stream.id, seq=seq)
    if not rows:
        raise NotFound(f"{stream.kind} {stream.name!r} has no task {seq}", path="task")
    return _record(reads, stream, rows[0])


@one_state
def ready(reads: Reads, stream: Stream, *, limit: int = 20, label: str | None = None) -> Page[TaskRecord]:
    """The tasks that can be begun now: todo or abandoned, all needs done. By priority (higher first), then by age."""
    count = check_page(limit)
    rows = []
    claimers = reads.query(Q.task_claimers, touches=[(TASKS, stream.id)], stream=stream.id)  # dead or alive
    dead = "".join(f"{holder}|" for (holder,) in claimers if reads.clocks.is_dead(holder))
    for status, abandoned in ((TODO, None), (DOING, 1)):
        rows += reads.query(
            Q.tasks_ready,
            touches=_touched(stream),
            stream=stream.id,
            status=status.value,
            abandoned=abandoned,
            dead=f"|{dead}" if abandoned else None,
            label=None if label is None else check_name(label, "label"),
            limit=count,
        )
    rows.sort(key=lambda row: (-row[3], row[0]))
    return read_rows(rows[:count], partial(_record, reads, stream))


def _touched(stream: Stream) -> list[tuple[Table, int]]:
    return [(TASKS, stream.id), (TASK_NEEDS, stream.id), (TAGS, stream.id), (HOLDERS, stream.tenant)]


def tasks(reads: Reads, stream: Stream, asked: SessionTaskFilters) -> Page[TaskRecord]:
    """The tasks of a session, newest first. stuck: only those that need a failed or cancelled task."""
    parent = None if asked.parent is None else check_seq(getattr(asked.parent, "id", asked.parent), "parent")
    about = subjects.wanted_here(reads, stream.id, asked.about)
    touches = _touched(stream)
    return rows_of_stream(reads, Q.tasks_of_session, stream, asked, touches, _record, about=about, parent=parent)


def tasks_of_store(reads: Reads, asked: TaskFilters) -> Page[tuple[Stream, TaskRecord]]:
    """The tasks of this tenant in all sessions, newest first, each with the stream that it belongs to."""
    listing = Listing(reads, asked)
    return listing.page(reads.query(Q.tasks_of_store, **listing.asked), partial(_record, reads), at=8, number=0)


def _record(reads: Reads, stream: Stream, row: tuple[Any, ...]) -> TaskRecord:
    (seq, title, status, priority, parent, needs, labels, actor, at, holder, claimed_by, expires_at, token,
     key, changed_at, closed_at, first_body, note_body, abandoned) = row  # fmt: skip
    where = f"{stream.name} seq {seq}"
    detail = stored_fields(doc_of(reads, first_body, where), where).get("detail")
    note = stored_text(stored_fields(doc_of(reads, note_body, where), where), "note", where)
    void = bool(abandoned) or (status == DOING and reads.clocks.is_dead(holder or ""))
    return TaskRecord(
        id=seq, session=stream.name, title=title, status=stored_state(TaskStatus, status, where),
        priority=priority, parent=parent, needs=stored_numbers(needs, where), labels=from_labels(labels, where),
        detail=stored_value(detail, where), note=note, actor=actor, at=stored_instant(at, where), holder=holder,
        claimed_by=claimed_by, claim_expires_at=stored_instant_or_none(expires_at, where), token=token,
        abandoned=void, ref=stream.ref(seq),
        changed_at=stored_instant(at if changed_at is None else changed_at, where),
        closed_at=stored_instant_or_none(closed_at, where), key=key,
    )  # fmt: skip
