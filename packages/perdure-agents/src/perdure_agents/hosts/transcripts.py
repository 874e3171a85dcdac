"""Ingesting a host's transcript: each turn once, however often a hook comes, and also when the host was killed before its hook.

The importers read and write; here stands which file, and how far it was read. A mark (lines, size, first bytes) in the scope
`hosts/SESSION` lets a file that has grown cost what is new in it. Losing a mark costs time, never a
turn: turns have keys. Keeps P1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.boot.echoes import without_packs
from perdure.errors import Error
from perdure.runtime.callers import caller_of
from perdure_agents.importers.formats import format_named
from perdure_agents.importers.item_writer import import_items
from perdure_agents.importers.items import ImportedEvent, ImportedResult, ImportedTurn, Item, Remark
from perdure_agents.importers.report import ImportReport, ReportInProgress
from perdure_agents.importers.sources import Source

if TYPE_CHECKING:
    from perdure.handles.sync.store import Store
    from perdure_agents.hosts.workspace import HostWorkspace

HEAD_BYTES = 4_096
OTHERS_MAX = 20  # transcripts of other sessions that are looked at again when one begins


def scope_of(session: str) -> str:
    """The scope with the marks of a workspace."""
    return f"hosts/{session}"


def ingest(
    store: Store, here: HostWorkspace, host: str, format_name: str, path: Path, *, ended: bool = False
) -> ImportReport | None:
    """Bring what is new in a transcript into the store; None if nothing is. Idempotent; after a crash, again completes it.

    ended: its session is over, so nobody looks at it again by itself. A missing file has nothing new.
    """
    marks = store.scope(scope_of(here.session))
    name = f"{host}:{hashlib.sha256(str(path).encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"
    facts = {"path": str(path), "format": format_name, "host": host, "ended": ended}
    before = marks.get(name) or {}
    kind = format_named(format_name)
    now = _state(path)
    if now is None or all(before.get(fact) == now[fact] for fact in ("size", "head")):
        if now is None and not before:
            marks.set(name, facts)
        return None
    tally = ReportInProgress()
    tally.files[format_name] += 1
    grown = before.get("head") == now["head"] and before.get("size", 0) < now["size"]
    fresh = _after(kind.read(Source(path, path.name, is_named=True)), before.get("lines", 0) if grown else 0)
    import_items(caller_of(store), map(_without_packs, fresh), tally, name)
    marks.set(name, {**facts, **now})
    return tally.report(dry_run=False)


def ingest_left(store: Store, here: HostWorkspace, host: str) -> list[ImportReport]:
    """Ingest what sessions of a host left that ended without a word, newest marks first."""
    marks = store.scope(scope_of(here.session))
    unended = [entry for entry in marks.entries(prefix=f"{host}:", limit=1_000) if not (entry.value or {}).get("ended")]
    newest = sorted(unended, key=lambda entry: entry.updated_at, reverse=True)[:OTHERS_MAX]
    reports: list[ImportReport] = []
    for entry in newest:
        facts = entry.value
        report = ingest(store, here, facts["host"], facts["format"], Path(facts["path"]))
        reports += [report] if report is not None else []
    return reports


def _state(path: Path) -> dict[str, Any] | None:
    """How much there is of a file: its size, its whole lines, its first bytes. None if it cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            size, lines = len(head), head.count(b"\n")
            while chunk := file.read(1 << 20):
                size += len(chunk)
                lines += chunk.count(b"\n")
    except OSError:
        return None
    first = head.partition(b"\n")[0]
    return {"size": size, "lines": lines, "head": hashlib.sha256(first).hexdigest()[:16]}


def _without_packs(item: Item | Remark) -> Item | Remark:
    """An item in which the boots that its host was given are kept by name."""
    match item:
        case ImportedTurn() | ImportedResult():
            return msgspec.structs.replace(item, content=without_packs(item.content))
        case ImportedEvent():
            return msgspec.structs.replace(item, data=without_packs(item.data))
        case _:
            return item


def _after(items: Iterator[Item | Remark], lines: int) -> Iterator[Item | Remark]:
    """The items after so many lines. The reading itself begins at the first: the names of calls depend on it."""
    for item in items:
        if (
            not lines
            or not isinstance(item, (ImportedTurn, ImportedResult, ImportedEvent))
            or _line(item.place) > lines
        ):
            yield item


def _line(place: str) -> int:
    number = place.rpartition(":")[2]
    return int(number) if number.isdecimal() else 1 << 62


def label_transcript(store: Store, name: str, label: str) -> None:
    """Let a transcript's session be found by its workspace."""
    try:
        store.session(name).label(label)
    except Error:  # it can still be found by its name
        return
