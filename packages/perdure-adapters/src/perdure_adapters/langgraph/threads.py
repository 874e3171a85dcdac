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
    checkpoints: list[KeyedCheckpoint] = yield Read(_own, (stream, prefix))
    if checkpoints:
        yield WriteIn(stream, _mark, (max(checkpoint.key for checkpoint in checkpoints),))
    yield from _drop(stream, checkpoints)


def _mark(tx: Tx, stream: Stream, key: str) -> None:
    before = values.entry(tx, stream, MARK)
    values.put(tx, stream, MARK, key if before is None else max(key, before.value))


def _drop(stream: Stream, checkpoints: Sequence[KeyedCheckpoint]) -> Asked[None]:
    for page in (checkpoints[start : start + PAGE_ROWS] for start in range(0, len(checkpoints), PAGE_ROWS)):
        yield WriteIn(stream, keyed.drop, ([checkpoint.seq for checkpoint in page],))


def _own(reads: Reads, stream: Stream, prefix: str) -> list[KeyedCheckpoint]:
    return [*keyed.own(reads, stream, prefix)]


# -- pruning -------------------------------------------------------------------------------------------------


def keep_latest(prefix: str, thread: str) -> Asked[None]:
    """Keep the newest checkpoint of each namespace, and those before it that it is rebuilt from."""
    stream = yield from find_session(thread)
    if stream is None:
        return
    checkpoints: list[KeyedCheckpoint] = yield Read(_own, (stream, prefix))
    newest = {checkpoint.name: checkpoint for checkpoint in reversed(checkpoints)}
    needed = yield Read(_needed, (checkpoints, newest.values()))
    yield from _drop(stream, [checkpoint for checkpoint in checkpoints if checkpoint.seq not in needed])


def drop_runs(prefix: str, run_ids: Collection[str]) -> Asked[None]:
    """Let the checkpoints of these runs go, but for those that a kept one is rebuilt from."""
    ids = set(map(str, run_ids))
    streams: dict[str, list[KeyedCheckpoint]] = {}
    after = None
    while ids:
        page: list[KeyedCheckpoint] = yield Read(keyed.page_across, (prefix,), {"after": after})
        for checkpoint in page:
            streams.setdefault(checkpoint.session, []).append(checkpoint)
        if len(page) < keyed.PAGE_ROWS:
            break
        after = page[-1]
    for session, checkpoints in streams.items():
        doomed = {checkpoint.seq for checkpoint in checkpoints if _metadata(checkpoint).get("run_id") in ids}
        if doomed:
            remaining = [checkpoint for checkpoint in checkpoints if checkpoint.seq not in doomed]
            needed = yield Read(_needed, (checkpoints, remaining))
            stream = yield from find_session(session)
            assert stream is not None
            yield from _drop(stream, [checkpoint for checkpoint in checkpoints if checkpoint.seq in doomed - needed])


def _metadata(checkpoint: KeyedCheckpoint) -> dict[str, Any]:
    metadata = checkpoint.document.get("metadata") if isinstance(checkpoint.document, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _needed(reads: Reads, checkpoints: Sequence[KeyedCheckpoint], remaining: Iterable[KeyedCheckpoint]) -> set[int]:
    """The kept checkpoints, and the ancestors that hold what they do not: a delta channel stands whole only now and then."""
    by_key = {(checkpoint.name, checkpoint.key): checkpoint for checkpoint in checkpoints}
    needed: set[int] = set()
    for checkpoint in remaining:
        needed.add(checkpoint.seq)
        needed.update(ancestor.seq for ancestor in _rebuilt_from(reads, checkpoint, by_key))
    return needed


def _rebuilt_from(
    reads: Reads, checkpoint: KeyedCheckpoint, by_key: dict[tuple[str, str], KeyedCheckpoint]
) -> Iterator[KeyedCheckpoint]:
    """The ancestors up to the one at which every channel that this checkpoint does not hold stands whole."""
    lacking = _lacking(checkpoint)
    while lacking and checkpoint.parent_key is not None:
        parent = by_key.get((checkpoint.name, checkpoint.parent_key))
        if parent is None:
            return
        yield parent
        lacking -= keyed.names_in(reads, parent, "values")
        checkpoint = parent


def _lacking(checkpoint: KeyedCheckpoint) -> set[str]:
    """The delta channels that were written to since they stood whole: LangGraph counts for each how often."""
    return set(_metadata(checkpoint).get("counters_since_delta_snapshot") or ())


# -- copying -------------------------------------------------------------------------------------------------


def copy(prefix: str, source: str, target: str) -> Asked[None]:
    """Copy all checkpoints of a thread, and what tasks wrote after them, to another thread."""
    origin = yield from find_session(source)
    if origin is None:
        return
    stream = yield from open_session(target)
    yield WriteIn(stream, keyed.copy, (origin, prefix))
