"""Quarantine: damage that somebody has looked at, recorded so that verify lists it apart instead of failing for ever.

Nothing is deleted or changed, and the stream can still be read as far as it could before. The record names each problem (its
stream, event, table and kind), so other damage in the same stream is found as it was before. Caller: `integrity`. Keeps P6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from perdure.errors import Conflict, Damaged, NotFound, TooLarge
from perdure.log.change import Change, Op
from perdure.model.limits import check_name
from perdure.model.records.integrity import Problem, Report
from perdure.planes.reading.body_reading import doc_of
from perdure.planes.reading.row_reading import stored_as, stored_fields
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

Q = Statements("perdure.planes.audit", "verify.sql")

RECORDED = "store.quarantined"


class ProblemMark(NamedTuple):
    """Names one problem; its message may be worded otherwise by another version."""

    uid: str
    kind: str
    seq: int | None
    table: str


def mark_of(problem: Problem) -> ProblemMark:
    """The mark of a problem."""
    return ProblemMark(problem.uid, problem.kind.value, problem.seq, problem.table)


def select(report: Report, stream: str) -> list[Problem]:
    """The problems of one stream, by its uid or its name."""
    problems = [problem for problem in report.problems if problem.uid and stream in (problem.uid, problem.stream)]
    uids = sorted({problem.uid for problem in problems})
    if not problems:
        raise NotFound(
            f"verify finds nothing wrong with a stream {stream[:80]!r}", path="stream",
            hint="`perdure verify` names damaged streams; damage of the database as a whole needs a backup",
        )  # fmt: skip
    if len(uids) > 1:
        raise Conflict(
            f"{len(uids)} damaged streams have this name", path="stream", hint=f"give one uid: {', '.join(uids[:5])}"
        )
    if report.left_out:
        raise TooLarge("the store has more problems than verify names", path="stream", hint="restore a backup")
    return problems


def record(tx: Tx, problems: list[Problem], because: str) -> None:
    """Record problems of a stream as known damage, in the store's own stream."""
    check_name(because, "because")
    stream = tx.find_stream("store", "store") or tx.new_stream("store", "store")
    marks = [[*mark_of(problem)[1:]] for problem in problems]
    doc = {"uid": problems[0].uid, "name": problems[0].stream, "because": because, "problems": marks}
    tx.record(Change("store.quarantined", stream, None, Op.NOTE, doc=doc))


def quarantined_marks(snapshots: Callable[..., Any]) -> frozenset[ProblemMark]:
    """The marks of all damage that was put into quarantine; none if they cannot be read: then all damage is a problem."""
    try:
        return snapshots(_recorded_marks)
    except Damaged:
        return frozenset()


def _recorded_marks(reads: Any) -> frozenset[ProblemMark]:
    (owner,) = reads.query(Q.tenant_first)[0]
    rows = reads.query(Q.quarantined, kind=RECORDED)
    return frozenset(mark for (body,) in rows for mark in _marks(reads.of_tenant(owner or 0), body))


def _marks(reads: Reads, body: bytes | None) -> list[ProblemMark]:
    doc = stored_fields(doc_of(reads, body, RECORDED), RECORDED)
    problems = stored_as(list[tuple[str, int | None, str]], doc.get("problems", []), "list of problems", RECORDED)
    uid = stored_as(str, doc.get("uid", ""), "uid", RECORDED)
    return [ProblemMark(uid, *problem) for problem in problems]
