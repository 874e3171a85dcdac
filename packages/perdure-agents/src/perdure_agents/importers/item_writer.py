"""The one writer: items become turns, results, values, tasks, decisions and emitted events, by the planes' own verbs.

Bounded commits; every item is idempotent by itself: turns and tasks by their keys, results by their calls, and the rest by a
mark that is set in the same commit, in the scope `imported/SESSION`. So importing again adds nothing, a file that has grown
adds what is new, and an import that was killed is finished by running it again (P1, P5). An item that the store refuses is left
out, with its reason. Nobody attends an imported session: it does not read as crashed afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import msgspec

from perdure.errors import Conflict, Error, Invalid, KeyReused
from perdure.log.change import Stream
from perdure.model.records.conversation import Call
from perdure.model.records.tasks import TaskRecord, TaskStatus
from perdure.model.values import digest
from perdure.planes.conversation import emitted, sessions, turns
from perdure.planes.execution import decisions, tasks
from perdure.planes.memory import values
from perdure.stores.tx import Tx
from perdure_agents.importers.items import (
    Decided,
    ImportedEvent,
    ImportedRepair,
    ImportedResult,
    ImportedSession,
    ImportedTurn,
    ImportedValue,
    Item,
    LeftOut,
    PassedOver,
    Planned,
    Remark,
)
from perdure_agents.importers.names import name_of
from perdure_agents.importers.report import ReportInProgress
from perdure_agents.importers.text_repair import mend

BATCH_ITEMS = 200
BATCH_BYTES = 2 * 1024 * 1024
LABEL = "imported"
MARKS = "imported"
SOURCES_MAX = 50  # files of which a value's mark knows what they said last
WORDS: dict[type[Item], str] = {
    ImportedSession: "sessions", ImportedTurn: "turns", ImportedResult: "results", ImportedValue: "values", Planned: "tasks",
    Decided: "decisions",
    ImportedEvent: "events",
}  # fmt: skip
MOVES = {"done": "done", "failed": "fail", "cancelled": "cancel", "blocked": "block"}


class Writer(Protocol):
    """A writer runs a verb in a transaction of its own, and returns after its commit: the caller of a handle."""

    def write(self, verb: Callable[..., Any], /, *args: Any) -> Any:
        """Run it."""
        ...


class ItemOutcome(NamedTuple):
    """The outcome of an item: whether it is new, or why it was left out."""

    item: Item
    added: bool = False
    refused: str = ""


# -- outside the transaction -------------------------------------------------------------------------------------


def import_items(
    caller: Writer | None,
    items: Iterable[Item | Remark],
    tally: ReportInProgress,
    source: str = "",
    after_commit: Callable[[int], None] = lambda _: None,
) -> None:
    """Write items into a store, or (no caller) only count them. Idempotent; after a crash, the same again completes it.

    source: which file it is; after_commit: is called after every commit with how many items it had.
    Raises what the store raises when it cannot continue (Unavailable, Full); what was committed until then stays.
    """
    for batch in _batches(_prepared(items, tally, source)):
        for outcome in caller.write(write, batch) if caller else map(ItemOutcome, batch):
            if outcome.refused:
                tally.leave_out(LeftOut(outcome.item.place, outcome.refused))
            elif caller:
                (tally.added if outcome.added else tally.standing)[WORDS[type(outcome.item)]] += 1
        after_commit(len(batch))


def _prepared(items: Iterable[Item | Remark], tally: ReportInProgress, source: str) -> Iterator[tuple[Item, int]]:
    """Items that can be written, and about how large they are; remarks go to the tally."""
    for item in items:
        match item:
            case LeftOut():
                tally.leave_out(item)
            case ImportedRepair():
                tally.mend(item)
            case PassedOver():
                tally.passed_over[item.what] += 1
            case ImportedValue():
                yield from _mended(msgspec.structs.replace(item, source=source), tally)
            case _:
                yield from _mended(item, tally)


def _mended(item: Item, tally: ReportInProgress) -> Iterator[tuple[Item, int]]:
    fields = {name: getattr(item, name) for name in item.__struct_fields__ if name not in ("origin", "calls")}
    try:
        own = mend(fields)
        calls = [mend([call.id, call.tool, call.args]) for call in getattr(item, "calls", ())]
    except Error as error:
        tally.leave_out(LeftOut(item.place, error.message))
        return
    changed = own.changed + sum(call.changed for call in calls)
    if changed:
        repaired = tuple(Call(*call.value) for call in calls)
        item = msgspec.structs.replace(item, **own.value, **({"calls": repaired} if repaired else {}))
        tally.mend(ImportedRepair(item.place, "characters that no store keeps (NUL, lone surrogates) were replaced"))
    tally.read[WORDS[type(item)]] += 1
    if isinstance(item, ImportedSession):
        tally.session(item.session)
    yield item, own.size + sum(call.size for call in calls)


def _batches(items: Iterable[tuple[Item, int]]) -> Iterator[list[Item]]:
    batch: list[Item] = []
    total = 0
    for item, size in items:
        if batch and (len(batch) == BATCH_ITEMS or total + size > BATCH_BYTES):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += size
    if batch:
        yield batch


# -- inside the transaction --------------------------------------------------------------------------------------


def write(tx: Tx, batch: list[Item]) -> list[ItemOutcome]:
    """The verb: every item, or why not. Each checks everything before it records anything, so a refused one leaves no trace."""
    return [_outcome(tx, item) for item in batch]


def _outcome(tx: Tx, item: Item) -> ItemOutcome:
    try:
        return ItemOutcome(item, _VERBS[type(item)](tx, item))
    except KeyReused as error:
        return ItemOutcome(
            item, refused=f"it stands with other content, at {error.facts.get('seq')}: the first import stays"
        )
    except (Invalid, Conflict) as error:
        return ItemOutcome(item, refused=str(error))


def _session(tx: Tx, name: str) -> Stream:
    return sessions.open_session(tx, name, labels=(LABEL,))[0]


def _open(tx: Tx, item: ImportedSession) -> bool:
    if tx.find_stream("session", item.session) is not None:
        return False
    title = item.title.strip().splitlines()[0][:200] if item.title.strip() else ""
    sessions.open_session(tx, item.session, title=title, labels=(LABEL, item.format))
    return True


def _say(tx: Tx, item: ImportedTurn) -> bool:
    stream = _session(tx, item.session)
    before = tx.seq(stream)
    origin = item.origin.as_document()
    turn = turns.say(tx, stream, item.role, item.content, key=item.key, calls=item.calls, origin=origin)
    return turn.seq > before


def _answer(tx: Tx, item: ImportedResult) -> bool:
    stream = _session(tx, item.session)
    before = tx.seq(stream)
    origin = item.origin.as_document()
    result = turns.result(tx, stream, item.call, item.content, error=item.error, origin=origin)
    return result.seq > before


# Things without a key of their own: a mark beside them says what was imported, and where it stands.


def _marks(tx: Tx, item: ImportedValue | Planned | Decided | ImportedEvent) -> Stream:
    owner = item.session or (item.scope if isinstance(item, ImportedValue) else "")
    return values.open_scope(tx, name_of(MARKS, owner))


def _mark(tx: Tx, marks: Stream, key: str) -> dict[str, Any] | None:
    entry = values.entry(tx, marks, key)
    return entry.value if entry is not None and isinstance(entry.value, dict) else None


def _keep(tx: Tx, item: ImportedValue) -> bool:
    """Set a value, unless this file said the same before; what was changed here since is not overwritten.

    The mark has what each file said last: two files that disagree do not take turns with every import.
    """
    stream = _session(tx, item.session) if item.session else values.open_scope(tx, item.scope)
    marks, key = _marks(tx, item), name_of("value", item.name)
    mark, now = _mark(tx, marks, key) or {}, digest(item.value, "value").hex()
    by_source = mark.get("said") or {}
    if by_source.get(item.source) == now:
        return False
    entry = values.entry(tx, stream, item.name)
    version = entry.version if entry is not None else 0
    is_new = entry is None or digest(entry.value).hex() != now
    if is_new and entry is not None and version != mark.get("version"):
        raise Conflict(f"{item.name!r} was set here by somebody else: it stays as it is")
    if is_new:
        version = values.put(tx, stream, item.name, item.value).version
    last = dict([*by_source.items(), (item.source, now)][-SOURCES_MAX:])
    values.put(tx, marks, key, {"version": version, "said": last})
    return is_new


def _plan(tx: Tx, item: Planned) -> bool:
    """Add a task; one that was imported before follows its status, unless it was moved here since."""
    stream, marks, key = _session(tx, item.session), _marks(tx, item), name_of("task", item.key)
    mark = _mark(tx, marks, key)
    detail = {"origin": item.origin.as_document()} | ({} if item.detail is None else {"detail": item.detail})
    needed = [_mark(tx, marks, name_of("task", need)) or {} for need in item.needs]
    needs = [seq for mark_of_need in needed if (seq := mark_of_need.get("seq")) is not None]
    task = tasks.add(
        tx, stream, item.title, key=item.key, detail=detail, priority=item.priority, labels=item.labels, needs=needs
    )  # fmt: skip
    if mark is not None and mark.get("status") == item.status:
        return False
    if mark is not None and task.status.value != mark.get("status"):
        raise Conflict(f"task {task.id} was moved here to {task.status}: it stays as it is")
    _move(tx, stream, task, item.status)
    values.put(tx, marks, key, {"seq": task.id, "status": item.status})
    return True


def _move(tx: Tx, stream: Stream, task: TaskRecord, status: str) -> None:
    """Bring a task to a status by the arrows that there are. Conflict for one that is done: that stays so."""
    if task.status.value == status:
        return
    if task.status is TaskStatus.DONE:
        raise Conflict(f"task {task.id} is done, and stays so")
    if task.status in (TaskStatus.FAILED, TaskStatus.CANCELLED):
        tasks.move(tx, stream, task.id, "reopen")
    elif task.status is TaskStatus.BLOCKED and status == TaskStatus.TODO:
        tasks.move(tx, stream, task.id, "unblock")
    if status in MOVES:
        tasks.move(tx, stream, task.id, MOVES[status])


def _decide(tx: Tx, item: Decided) -> bool:
    """Make a decision, and close it when its outcome is known."""
    stream, marks, key = _session(tx, item.session), _marks(tx, item), name_of("decision", item.key)
    mark = _mark(tx, marks, key)
    now = digest([item.text, item.because, item.then]).hex()
    if mark is not None and mark.get("digest") != now:
        raise KeyReused("", seq=mark.get("seq"))
    if mark is not None and mark.get("outcome") == item.outcome:
        return False
    if mark:
        seq = mark["seq"]
    else:
        seq = decisions.decide(tx, stream, item.text, because=item.because, then=item.then, tags=item.tags).seq
    if item.outcome is not None:
        decisions.close(tx, stream, seq, item.outcome)
    record = {"seq": seq, "digest": now, "outcome": item.outcome, "origin": item.origin.as_document()}
    values.put(tx, marks, key, record)
    return True


def _note(tx: Tx, item: ImportedEvent) -> bool:
    stream, marks, key = _session(tx, item.session), _marks(tx, item), name_of("happening", item.key)
    if _mark(tx, marks, key) is not None:
        return False
    data = {"origin": item.origin.as_document(), "data": item.data}
    values.put(tx, marks, key, {"seq": emitted.emit(tx, stream, item.kind, data).seq})
    return True


_VERBS: dict[type[Item], Callable[[Tx, Any], bool]] = {
    ImportedSession: _open, ImportedTurn: _say, ImportedResult: _answer, ImportedValue: _keep, Planned: _plan,
    Decided: _decide, ImportedEvent: _note,
}  # fmt: skip
