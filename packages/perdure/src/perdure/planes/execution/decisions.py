"""Decisions: what was decided, why, what is to follow, what came of it. Written before it is acted upon.

    open ── close(outcome) ──▶ closed ── supersede ──▶ superseded (its outcome stays)
      └────────────── supersede ───────────────────────────▲

A decision is superseded once, by a new one that is made in the same commit; each names the other. A closed
one may be superseded too: that it worked once does not mean that it is still right. Keeps P5, P9, P10, P11.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

from perdure.errors import Conflict, Invalid, NotFound
from perdure.log.change import Change, Op, Stream
from perdure.log.derive import REFS
from perdure.model.filters import DecisionFilters, SessionDecisionFilters
from perdure.model.instants import to_datetime
from perdure.model.limits import check_page, check_text
from perdure.model.records.decisions import DecisionRecord, DecisionStatus, Reference
from perdure.model.refs import Ref
from perdure.planes import subjects
from perdure.planes.memory.checks import Thing
from perdure.planes.memory.checks import put as put_checks
from perdure.planes.reading.body_reading import body_of
from perdure.planes.reading.labels import from_labels, to_labels
from perdure.planes.reading.listing import Listing, rows_of_stream
from perdure.planes.reading.origins import check_seq, settled, to_ref, to_refs
from perdure.planes.reading.paging import Page, decode_cursor, encode_cursor
from perdure.planes.reading.row_reading import (
    stored_fields,
    stored_instant,
    stored_instant_or_none,
    stored_state,
    stored_text,
)
from perdure.planes.tables import DECISIONS, TAGS
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

Q = Statements("perdure.planes.execution", "decisions.sql")

OPEN, CLOSED, SUPERSEDED = DecisionStatus.OPEN, DecisionStatus.CLOSED, DecisionStatus.SUPERSEDED


# -- writing -------------------------------------------------------------------------------------------------


def decide(
    tx: Tx,
    stream: Stream,
    text: str,
    *,
    because: str,
    then: str | None = None,
    refs: Iterable[object] = (),
    tags: Iterable[str] = (),
    checks: Iterable[object] = (),
    about: Iterable[str] = (),
) -> DecisionRecord:
    """Make a decision. Two calls make two decisions. checks: on what it rests. It is about whom its references are, too."""
    doc = _document(text, because, then)
    record = _make(tx, stream, doc, to_refs(tx, stream, refs), to_labels(tags, "tags"), about)
    put_checks(tx, stream, Thing.DECISION, record.seq, checks)
    return record


def close(
    tx: Tx, stream: Stream, seq: int, outcome: str, note: str | None = None, *, about: Iterable[str] = ()
) -> DecisionRecord:
    """Say what came of an open decision. The same outcome again changes nothing; another is a Conflict."""
    _prose(outcome, "outcome")
    if note is not None:
        check_text(note, "note")
    record = decision(tx, stream, seq)
    if record.status is CLOSED and (record.outcome, record.note) == (outcome, note):
        return record
    if record.status is not OPEN:
        raise _conflict(record, f"is {record.status} already")
    doc = {"outcome": outcome} | ({} if note is None else {"note": note})
    columns = {"status": CLOSED.value, "changed_at": tx.now, "closed_at": tx.now}
    tx.record(
        Change(
            kind="decision.closed",
            stream=stream,
            table=DECISIONS,
            op=Op.SET,
            key={"seq": seq},
            set=columns,
            doc=doc,
            mark="outcome_seq",
            subjects=subjects.named(about),
        )
    )
    now = to_datetime(tx.now)
    return msgspec.structs.replace(record, status=CLOSED, outcome=outcome, note=note, changed_at=now, closed_at=now)


def supersede(
    tx: Tx,
    stream: Stream,
    seq: int,
    text: str,
    *,
    because: str,
    then: str | None = None,
    refs: Iterable[object] = (),
    tags: Iterable[str] | None = None,
    checks: Iterable[object] = (),
    about: Iterable[str] = (),
) -> tuple[DecisionRecord, DecisionRecord]:
    """Replace a decision by a new one, which refers to it; returns both. Default `tags`: the old ones."""
    doc = _document(text, because, then)
    targets = to_refs(tx, stream, refs)
    old = decision(tx, stream, seq)
    if old.status is SUPERSEDED:
        raise _conflict(old, f"was superseded by {old.superseded_by} already")
    column = to_labels(old.tags if tags is None else tags, "tags")
    new = _make(tx, stream, doc, [settled(tx, stream, old.ref), *targets], column, about, supersedes=seq)
    put_checks(tx, stream, Thing.DECISION, new.seq, checks)
    now = to_datetime(tx.now)
    closed_at = {} if old.closed_at else {"closed_at": tx.now}
    columns = {"status": SUPERSEDED.value, "superseded_by": new.seq, "changed_at": tx.now, **closed_at}
    tx.record(Change("decision.superseded", stream, DECISIONS, Op.SET, {"seq": seq}, columns))
    times = {"changed_at": now, "closed_at": old.closed_at or now}
    return msgspec.structs.replace(old, status=SUPERSEDED, superseded_by=new.seq, **times), new


def _make(
    tx: Tx, stream: Stream, doc: dict[str, str], refs: list[Ref], tags: str, about: Iterable[str], *,
    supersedes: int | None = None,
) -> DecisionRecord:  # fmt: skip
    columns = {
        "status": OPEN.value, "actor": tx.actor, "at": tx.now, "tags": tags, "supersedes": supersedes, "changed_at": tx.now,
    }  # fmt: skip
    refs = list(dict.fromkeys(refs))
    subject_names = sorted({*subjects.named(about), *subjects.of_refs(tx, refs)})
    seq = tx.record(Change("decision.made", stream, DECISIONS, set=columns, doc=doc, refs=refs, subjects=subject_names))
    return DecisionRecord(
        seq=seq, session=stream.name, text=doc["text"], because=doc["because"], then=doc.get("then"), status=OPEN,
        outcome=None, note=None, tags=from_labels(tags), actor=tx.actor, at=to_datetime(tx.now),
        supersedes=supersedes, superseded_by=None, refs=tuple(refs), ref=stream.ref(seq),
        changed_at=to_datetime(tx.now),
    )  # fmt: skip


def _document(text: str, because: str, then: str | None) -> dict[str, str]:
    doc = {"text": _prose(text, "text"), "because": _prose(because, "because")}
    return doc if then is None else doc | {"then": check_text(then, "then")}


def _prose(text: object, path: str) -> str:
    checked = check_text(text, path)
    if not checked.strip():
        raise Invalid("this cannot be empty", path=path)
    return checked


def _conflict(record: DecisionRecord, what: str) -> Conflict:
    facts = {"status": record.status.value, "outcome": record.outcome, "superseded_by": record.superseded_by}
    return Conflict(f"decision {record.seq} {what}", path="decision", **facts)


# -- reading -------------------------------------------------------------------------------------------------


def decision(reads: Reads, stream: Stream, seq: int) -> DecisionRecord:
    """One decision of a session. NotFound if there is none with this number."""
    check_seq(seq, "decision")
    rows = reads.query(Q.decision_get, touches=[(DECISIONS, stream.id)], stream=stream.id, seq=seq)
    if not rows:
        raise NotFound(f"{stream.kind} {stream.name!r} has no decision {seq}", path="decision")
    return _record(reads, stream, rows[0])


def decisions(reads: Reads, stream: Stream, asked: SessionDecisionFilters) -> Page[DecisionRecord]:
    """The decisions of a session, newest first: all, those left open, or (False) those that are not."""
    only = {
        "status": OPEN.value if asked.open is True else None,
        "status_not": OPEN.value if asked.open is False else None,
    }
    touches = [(DECISIONS, stream.id), (TAGS, stream.id)]
    about = subjects.wanted_here(reads, stream.id, asked.about)
    return rows_of_stream(reads, Q.decisions_of_session, stream, asked, touches, _record, about=about, **only)


def decisions_of_store(reads: Reads, asked: DecisionFilters) -> Page[tuple[Stream, DecisionRecord]]:
    """The decisions of this tenant in all sessions, newest first, each with the stream that it belongs to."""
    listing = Listing(reads, asked)
    return listing.page(reads.query(Q.decisions_of_store, **listing.asked), partial(_record, reads), at=3, number=0)


def _record(reads: Reads, stream: Stream, row: tuple[Any, ...]) -> DecisionRecord:
    seq, status, actor, at, tags, supersedes, superseded_by, changed_at, closed_at, opening, closed = row
    where = f"{stream.name} seq {seq}"
    body = body_of(reads, opening, where)
    doc = stored_fields(body.doc, where)
    end = stored_fields(body_of(reads, closed, where).doc, where)
    return DecisionRecord(
        seq=seq, session=stream.name, text=stored_text(doc, "text", where) or "",
        because=stored_text(doc, "because", where) or "", then=stored_text(doc, "then", where),
        status=stored_state(DecisionStatus, status, where), outcome=stored_text(end, "outcome", where),
        note=stored_text(end, "note", where), tags=from_labels(tags, where), actor=actor, at=stored_instant(at, where),
        supersedes=supersedes, superseded_by=superseded_by, refs=tuple(body.refs), ref=stream.ref(seq),
        changed_at=stored_instant(at if changed_at is None else changed_at, where),
        closed_at=stored_instant_or_none(closed_at, where),
    )  # fmt: skip


def referring(
    reads: Reads, stream: Stream, thing: object, *, limit: int = 100, after: str | None = None
) -> Page[Reference]:
    """The things that refer to a turn, decision, task, artifact or Ref, in all sessions of this tenant."""
    ref = settled(reads, stream, to_ref(thing))
    count = check_page(limit)
    in_stream, seq = (None, None) if after is None else decode_cursor(after, 2)
    rows = reads.query(
        Q.references_page,
        touches=[(REFS, stream.id)],
        tenant=reads.tenant,
        target=bytes.fromhex(ref.uid),
        target_seq=ref.seq,
        after_stream=in_stream,
        after_seq=seq,
        limit=count + 1,
    )
    references = [_reference(row) for row in rows[:count]]
    return Page(references, encode_cursor(*rows[count - 1][3:5]) if len(rows) > count else None)


def _reference(row: tuple[Any, ...]) -> Reference:
    kind, session, uid, _stream, seq, actor, at = row
    when = stored_instant(at, f"{session} seq {seq}")
    return Reference(kind, session, seq, actor, when, Ref(bytes(uid).hex(), seq))
