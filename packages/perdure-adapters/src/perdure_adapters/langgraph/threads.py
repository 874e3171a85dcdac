"""Threads as a whole: deleting, copying and pruning them, and the mark that a deleted one leaves.

The mark is a value of the session, `langgraph.deleted`: the greatest checkpoint id that went. A run that was still writing builds
on one of those, so its next write is refused; a thread that begins anew builds on none. Keeps P5, P15.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from perdure.errors import Conflict
from perdure.log.change import Stream
from perdure.planes.memory import values
from perdure.planes.recovery import keyed
from perdure.planes.recovery.keyed import KeyedCheckpoint, Laid, TaskWrite
from perdure.planes.tables import ENTRIES
from perdure.stores.blobs import BlobRow
from perdure.stores.store import Reads
from perdure.stores.tx import Tx
from perdure_adapters.both import Asked, Read, WriteIn, find_session, open_session

MARK = "langgraph.deleted"
PAGE_ROWS = 200  # taken away in one transaction

# -- writing, with the mark in view --------------------------------------------------------------------------


def save(tx: Tx, stream: Stream, laid: Laid, name: str, key: str, parent: str | None, document: Any) -> int:
    """Save a checkpoint. Conflict if it builds on one that was deleted with its thread."""
    _refuse_deleted(tx, stream, parent)
    return keyed.save(tx, stream, laid, name, key, parent_key=parent, document=document)


def write(
    tx: Tx, stream: Stream, name: str, checkpoint: str, task: str, path: str, writes: Sequence[TaskWrite],
    rows: Sequence[BlobRow],
) -> None:  # fmt: skip
    """Record what a task wrote. Conflict if its checkpoint was deleted with its thread."""
    _refuse_deleted(tx, stream, checkpoint)
    keyed.write(tx, stream, name, checkpoint, task, path, writes, rows)


def _refuse_deleted(tx: Tx, stream: Stream, key: str | None) -> None:
    if key is None or tx.row(ENTRIES, stream, MARK) is None:
        return
    mark = values.entry(tx, stream, MARK)
    if mark is not None and key <= mark.value:
        raise Conflict(
            f"the thread {stream.name!r} was deleted while this run was writing to it",
            path="configurable.thread_id",
            hint="start the thread anew, without a checkpoint_id",
        )


# -- deleting ------------------------------------------------------------------------------------------------


def delete(prefix: str, thread: str) -> Asked[None]:
    """Let all checkpoints of a thread go. The mark comes first: from then on no run brings it back."""
    stream = yield from find_session(thread)
    if stream is None:
        return
    found: list[KeyedCheckpoint] = yield Read(_own, (stream, prefix))
    if found:
        yield WriteIn(stream, _mark, (max(each.key for each in found),))
    yield from _drop(stream, found)


def _mark(tx: Tx, stream: Stream, key: str) -> None:
    before = values.entry(tx, stream, MARK)
    values.put(tx, stream, MARK, key if before is None else max(key, before.value))


def _drop(stream: Stream, found: Sequence[KeyedCheckpoint]) -> Asked[None]:
    for page in (found[start : start + PAGE_ROWS] for start in range(0, len(found), PAGE_ROWS)):
        yield WriteIn(stream, keyed.drop, ([each.seq for each in page],))


def _own(reads: Reads, stream: Stream, prefix: str) -> list[KeyedCheckpoint]:
    return [*keyed.own(reads, stream, prefix)]


# -- pruning -------------------------------------------------------------------------------------------------


def keep_latest(prefix: str, thread: str) -> Asked[None]:
    """Keep the newest checkpoint of each namespace, and those before it that it is rebuilt from."""
    stream = yield from find_session(thread)
    if stream is None:
        return
    found: list[KeyedCheckpoint] = yield Read(_own, (stream, prefix))
    newest = {each.name: each for each in reversed(found)}
    needed = yield Read(_needed, (found, newest.values()))
    yield from _drop(stream, [each for each in found if each.seq not in needed])


def drop_runs(prefix: str, run_ids: Collection[str]) -> Asked[None]:
    """Let the checkpoints of these runs go, but for those that a kept one is rebuilt from."""
    wanted = set(map(str, run_ids))
    streams: dict[str, list[KeyedCheckpoint]] = {}
    after = None
    while wanted:
        page: list[KeyedCheckpoint] = yield Read(keyed.page_across, (prefix,), {"after": after})
        for each in page:
            streams.setdefault(each.session, []).append(each)
        if len(page) < keyed.PAGE_ROWS:
            break
        after = page[-1]
    for session, found in streams.items():
        doomed = {each.seq for each in found if _metadata(each).get("run_id") in wanted}
        if doomed:
            needed = yield Read(_needed, (found, [each for each in found if each.seq not in doomed]))
            stream = yield from find_session(session)
            assert stream is not None
            yield from _drop(stream, [each for each in found if each.seq in doomed - needed])


def _metadata(each: KeyedCheckpoint) -> dict[str, Any]:
    metadata = each.document.get("metadata") if isinstance(each.document, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _needed(reads: Reads, found: Sequence[KeyedCheckpoint], kept: Iterable[KeyedCheckpoint]) -> set[int]:
    """The kept checkpoints, and the ancestors that hold what they do not: a delta channel stands whole only now and then."""
    by_key = {(each.name, each.key): each for each in found}
    needed: set[int] = set()
    for each in kept:
        needed.add(each.seq)
        needed.update(ancestor.seq for ancestor in _rebuilt_from(reads, each, by_key))
    return needed


def _rebuilt_from(
    reads: Reads, each: KeyedCheckpoint, by_key: dict[tuple[str, str], KeyedCheckpoint]
) -> Iterator[KeyedCheckpoint]:
    """The ancestors up to the one at which every channel that this checkpoint does not hold stands whole."""
    lacking = _lacking(each)
    while lacking and each.parent_key is not None:
        parent = by_key.get((each.name, each.parent_key))
        if parent is None:
            return
        yield parent
        lacking -= keyed.names_in(reads, parent, "values")
        each = parent


def _lacking(each: KeyedCheckpoint) -> set[str]:
    """The delta channels that were written to since they stood whole: LangGraph counts for each how often."""
    return set(_metadata(each).get("counters_since_delta_snapshot") or ())


# -- copying -------------------------------------------------------------------------------------------------


def copy(prefix: str, source: str, target: str) -> Asked[None]:
    """Copy all checkpoints of a thread, and what tasks wrote after them, to another thread."""
    found = yield from find_session(source)
    if found is None:
        return
    stream = yield from open_session(target)
    yield WriteIn(stream, keyed.copy, (found, prefix))
