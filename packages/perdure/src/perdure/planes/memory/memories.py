"""Memories: what is known beyond a run, where it came from, and for which time it holds.

    live ── supersede ──▶ superseded (by a new memory of the same stream; each names the other)
      └──── forget ─────▶ forgotten (its text stays in the log, and is found no more)

Nothing is merged, changed or deleted by a guess: both arrows are somebody's act. A memory that holds no longer
since some time stays what was known then. Callers: the handles. Keeps P5, P9, P10, P11.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from perdure.errors import Conflict, Invalid, KeyReused, NotFound, TooLarge
from perdure.log.change import Change, Op, Stream
from perdure.log.subjects import as_column
from perdure.model.filters import MemoryFilters, OwnMemoryFilters
from perdure.model.instants import Instant, instant_us, to_datetime
from perdure.model.limits import KEY_MAX_CHARS, REFS_MAX, check_name, check_one_of, check_text
from perdure.model.records.memories import MemoryKind, MemoryRecord, MemoryStatus
from perdure.model.refs import Ref
from perdure.planes import subjects
from perdure.planes.memory.checks import from_stored, to_stored
from perdure.planes.reading.body_reading import body_of
from perdure.planes.reading.labels import from_labels, to_labels
from perdure.planes.reading.listing import Listing, rows_of_stream
from perdure.planes.reading.origins import check_seq, settled, to_ref, to_refs
from perdure.planes.reading.paging import Page
from perdure.planes.reading.row_reading import (
    stored_as,
    stored_fields,
    stored_instant,
    stored_instant_or_none,
    stored_state,
    stored_text,
)
from perdure.planes.tables import MEMORIES, MEMORY_USES, TAGS
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

Q = Statements("perdure.planes.memory", "memories.sql")

LIVE, SUPERSEDED, FORGOTTEN = MemoryStatus.LIVE, MemoryStatus.SUPERSEDED, MemoryStatus.FORGOTTEN
SOURCE_MAX_CHARS = 2_000
_SOURCES = ("file:", "commit:", "http://", "https://", "run:", "import:")


class Draft(NamedTuple):
    """A memory that was checked and is not written yet."""

    columns: dict[str, Any]
    doc: dict[str, Any]
    refs: list[Ref]
    about: list[str]


# -- writing -------------------------------------------------------------------------------------------------


def remember(
    tx: Tx,
    stream: Stream,
    text: str,
    *,
    kind: str = "fact",
    key: str | None = None,
    source: Iterable[object] = (),
    about: Iterable[str] = (),
    tags: Iterable[str] = (),
    confidence: float | None = None,
    valid_from: Instant | None = None,
    valid_to: Instant | None = None,
    checks: Iterable[object] = (),
) -> MemoryRecord:
    """Write a memory down, or with a key that was used before, give the memory that stands under it."""
    draft = _draft(tx, stream, text, kind, source, about, tags, confidence, valid_from, valid_to, checks)
    existing = None if key is None else _under(tx, stream, check_name(key, "key", KEY_MAX_CHARS))
    if existing is not None:
        return _same(existing, draft)
    return _make(tx, stream, draft, key)


def supersede(
    tx: Tx,
    stream: Stream,
    seq: int,
    text: str,
    *,
    because: str,
    key: str | None = None,
    kind: str | None = None,
    source: Iterable[object] = (),
    about: Iterable[str] | None = None,
    tags: Iterable[str] | None = None,
    confidence: float | None = None,
    valid_from: Instant | None = None,
    valid_to: Instant | None = None,
    checks: Iterable[object] = (),
) -> tuple[MemoryRecord, MemoryRecord]:
    """Replace a live memory by a new one that holds from now on, or from `valid_from`; returns both."""
    reason = _prose(because, "because")
    old = memory(tx, stream, seq)
    draft = _draft(
        tx, stream, text, kind or old.kind, source, old.about if about is None else about,
        old.tags if tags is None else tags, confidence, tx.now if valid_from is None else valid_from, valid_to, checks,
    )  # fmt: skip
    existing = None if key is None else _under(tx, stream, check_name(key, "key", KEY_MAX_CHARS))
    if existing is not None:
        if existing.supersedes == seq and old.note in (reason, None):  # None: it was pruned
            return old, _same(existing, draft)
        raise KeyReused(f"key {key!r} stands for memory {existing.seq}", path="key", seq=existing.seq)
    _refuse_over(old)
    draft = draft._replace(refs=[settled(tx, stream, old.ref), *draft.refs])
    new = _make(tx, stream, draft, key, supersedes=seq)
    ends = draft.columns["valid_from"]
    until = ends if old.valid_to is None else min(ends, instant_us(old.valid_to, 0))
    _change(
        tx, stream, seq, "memory.superseded", reason, (), status=SUPERSEDED.value, superseded_by=new.seq, valid_to=until
    )
    over = replace(old, status=SUPERSEDED, superseded_by=new.seq, valid_to=to_datetime(until), note=reason)
    return over, new


def confirm(tx: Tx, stream: Stream, seq: int, because: str | None = None, *, about: Iterable[str] = ()) -> MemoryRecord:
    """Say that a live memory still holds, now."""
    reason = None if because is None else _prose(because, "because")
    record = memory(tx, stream, seq)
    _refuse_over(record)
    _change(tx, stream, seq, "memory.confirmed", reason, about, confirmed_at=tx.now)
    return replace(record, confirmed_at=to_datetime(tx.now), note=record.note if reason is None else reason)


def forget(tx: Tx, stream: Stream, seq: int, because: str, *, about: Iterable[str] = ()) -> MemoryRecord:
    """Let a memory be found no more. Forgetting it again changes nothing."""
    reason = _prose(because, "because")
    record = memory(tx, stream, seq)
    if record.status is FORGOTTEN:
        return record
    if record.status is SUPERSEDED:
        hint = f"forget {record.superseded_by}, or leave it: only recalls of the past (at=) show it"
        raise Conflict(f"memory {seq} was superseded by {record.superseded_by}", path="memory", hint=hint)
    _change(tx, stream, seq, "memory.forgotten", reason, about, status=FORGOTTEN.value)
    return replace(record, status=FORGOTTEN, note=reason)


def count_uses(tx: Tx, used: Iterable[tuple[Stream, int]]) -> None:
    """Note that memories were read. Ephemeral: two who count at once may count one."""
    for stream, seq in used:
        row = tx.row(MEMORY_USES, stream, seq)
        tx.touch(MEMORY_USES, {"memory": seq}, {"uses": row["uses"] + 1 if row else 1, "used_at": tx.now}, stream)


def _draft(
    tx: Tx, stream: Stream, text: str, kind: str, source: Iterable[object], about: Iterable[str], tags: Iterable[str],
    confidence: float | None, valid_from: Instant | None, valid_to: Instant | None, checks: Iterable[object],
) -> Draft:  # fmt: skip
    source_names, refs = _sources(tx, stream, source)
    subject_column = as_column([*from_labels(to_labels(about, "about")), *subjects.of_refs(tx, refs)]) or "[]"
    columns = {
        "kind": check_one_of(MemoryKind, kind, "kind").value,
        "valid_from": None if valid_from is None else instant_us(valid_from, tx.now, "valid_from"),
        "valid_to": None if valid_to is None else instant_us(valid_to, tx.now, "valid_to"),
        "tags": to_labels(tags, "tags"),
        "about": subject_column,
    }
    start, end = columns["valid_from"], columns["valid_to"]
    if start is not None and end is not None and end <= start:
        raise Invalid("valid_to lies before valid_from", path="valid_to")
    doc: dict[str, Any] = {"text": _prose(text, "text")} | ({"sources": source_names} if source_names else {})
    if confidence is not None:
        doc["confidence"] = _confidence(confidence)
    if stored := to_stored(checks):
        doc["checks"] = stored
    return Draft(columns, doc, refs, list(from_labels(subject_column)))


def _make(tx: Tx, stream: Stream, draft: Draft, key: str | None, supersedes: int | None = None) -> MemoryRecord:
    columns = {
        "status": LIVE.value,
        "key": key,
        "actor": tx.actor,
        "at": tx.now,
        "supersedes": supersedes,
        **draft.columns,
    }
    refs = list(dict.fromkeys(draft.refs))
    seq = tx.record(Change(
        "memory.made", stream, MEMORIES, set=columns, doc=draft.doc, refs=refs, subjects=draft.about, derived_from=refs
    ))  # fmt: skip
    return _of(stream, seq, columns, draft.doc, tuple(refs))


def _change(
    tx: Tx, stream: Stream, seq: int, kind: str, reason: str | None, about: Iterable[str], **columns: Any
) -> None:
    doc, mark = ({"because": reason}, "note_seq") if reason is not None else (None, "")
    tx.record(
        Change(
            kind=kind,
            stream=stream,
            table=MEMORIES,
            op=Op.SET,
            key={"seq": seq},
            set=columns,
            doc=doc,
            mark=mark,
            subjects=subjects.named(about),
        )
    )


def _sources(tx: Tx, stream: Stream, source: Iterable[object]) -> tuple[list[str], list[Ref]]:
    if isinstance(source, (str, bytes)) or not isinstance(source, Iterable):
        raise Invalid(f"expected a list of sources, got {type(source).__name__}", path="source")
    items = list(source)
    if len(items) > REFS_MAX:
        raise TooLarge(f"{len(items)} sources, at most {REFS_MAX} are kept", path="source")
    names = [_named_source(item, f"source[{i}]") for i, item in enumerate(items) if isinstance(item, str)]
    refs = [to_ref(item, f"source[{i}]") for i, item in enumerate(items) if not isinstance(item, str)]
    return names, to_refs(tx, stream, refs, "source")


def _named_source(text: str, path: str) -> str:
    name = check_name(text, path, SOURCE_MAX_CHARS)
    if not name.startswith(_SOURCES):
        hint = "name a file, a commit or a page: 'file:src/auth.py', 'commit:1a2b3c', 'https://…'; or pass a turn"
        raise Invalid(f"{name[:60]!r} is no known kind of source", path=path, hint=hint)
    return name


def _confidence(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise Invalid(f"expected a number from 0 to 1, got {value!r}"[:200], path="confidence")
    return float(value)


def _prose(text: object, path: str) -> str:
    checked = check_text(text, path)
    if not checked.strip():
        raise Invalid("this cannot be empty", path=path)
    return checked


def _under(tx: Tx, stream: Stream, key: str) -> MemoryRecord | None:
    rows = tx.query(Q.memory_by_key, touches=[(MEMORIES, stream.id)], stream=stream.id, key=key)
    return memory(tx, stream, rows[0][0]) if rows else None


def _same(existing: MemoryRecord, draft: Draft) -> MemoryRecord:
    """The memory that stands, if it was made of the same. Valid times may be ages, which pass: they are not compared."""
    fresh = (draft.columns["kind"], draft.doc["text"], from_labels(draft.columns["tags"]), tuple(draft.about))
    if fresh == (existing.kind, existing.text, existing.tags, existing.about):
        return existing
    message = f"key {existing.key!r} stands for another input, memory {existing.seq}"
    raise KeyReused(message, path="key", hint="use another key, or supersede that memory", seq=existing.seq)


def _refuse_over(record: MemoryRecord) -> None:
    if record.status is LIVE:
        return
    by = f" by {record.superseded_by}" if record.superseded_by else ""
    message = f"memory {record.seq} is {record.status}{by} already"
    raise Conflict(message, path="memory", status=record.status.value, superseded_by=record.superseded_by)


# -- reading -------------------------------------------------------------------------------------------------


def memory(reads: Reads, stream: Stream, seq: int) -> MemoryRecord:
    """One memory of a session or scope. NotFound if there is none with this number."""
    touches = [(MEMORIES, stream.id), (MEMORY_USES, stream.id)]
    rows = reads.query(Q.memory_get, touches=touches, stream=stream.id, seq=check_seq(seq, "memory"))
    if not rows:
        raise NotFound(f"{stream.kind} {stream.name!r} has no memory {seq}", path="memory")
    return _record(reads, stream, rows[0])


def memories(reads: Reads, stream: Stream, asked: OwnMemoryFilters) -> Page[MemoryRecord]:
    """The memories of one session or scope, newest first; `status=None`: also superseded and forgotten ones."""
    touches = [(MEMORIES, stream.id), (TAGS, stream.id), (MEMORY_USES, stream.id)]
    about = subjects.wanted_here(reads, stream.id, asked.about)
    return rows_of_stream(reads, Q.memories_of_stream, stream, asked, touches, _record, about=about)


def memories_of_store(reads: Reads, asked: MemoryFilters) -> Page[tuple[Stream, MemoryRecord]]:
    """The memories of this tenant in all sessions and scopes, newest first, each with its stream."""
    listing = Listing(reads, asked)
    return listing.page(reads.query(Q.memories_of_store, **listing.asked), partial(_record, reads), at=13, number=0)


def _record(reads: Reads, stream: Stream, row: tuple[Any, ...]) -> MemoryRecord:
    seq, first_body, note_body, uses, used_at, *values = row
    where = f"{stream.name} seq {seq}"
    body = body_of(reads, first_body, where)
    record = _of(
        stream, seq, dict(zip(_COLUMNS, values, strict=True)), stored_fields(body.doc, where), tuple(body.refs)
    )
    if note_body is None and uses is None:
        return record
    note = stored_text(stored_fields(body_of(reads, note_body, where).doc, where), "because", where)
    return replace(record, note=note, uses=uses or 0, used_at=stored_instant_or_none(used_at, where))


_COLUMNS = ("kind", "status", "key", "tags", "about", "valid_from", "valid_to", "actor", "at", "confirmed_at", "supersedes",
            "superseded_by")  # fmt: skip


def _of(stream: Stream, seq: int, columns: dict[str, Any], doc: dict[str, Any], refs: tuple[Ref, ...]) -> MemoryRecord:
    """The memory that a row and the document of its making say."""
    where = f"{stream.name} seq {seq}"
    confidence = doc.get("confidence")
    return MemoryRecord(
        seq=seq, scope=stream.name, scope_kind=stream.kind, kind=stored_state(MemoryKind, columns["kind"], where),
        text=stored_as(str, doc.get("text", ""), "text", where),
        status=stored_state(MemoryStatus, columns["status"], where), key=columns["key"],
        tags=from_labels(columns["tags"], where), about=from_labels(columns["about"], where),
        checks=from_stored(doc["checks"]) if "checks" in doc else (),
        sources=stored_as(tuple[str, ...], doc.get("sources", []), "list of sources", where),
        confidence=None if confidence is None else stored_as(float, confidence, "confidence", where),
        valid_from=stored_instant_or_none(columns["valid_from"], where),
        valid_to=stored_instant_or_none(columns["valid_to"], where), actor=columns["actor"],
        at=stored_instant(columns["at"], where),
        confirmed_at=stored_instant_or_none(columns.get("confirmed_at"), where), supersedes=columns["supersedes"],
        superseded_by=columns.get("superseded_by"), refs=refs, ref=stream.ref(seq),
    )  # fmt: skip
