"""Subjects: whom records are about, how one record has them from another, and who is known (docs/decisions/0035).

A record names its own subjects. It has those of its session, run or scope because it stands in that stream, which a filter looks
at when it reads. It has those of the records that it was derived from because the verb that derives it writes them down
(`of_refs`, `of_range`, `so_far`). Callers: the planes and the handles. Keeps P8: without subjects no verb reads anything for
them.
"""

from __future__ import annotations

from collections.abc import Iterable

from perdure.errors import Invalid, TooLarge
from perdure.log.change import Change, Op, Stream
from perdure.log.subjects import SCOPES, SUBJECTS, subjects_in
from perdure.log.table import Row
from perdure.model.limits import REFS_MAX, check_name, check_page
from perdure.model.records.subjects import SubjectRecord
from perdure.model.refs import Ref
from perdure.planes.reading.lineage import segments, touching
from perdure.planes.reading.paging import Page
from perdure.planes.reading.row_reading import stored_instant
from perdure.planes.tables import COVERS, RUNS, SESSIONS
from perdure.stores.batch import HISTORY
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import LOG, Tx, flushed_spans, is_buffered

Q = Statements("perdure.planes", "subjects.sql")

# -- naming ----------------------------------------------------------------------------------------------------------


def named(about: Iterable[str], path: str = "about") -> tuple[str, ...]:
    """The subjects that a caller names, each once. Invalid and TooLarge name what is wrong."""
    if about == ():  # mostly
        return ()
    if isinstance(about, (str, bytes)) or not isinstance(about, Iterable):
        raise Invalid(f"expected a list of subjects, got {type(about).__name__}", path=path)
    names = tuple(dict.fromkeys(check_name(name, f"{path}[{i}]") for i, name in enumerate(about)))
    if len(names) > REFS_MAX:
        raise TooLarge(f"{len(names)} subjects, at most {REFS_MAX} of one record", path=path)
    return names


def wanted(about: str | None) -> str | None:
    """The subject that a listing is asked for."""
    return None if about is None else check_name(about, "about")


def wanted_here(reads: Reads, stream: int, about: str | None) -> str | None:
    """The subject that a listing of one stream is asked for. None, so no filter, where everything in the stream is about it."""
    subject = wanted(about)
    if subject is None:
        return None
    rows = reads.query(Q.is_whole, touches=[(SUBJECTS, stream)], tenant=reads.tenant, about=subject, stream=stream)
    return None if rows else subject


def in_row(row: Row | None) -> list[str]:
    """The subjects that a row has."""
    return subjects_in(row["about"]) if row is not None else []


def add_to_session(tx: Tx, stream: Stream, about: Iterable[str]) -> tuple[str, ...]:
    """A session, and so everything in it and its runs, is about these too. Those that it has are not written again."""
    new = _lacking(tx.row(SESSIONS, stream), named(about))
    if new:
        tx.record(Change("session.subjects_named", stream, SESSIONS, Op.SET, subjects=new))
        if is_buffered(tx, RUNS):
            tx.relieve()
        for row in tx.query(Q.runs_of_session, tenant=tx.tenant, session=stream.name):
            add_to_run(tx, Stream(*row), new)
    return tuple(in_row(tx.row(SESSIONS, stream)))


def add_to_run(tx: Tx, stream: Stream, about: Iterable[str]) -> tuple[str, ...]:
    """A run, and so everything in it and the runs that it started, is about these too."""
    new = _lacking(tx.row(RUNS, stream), named(about))
    if new:
        tx.record(Change("run.subjects_named", stream, RUNS, Op.SET, subjects=new))
        for row in tx.query(Q.runs_started_by, tenant=tx.tenant, parent=stream.name):
            add_to_run(tx, Stream(*row), new)
    return tuple(in_row(tx.row(RUNS, stream)))


def add_to_scope(tx: Tx, stream: Stream, about: Iterable[str]) -> tuple[str, ...]:
    """A scope, and so everything in it, is about these too."""
    names = named(about)
    before = of_whole(tx, stream)
    new = [subject for subject in names if subject not in before]
    if new:
        tx.record(Change("scope.subjects_named", stream, SCOPES, Op.NOTE, subjects=new))
    return tuple(sorted({*before, *new}))


def _lacking(row: Row | None, names: Iterable[str]) -> list[str]:
    before = set(in_row(row))
    return [subject for subject in names if subject not in before]


# -- inheriting ------------------------------------------------------------------------------------------------------


def of_refs(tx: Tx, refs: Iterable[Ref]) -> list[str]:
    """The subjects of the records that a new one was derived from. One query while the tenant has no subjects."""
    sources = [*refs]
    if not sources or not (is_buffered(tx, SUBJECTS) or tx.query(Q.any_at_all, tenant=tx.tenant)):
        return []
    subjects: set[str] = set()
    for ref in sources:
        for row in tx.query(LOG.stream_by_uid, uid=bytes.fromhex(ref.uid), tenant=tx.tenant):
            stream = Stream(*row).id
            touches = [(SUBJECTS, stream), (HISTORY, stream)]
            subjects.update(subject for (subject,) in tx.query(Q.of_event, touches=touches, stream=stream, seq=ref.seq))
    return sorted(subjects)


def of_range(tx: Tx, stream: Stream, first: int, last: int) -> list[str]:
    """The subjects of a range of turns, and of the summaries that lie in it: what a summary of them is about."""
    subjects: set[str] = set()
    for span in segments(tx, stream):
        touches = [*touching(SUBJECTS, stream, span.stream), *touching(COVERS, stream, span.stream)]
        rows = tx.query(Q.of_range, touches=touches, stream=span.stream, upto=span.last, first=first, last=last)
        subjects.update(subject for (subject,) in rows)
    return sorted(subjects)


def of_whole(reads: Reads, stream: Stream) -> list[str]:
    """The subjects of everything in a session, run or scope."""
    return [subject for (subject,) in reads.query(Q.of_whole, touches=[(SUBJECTS, stream.id)], stream=stream.id)]


def so_far(reads: Reads, stream: Stream, upto: int) -> list[str]:
    """The subjects of all records of a lineage up to one: what a fork from there, or a state that was saved there, is about."""
    subjects: set[str] = set()
    for span in segments(reads, stream, upto):
        touches = touching(SUBJECTS, stream, span.stream)
        rows = reads.query(Q.of_span, touches=touches, stream=span.stream, first=span.first, last=span.last)
        subjects.update(subject for (subject,) in rows)
    return sorted(subjects)


def written(tx: Tx) -> list[str]:
    """The subjects of all that a transaction wrote so far: what an answer that tells of it is about."""
    buffered = [rows for (table, _), rows in tx.buffer.rows.items() if table is SUBJECTS]
    subjects = {row["subject"] for rows in buffered for row in rows.values() if row is not None}
    for stream, (first, last) in flushed_spans(tx).items():
        rows = tx.query(Q.of_span, stream=stream, first=first - 1, last=last)
        subjects.update(subject for (subject,) in rows)
    return sorted(subjects)


# -- asking ----------------------------------------------------------------------------------------------------------


def listed(reads: Reads, *, limit: int = 100, after: str | None = None) -> Page[SubjectRecord]:
    """Everybody and everything that records of this tenant are about, by name."""
    count = check_page(limit)
    start = None if after is None else check_name(after, "after")
    rows = reads.query(Q.subjects_page, tenant=reads.tenant, after=start, limit=count + 1)
    records = [_record(row) for row in rows[:count]]
    return Page(records, records[-1].subject if len(rows) > count else None)


def _record(row: tuple[str, int, int, int, int]) -> SubjectRecord:
    subject, streams, records, first_at, last_at = row
    where = f"subjects {subject}"
    return SubjectRecord(subject, records, streams, stored_instant(first_at, where), stored_instant(last_at, where))
