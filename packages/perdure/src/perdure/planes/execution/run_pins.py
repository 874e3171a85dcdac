"""Whether a run may continue under other versions than those that it last had. Keeps P13, P15.

    claim ── the same versions ──────────────────────────▶ it is taken
      └───── others ──┬── continue ──────────────────────▶ it is taken, and one event says what changed
                      ├── park ──▶ parked ── resume ─────▶ accepted: the next claim with them takes it
                      └── ask ───▶ waiting ── continue ──▶ accepted
                                      └────── park ──────▶ parked

The policy is that of the agent that claims it, else the one that its run has. A run that is to end (cancelled, or its time is
over) is taken in any case: it does nothing new. Callers: `leases.claim`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from perdure.log.change import Change, Op, Stream
from perdure.log.table import Row
from perdure.model.pins import Moved, OnChange, Versions, moved, moved_text
from perdure.model.records.runs import PinsChange, PinsDecision, WaitKind, WaitRecord, WaitState
from perdure.model.values import digest
from perdure.planes.conversation import sessions
from perdure.planes.execution import parked_runs, pin_columns, runs, waits
from perdure.planes.tables import RUNS
from perdure.stores.tx import Tx

QUESTION = "versions"  # the name of the wait, and why the run waits
CONTINUE, PARK = "continue", "park"


class AdmittedRun(NamedTuple):
    """The columns that a claim sets besides its own, and what is other than before."""

    columns: dict[str, Any]
    moved: Moved


def admit(tx: Tx, stream: Stream, row: Row, pins: Mapping[str, str], on_change: OnChange | None) -> AdmittedRun | None:
    """Whether a run may be taken by a process that has these versions. None: it was parked, or waits for a person's word."""
    recorded = (row["pins"], row["pins_change"], row["session"])
    if recorded == (None, None, None) and not pins and on_change in (None, row["on_change"]):
        return AdmittedRun({}, {})  # most runs: no version is known, and none was
    versions = {**_of_session(tx, row), **pins}
    before, last = pin_columns.of_row(row)
    differs = moved(before, versions)
    if not row["token"]:  # nothing was done under versions that were unknown when it was started
        differs = {name: pair for name, pair in differs.items() if pair[0] is not None}
    columns = {} if before == versions else {"pins": pin_columns.to_column(versions)}
    if on_change is not None and on_change != row["on_change"]:
        columns["on_change"] = on_change.value
    question = _question(tx, stream, last)
    if not differs:
        return AdmittedRun(columns | _undecided_no_more(tx, stream, last, question), {})
    change = pin_columns.same_change(last, differs)
    if change is None:
        change = PinsChange(1 if last is None else last.number + 1, differs, PinsDecision.UNDECIDED)
        _withdraw(tx, stream, question)
        question = None
    decision = _decided(tx, stream, row, change, question, on_change)
    if decision is PinsDecision.UNDECIDED:
        return None
    _withdraw(tx, stream, question)
    noted = {"pins_change": _column(change, decision)}
    tx.record(
        Change("run.versions_changed", stream, RUNS, Op.SET, set=noted, doc={"moved": differs, "decision": decision})
    )
    return AdmittedRun(columns, differs)


def _of_session(tx: Tx, row: Row) -> Versions:
    return {} if row["session"] is None else pin_columns.of_session(sessions.pins_by_name(tx, row["session"]))


def _undecided_no_more(tx: Tx, stream: Stream, last: PinsChange | None, question: WaitRecord | None) -> dict[str, Any]:
    """The versions are those of before again: nobody need decide."""
    if last is None or last.decision not in pin_columns.OPEN:
        return {}
    _withdraw(tx, stream, question)
    return {"pins_change": _column(last, PinsDecision.WITHDRAWN)}


def _decided(
    tx: Tx, stream: Stream, row: Row, change: PinsChange, question: WaitRecord | None, on_change: OnChange | None
) -> PinsDecision:  # fmt: skip
    """The decision about a change. While it is open, the run waits for it, or is parked."""
    policy = on_change or OnChange(row["on_change"] or OnChange.CONTINUE)
    answer = None if question is None or question.state is not WaitState.MET else question.answer
    if change.decision is PinsDecision.ACCEPTED or answer == CONTINUE:
        return PinsDecision.ACCEPTED
    over = row["timeout_at"] is not None and row["timeout_at"] <= tx.store_now()
    if row["cancelling"] or over or (policy is OnChange.CONTINUE and answer is None):
        return PinsDecision.CONTINUED
    column = _column(change, PinsDecision.UNDECIDED)
    if policy is OnChange.ASK and answer is None:
        if question is None or question.state is not WaitState.OPEN:
            _ask(tx, stream, row, change)
        runs.wait(tx, stream, QUESTION, row["timeout_at"], pins_change=column)
    else:
        _park(tx, stream, change, column)
    return PinsDecision.UNDECIDED


def _ask(tx: Tx, stream: Stream, row: Row, change: PinsChange) -> None:
    question = (
        f"Run {stream.name} of {row['agent']} would continue under other versions ({moved_text(change.moved)}). May it?"
    )
    doc = waits.ask_document(question, [CONTINUE, PARK], None, {"moved": change.moved})
    waits.open_wait(tx, stream, WaitKind.APPROVAL, place=None, name=QUESTION, doc=doc, mark=_mark(change))


def _park(tx: Tx, stream: Stream, change: PinsChange, column: str | None) -> None:
    hint = (
        f"`perdure resume {stream.name}` lets it continue under the new versions, or under its own once they are back; "
        f"`perdure pin {stream.name}` keeps it for the program that drove it"
    )
    why = f"it would continue under other versions: {moved_text(change.moved)}"
    facts = {"hint": hint, "moved": change.moved}
    runs.park(tx, stream, parked_runs.CHANGED, why, facts, pins_change=column)


def _question(tx: Tx, stream: Stream, change: PinsChange | None) -> WaitRecord | None:
    """The question about a change that is not decided, if there is one."""
    if change is None or change.decision is not PinsDecision.UNDECIDED:
        return None
    approvals = waits.of_name(tx, stream, WaitKind.APPROVAL, QUESTION)
    return next((approval for approval in reversed(approvals) if approval.digest == _mark(change)), None)


def _withdraw(tx: Tx, stream: Stream, question: WaitRecord | None) -> None:
    if question is not None and question.state is WaitState.OPEN:
        waits.withdraw(tx, stream, question.seq, "other versions")


def _mark(change: PinsChange) -> str:
    """The mark of a question: of this very change, and not of the same one at another time."""
    return digest([change.number, change.moved], "moved").hex()


def _column(change: PinsChange, decision: PinsDecision) -> str | None:
    return pin_columns.change_to_column(msgspec.structs.replace(change, decision=decision))
