"""Waits: what a run waits for, opened once at its place and ended once. Keeps P13, P15.

    open ── met (an answer, a signal, the time, a child's end) ──▶ met
      ├──── its time is over ──▶ expired (with its default)
      └──── withdrawn (the run was cancelled, the effect was withdrawn)

Expiry is a predicate on the store's clock; the run itself records it when it continues. Asks and approvals are waits for
people: an answer names who gave it, and is taken once. Callers: the handles.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from perdure.errors import Conflict, Invalid, NotFound
from perdure.log.change import Change, Op, Stream
from perdure.model.filters import AskFilters, filter_params
from perdure.model.instants import instant_us
from perdure.model.limits import check_name, check_page, check_question
from perdure.model.records.effects import EffectError
from perdure.model.records.runs import RunStatus, WaitKind, WaitRecord, WaitState
from perdure.model.values import digest, to_plain
from perdure.planes import subjects
from perdure.planes.execution import runs
from perdure.planes.reading.body_reading import IN_DOCUMENT, doc_of, marked, stored_value
from perdure.planes.reading.durations import Duration, deadline, store_now
from perdure.planes.reading.paging import Page, decode_cursor, encode_cursor, read_rows
from perdure.planes.reading.row_reading import (
    stored_as,
    stored_fields,
    stored_instant,
    stored_instant_or_none,
    stored_state,
)
from perdure.planes.reading.snapshots import one_state
from perdure.planes.tables import EFFECTS, RUNS, SIGNALS, WAITS
from perdure.stores.statements import Statements
from perdure.stores.store import Reads, Rows
from perdure.stores.tx import LOG, Tx

Q = Statements("perdure.planes.execution", "waits.sql")

PEOPLE = frozenset({WaitKind.ASK, WaitKind.APPROVAL})
CHOICES_MAX = 100
YES, NO = "approve", "refuse"


# -- opening -------------------------------------------------------------------------------------------------


def ask_document(question: str, choices: Any, default: Any, detail: Any) -> dict[str, Any]:
    """The question to a person. Invalid names what is wrong."""
    return {
        "question": check_question(question, "question"), "choices": list(_choices(choices)),
        "default": to_plain(default, "default", from_store=True), "detail": to_plain(detail, "detail", from_store=True),
    }  # fmt: skip


def _choices(choices: Any) -> tuple[str, ...]:
    if choices is None:
        return ()
    if isinstance(choices, (str, bytes)) or not isinstance(choices, (list, tuple)) or len(choices) > CHOICES_MAX:
        raise Invalid(f"expected a list of at most {CHOICES_MAX} choices, got {type(choices).__name__}", path="choices")
    return tuple(check_name(choice, f"choices[{i}]") for i, choice in enumerate(choices))


def open_and_take(tx: Tx, stream: Stream, name: str, place: str, timeout: Duration | None, mark: str) -> WaitRecord:
    """Begin to wait for a signal; one that has come already is taken at once."""
    opened = open_for_signal(tx, stream, name, place, timeout, mark)
    return take_signal(tx, stream, opened.seq, name) or opened


def open_for_signal(tx: Tx, stream: Stream, name: str, place: str, timeout: Duration | None, mark: str) -> WaitRecord:
    """Begin to wait for a signal. A signal that has come already is left to the wait whose turn it is."""
    return open_wait(tx, stream, WaitKind.SIGNAL, place=place, name=name, timeout=timeout, mark=mark)


def open_wait(
    tx: Tx,
    stream: Stream,
    kind: WaitKind,
    *,
    place: str | None,
    name: str = "",
    doc: dict[str, Any] | None = None,
    timeout: Duration | None = None,
    effect: int | None = None,
    mark: str | None = None,
    about: Iterable[str] = (),
) -> WaitRecord:
    """Begin to wait. timeout: after it the wait expires. mark: the digest of what is waited for. An approval is about whom the
    effect is.
    """
    columns = {
        "kind": kind.value, "state": WaitState.OPEN.value, "name": name, "place": place, "effect": effect,
        "digest": IN_DOCUMENT, "actor": tx.actor, "at": tx.now, "expires_at": deadline(tx, timeout, "timeout"),
    }  # fmt: skip
    document = {**(doc or {}), "digest": mark or digest([kind.value, name, doc], "wait").hex()}
    subject_names = {
        *subjects.named(about),
        *(() if effect is None else subjects.in_row(tx.row(EFFECTS, stream, effect))),
    }
    seq = tx.record(
        Change(f"{_subject(kind)}.opened", stream, WAITS, set=columns, doc=document, subjects=sorted(subject_names))
    )
    return wait(tx, stream, seq)


def _subject(kind: WaitKind) -> str:
    """The first word of its events: people look for asks."""
    return "ask" if kind in PEOPLE else "run.wait"


# -- ending --------------------------------------------------------------------------------------------------


def meet(tx: Tx, stream: Stream, seq: int, answer: Any, by: str, about: Iterable[str] = ()) -> WaitRecord:
    """The awaited thing has come. Conflict if the wait is over already."""
    return _end(tx, stream, seq, WaitState.MET, answer, by, about)


def expire(tx: Tx, stream: Stream, seq: int, answer: Any) -> WaitRecord:
    """Its time is over: the default stands."""
    return _end(tx, stream, seq, WaitState.EXPIRED, answer, "the clock")


def withdraw(tx: Tx, stream: Stream, seq: int, by: str) -> WaitRecord:
    """Nobody waits for it any more."""
    return _end(tx, stream, seq, WaitState.WITHDRAWN, None, by)


def _end(
    tx: Tx, stream: Stream, seq: int, state: WaitState, answer: Any, by: str, about: Iterable[str] = ()
) -> WaitRecord:
    record = wait(tx, stream, seq)
    if record.state is not WaitState.OPEN:
        message = f"{record.id} is {record.state} already, by {record.met_by}"
        raise Conflict(message, path="ask", state=record.state.value, met_by=record.met_by)
    columns = {"state": state.value, "met_by": by, "met_at": tx.now}
    doc = {"answer": to_plain(answer, "answer")}
    kind = f"{_subject(record.kind)}.{'answered' if state is WaitState.MET else state.value}"
    tx.record(
        Change(
            kind=kind,
            stream=stream,
            table=WAITS,
            op=Op.SET,
            key={"seq": seq},
            set=columns,
            doc=doc,
            mark="outcome_seq",
            subjects=[*about],
        )
    )
    return wait(tx, stream, seq)


def answer(tx: Tx, stream: Stream, seq: int, value: Any, by: str, about: Iterable[str] = ()) -> WaitRecord:
    """A person's answer, once; the run that asked may continue. Conflict if the ask is over; Invalid if it is no choice."""
    check_name(by, "by")
    record = wait(tx, stream, seq)
    if record.kind not in PEOPLE:
        raise NotFound(f"{record.id} is not a question", path="ask")
    if stream.kind == "run":
        runs.check_here(tx, stream)
    if record.state is WaitState.OPEN and is_over(tx, record):
        raise Conflict(f"the time to answer {record.id} is over", path="ask", state="expired")
    if record.choices and value not in record.choices:
        raise Invalid(f"expected one of {', '.join(record.choices)}; got {value!r}", path="answer")
    met = meet(tx, stream, seq, value, by, subjects.named(about))
    if stream.kind == "run":
        runs.wake(tx, stream)
    return met


def expire_if_over(tx: Tx, stream: Stream, seq: int) -> WaitRecord:
    """The wait as it stands: expired with its default, if its time is over by now."""
    record = wait(tx, stream, seq)
    return expire(tx, stream, seq, record.default) if record.state is WaitState.OPEN and is_over(tx, record) else record


def spend(tx: Tx, stream: Stream, effect: int) -> None:
    """An effect is tried anew by a person: the approval that it had was for the attempts before, and binds to it no more."""
    used = for_effect(tx, stream, effect)
    if used is not None:
        tx.record(Change("ask.spent", stream, WAITS, Op.SET, {"seq": used.seq}, {"effect": None}))


def forget(tx: Tx, stream: Stream, seq: int) -> None:
    """A child that had failed is tried again by a person: what was heard of its end counts no more, and is waited for anew."""
    tx.record(Change("run.wait.forgotten", stream, WAITS, Op.SET, {"seq": seq}, {"state": WaitState.WITHDRAWN.value}))


def is_over(reads: Reads, record: WaitRecord) -> bool:
    """Whether the time of a wait is over, on the store's clock."""
    return record.expires_at is not None and instant_us(record.expires_at, 0) <= store_now(reads)


# -- signals -------------------------------------------------------------------------------------------------


def has_signal(reads: Reads, stream: Stream, name: str) -> bool:
    """Whether a signal of a name has come that nobody has taken."""
    return bool(reads.query(Q.signal_next, touches=[(SIGNALS, stream.id)], stream=stream.id, name=name))


def take_signal(tx: Tx, stream: Stream, seq: int, name: str) -> WaitRecord | None:
    """Let a wait take the oldest signal of its name; None if there is none."""
    rows = tx.query(Q.signal_next, touches=[(SIGNALS, stream.id)], stream=stream.id, name=name)
    if not rows:
        return None
    sent, body, sender = rows[0]
    where = f"run {stream.name} signal {sent}"
    payload = stored_value(stored_fields(doc_of(tx, body, where), where).get("payload"), where)
    tx.record(Change("run.signal_taken", stream, SIGNALS, Op.SET, {"seq": sent}, {"taken_by": seq}))
    return meet(tx, stream, seq, payload, sender, subjects.in_row(tx.row(SIGNALS, stream, sent)))


# -- children ------------------------------------------------------------------------------------------------


def start_child(tx: Tx, stream: Stream, request: runs.RunRequest, epoch: int, place: str, mark: str) -> WaitRecord:
    """Start a run of one's own and wait for its end: begun once, whatever crashes.

    After a restore it may have been begun before, and forgotten: it is as wary as its parent, and its effects have the keys
    that they had then, because its uid follows from its parent's and its place.
    """
    uid = hashlib.sha256(b"perdure.child.1\0" + stream.uid + place.encode()).digest()[:16]
    # The uid may be in use by a child that stood here before a retry.
    is_uid_in_use = bool(tx.query(LOG.stream_by_uid, uid=uid, tenant=stream.tenant))
    inherited = (*request.about, *subjects.in_row(tx.row(RUNS, stream)))
    request = request._replace(about=inherited, derived_from=(stream.ref(tx.seq(stream)),))
    child, begun = runs.start(
        tx, request, epoch, None if is_uid_in_use else uid, None if runs.is_known(tx, stream) else 0
    )
    doc = {"question": request.agent}
    opened = open_wait(tx, stream, WaitKind.CHILD, place=place, name=child.name, doc=doc, mark=mark)
    record = begun or runs.run(tx, child)
    if not record.ended:
        return opened
    outcome = _outcome_of(record.status, record.result, record.error)
    return meet(tx, stream, opened.seq, outcome, child.name, subjects.in_row(tx.row(RUNS, child)))


def own_child(reads: Reads, stream: Stream, name: str) -> Stream | None:
    """The run of a name, if this run started it. None if it is not here, or another one's: of a what-if, the other run's."""
    rows = reads.query(runs.Q.run_by_name, tenant=reads.tenant, name=name)
    child = Stream(*rows[0]) if rows else None
    row = None if child is None else reads.row(RUNS, child)
    return child if row is not None and row["parent"] == stream.name else None


def end_run(
    tx: Tx,
    stream: Stream,
    status: RunStatus,
    result: Any = None,
    error: EffectError | None = None,
    blamed: int | str | None = None,
) -> None:
    """A run is over: what it still waited for is withdrawn, and the run that started it is told, in one commit."""
    for pending in waiting(tx, stream):
        withdraw(tx, stream, pending.seq, "the end of the run")
    runs.finish(tx, stream, status, result, error, blamed)
    tell_parent(tx, stream, status, result, error)


def tell_parent(tx: Tx, stream: Stream, status: RunStatus, result: Any, error: EffectError | None) -> None:
    """Meet the wait of the run that started this one, if it is still open."""
    row = tx.row(RUNS, stream)
    if row is None or row["parent"] is None:
        return
    parent = runs.find(tx, row["parent"])
    for open_one in waiting(tx, parent, kind=WaitKind.CHILD, name=stream.name):
        meet(tx, parent, open_one.seq, _outcome_of(status, result, error), stream.name, subjects.in_row(row))
        runs.wake(tx, parent)


def _outcome_of(status: RunStatus, result: Any, error: EffectError | None) -> dict[str, Any]:
    """The word that a parent hears of the end of its child."""
    if error is None:
        return {"status": status.value, "result": result}
    return {"status": status.value, "error": [error.code, error.message]}


# -- reading -------------------------------------------------------------------------------------------------


def wait(reads: Reads, stream: Stream, seq: int) -> WaitRecord:
    """One wait. NotFound if there is none with this number."""
    records = _waits(reads, stream, seq=seq)
    if not records:
        hint = "`perdure asks` lists them"
        raise NotFound(f"{stream.kind} {stream.name!r} has no ask {seq}", path="ask", hint=hint)
    return records[0]


def waiting(reads: Reads, stream: Stream, *, kind: WaitKind | None = None, name: str | None = None) -> list[WaitRecord]:
    """The open waits of a run."""
    return _waits(reads, stream, open=1, kind=None if kind is None else kind.value, name=name)


def waits(reads: Reads, stream: Stream, after: int = 0) -> list[WaitRecord]:
    """All waits of a run after an event, ended ones included."""
    return _waits(reads, stream, after=after)


def of_name(reads: Reads, stream: Stream, kind: WaitKind, name: str) -> list[WaitRecord]:
    """The waits of a run of one kind and name, ended ones included."""
    return _waits(reads, stream, kind=kind.value, name=name)


def ends(reads: Reads, stream: Stream, after: int = 0) -> dict[int, int]:
    """After which event each wait of a run that was opened after an event was over, by number."""
    return dict(reads.query(Q.waits_ended, touches=[(WAITS, stream.id)], stream=stream.id, after=after))


def answer_with(ask: WaitRecord) -> str:
    """The command that answers what a person is asked. The choice is left to be filled in: pasted, it chooses none."""
    command = f"perdure answer {shlex.quote(ask.id)}"
    if not ask.choices:
        return f"`{command} TEXT`"
    return f"`{command} CHOICE` ({' or '.join(map(shlex.quote, ask.choices))})"


def for_effect(reads: Reads, stream: Stream, effect: int) -> WaitRecord | None:
    """The newest approval that was asked for an effect."""
    records = _waits(reads, stream, effect=effect)
    return records[-1] if records else None


def next_expiry(reads: Reads, stream: Stream, awaited: Collection[int]) -> int | None:
    """When the next open wait of a run expires. One whose time is over counts only if it is awaited: nobody ends any other."""
    rows = reads.query(Q.waits_expiring, touches=[(WAITS, stream.id)], stream=stream.id)
    now_us = store_now(reads) if rows else 0
    return min((at for seq, at in rows if seq in awaited or at > now_us), default=None)


def _waits(reads: Reads, stream: Stream, **filters: Any) -> list[WaitRecord]:
    params = dict.fromkeys(("seq", "effect", "after", "open", "kind", "name")) | filters
    rows = reads.query(Q.wait_get, touches=[(WAITS, stream.id)], stream=stream.id, **params)
    return [_record(reads, stream, row) for row in rows]


@one_state
def asks(reads: Reads, asked: AskFilters) -> Page[WaitRecord]:
    """The questions to people, newest first. An ask that can no longer be met is not open: one whose time is over is expired,
    whether or not its run has recorded that, and one whose run is elsewhere is not listed.
    """
    count = check_page(asked.limit)
    rows = [row for kind in sorted(PEOPLE) for row in _ask_rows(reads, kind, asked, count + 1)]
    newest = sorted(rows, key=_cursor_of, reverse=True)
    now_us = store_now(reads) if newest else 0
    more = encode_cursor(*_cursor_of(newest[count - 1])) if len(newest) > count else None
    return read_rows(newest[:count], lambda row: _at(now_us, _record(reads, Stream(*row[14:]), row[:14])), more)


def _cursor_of(row: tuple[Any, ...]) -> tuple[int, int, int]:
    """The place of a row of `waits_of_store` in the order of time: its instant, stream and number."""
    return row[8], row[14], row[0]


def _ask_rows(reads: Reads, kind: WaitKind, options: AskFilters, limit: int) -> Rows:
    """The rows of one kind: for each there is an index."""
    at, in_stream, seq = (None, None, None) if options.after is None else decode_cursor(options.after, 3)
    filters = filter_params(options)
    state = filters.pop("state")
    return reads.query(
        Q.waits_of_store,
        tenant=reads.tenant,
        kind=kind.value,
        state=None if state == WaitState.EXPIRED else state,
        open=1 if state == WaitState.OPEN else None,
        expired=1 if state == WaitState.EXPIRED else None,
        after_at=at,
        after_stream=in_stream,
        after_seq=seq,
        limit=limit,
        **filters,
    )


def _at(now_us: int, record: WaitRecord) -> WaitRecord:
    """A wait as it stands at an instant."""
    if record.state is WaitState.OPEN and record.expires_at is not None and instant_us(record.expires_at, 0) <= now_us:
        return msgspec.structs.replace(record, state=WaitState.EXPIRED)
    return record


def _record(reads: Reads, stream: Stream, row: tuple[Any, ...]) -> WaitRecord:
    seq, kind, state, name, place, effect, mark, actor, at, expires_at, met_by, met_at, opened, ended = row
    where = f"{stream.kind} {stream.name} wait {seq}"
    doc = stored_fields(doc_of(reads, opened, where), where)
    outcome = stored_fields(doc_of(reads, ended, where), where)
    choices = stored_as(tuple[str, ...], doc.get("choices") or (), "list of choices", where)
    return WaitRecord(
        seq=seq, stream_kind=stream.kind, stream=stream.name, kind=stored_state(WaitKind, kind, where),
        state=stored_state(WaitState, state, where), name=name, question=str(doc.get("question") or ""),
        choices=choices, default=stored_value(doc.get("default"), where),
        detail=stored_value(doc.get("detail"), where), place=place, effect=effect, digest=marked(mark, doc),
        actor=actor, at=stored_instant(at, where), expires_at=stored_instant_or_none(expires_at, where),
        met_by=met_by, met_at=stored_instant_or_none(met_at, where),
        answer=stored_value(outcome.get("answer"), where), ref=stream.ref(seq),
    )  # fmt: skip
