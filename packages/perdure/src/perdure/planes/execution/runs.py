"""Runs: agents at work, each a stream of its own. How they begin, stand and end. Keeps P3, P8, P13.

      start           claim                         finish
       ──▶ ready ───────────────▶ running ─────────────────────▶ completed | failed | cancelled
             ▲   ◀── release ──── │  │  │                              │ retry (failed, cancelled)
             │                    │  │  └── park ──▶ parked ── unpark ─┤
             └── met, woken ── waiting ◀── wait                        ▼
                                                                     ready

The holder of a run is in `leasing`. Its journal is in `steps`, `waits` and, above, the ledger of effects. Callers: the
handles and the worker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from perdure.errors import Conflict, Damaged, KeyReused, NotFound
from perdure.log.change import Change, Op, Stream
from perdure.log.event import Body, encode_body
from perdure.log.table import Row
from perdure.model.filters import RunFilters
from perdure.model.ids import new_uid
from perdure.model.instants import duration_us
from perdure.model.limits import KEY_MAX_CHARS, check_name
from perdure.model.pins import OnChange, check_version
from perdure.model.records.effects import EffectError
from perdure.model.records.runs import ENDED, RunRecord, RunStatus, WhatIf
from perdure.model.refs import Ref
from perdure.model.values import digest, to_plain
from perdure.planes import subjects
from perdure.planes.conversation import sessions
from perdure.planes.execution import imported, parked_runs, pin_columns
from perdure.planes.reading.body_reading import IN_DOCUMENT, doc_of, marked, stored_value
from perdure.planes.reading.durations import Duration, deadline
from perdure.planes.reading.listing import Listing
from perdure.planes.reading.paging import Page
from perdure.planes.reading.row_reading import (
    stored_as,
    stored_fields,
    stored_instant,
    stored_instant_or_none,
    stored_state,
    stored_versions,
)
from perdure.planes.tables import HOLDERS, RUNS, SESSIONS
from perdure.stores.batch import EVENTS
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

Q = Statements("perdure.planes.execution", "runs.sql")

READY, RUNNING, WAITING = RunStatus.READY, RunStatus.RUNNING, RunStatus.WAITING
COMPLETED, FAILED, CANCELLED, PARKED = RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.PARKED
ID_CHARS = 12
SHORTEST = 4  # digits of a name: fewer are more often a slip than a choice
BEGINNING = re.compile(rf"[0-9a-f]{{{SHORTEST},}}", re.ASCII)
ALIKE_SHOWN = 5
BY_PYTHON, NUMBERING = 1, 2  # of branches: `asyncio.wait_for` is one where Python makes a task of it; or never
UNDO_FAILED = "undo"  # why a run is parked that could not undo what it did


class RunRequest(NamedTuple):
    """The arguments with which a run is started."""

    agent: str
    args: Any
    kwargs: Any
    key: str | None = None
    session: str | None = None
    parent: str | None = None
    program: str = ""
    timeout: Duration | None = None
    about: tuple[str, ...] = ()  # whom it is about, besides those of its session
    derived_from: tuple[Ref, ...] = ()  # the event of another run that started it
    pins: Mapping[str, str] | None = None  # the versions of its agent, where that is known
    on_change: OnChange | None = None


# -- starting ------------------------------------------------------------------------------------------------


def start(
    tx: Tx, request: RunRequest, epoch: int, uid: bytes | None = None, known_seq: int | None = None
) -> tuple[Stream, RunRecord | None]:
    """Begin a run, and its session if that is new; or give the one that stands under this key. KeyReused when it was
    started with other arguments. Gives how it stands, too, if it is new: nobody need read that. uid: of its stream, if it
    follows from elsewhere. known_seq: 0 if a store that was restored may have forgotten that it began before.

    Of several who start it at once, the unique key lets one through; the others run again and find it.
    """
    check_name(request.agent, "agent")
    to_plain(request.args, "args", from_store=True)  # refused with its own path, and not as a part of the digest
    mark = digest([request.args, request.kwargs], "args").hex()
    existing = None if request.key is None else _by_key(tx, request.agent, request.key, mark)
    if existing is not None:
        return existing, None
    doc = {"args": to_plain(request.args, "args"), "kwargs": to_plain(request.kwargs, "kwargs"), "digest": mark}
    doc["numbering"] = NUMBERING
    if request.timeout is not None:
        doc["timeout"] = duration_us(request.timeout, "timeout")
    subject_names, versions = {*request.about}, {**(request.pins or {})}
    if request.session is not None:
        session, pinned = sessions.open_session(tx, request.session)
        # Its row was read just now: a run is about whom its session is, at no cost.
        subject_names.update(subjects.in_row(tx.row(SESSIONS, session)))
        if pinned:
            versions = pin_columns.of_session(sessions.get_pins(tx, session)) | versions
    name = new_uid().hex()[:ID_CHARS]
    stream = tx.new_stream("run", name, uid=uid)
    columns = {
        "name": name, "agent": request.agent, "key": request.key, "digest": IN_DOCUMENT, "status": READY.value,
        "session": request.session, "parent": request.parent, "creator": tx.actor, "created_at": tx.now, "wake_at": tx.now,
        "timeout_at": deadline(tx, request.timeout, "timeout"), "token": 0, "claimed_seq": 0, "deaths": 0, "suspect": 0,
        "cancelling": 0, "cuts": 0, "cut_seq": 0, "program": request.program, "pinned": 0, "epoch": epoch,
        "known_seq": known_seq, "pins": pin_columns.to_column(versions), "on_change": request.on_change,
    }  # fmt: skip
    tx.record(Change(
        "run.started", stream, RUNS, set=columns, doc=doc, mark="doc_seq", subjects=sorted(subject_names),
        derived_from=request.derived_from,
    ))  # fmt: skip
    fields = {**columns, "given": encode_body(Body(doc=doc))}  # encoded: its arguments are not the caller's own objects
    return stream, _record(tx, stream, tuple(map(fields.get, SHOWN)))


def _by_key(tx: Tx, agent: str, key: str, mark: str) -> Stream | None:
    check_name(key, "key", KEY_MAX_CHARS)
    rows = tx.query(Q.run_by_key, tenant=tx.tenant, agent=agent, key=key)
    if not rows:
        return None
    *stream_row, copied, column, body = rows[0]
    stream = Stream(*stream_row)
    if copied:
        imported.check_own(tx, stream, key, 1, row_of(tx, stream)["outcome_seq"])
    stored = marked(column, stored_fields(doc_of(tx, body, f"run {stream.name}"), f"run {stream.name}"))
    if stored not in ("", mark):  # "": its arguments were erased, its key was not
        raise KeyReused(
            f"the key {key!r} stands for run {stream.name}, which has other arguments", path="key",
            hint="another run needs another key", run=stream.name, stored=stored, given=mark,
        )  # fmt: skip
    return stream


def find(reads: Reads, name: str) -> Stream:
    """The stream of a run. NotFound if there is none of this name."""
    check_name(name, "run")
    rows = reads.query(Q.run_by_name, tenant=reads.tenant, name=name)
    if not rows:
        raise NotFound(
            f"there is no run {name!r}", path="run", hint=f"`perdure runs` lists them; {SHORTEST} digits are enough"
        )
    return Stream(*rows[0])


def whole_name(reads: Reads, short: str) -> str:
    """The name of the one run that begins so. NotFound if there is none; Conflict, with the candidates, if there are several."""
    if not BEGINNING.fullmatch(check_name(short, "run")):
        return find(reads, short).name
    # No digit comes after f.
    rows = reads.query(Q.run_names_between, tenant=reads.tenant, low=short, high=f"{short}g", limit=ALIKE_SHOWN + 1)
    names = [name for (name,) in rows]
    if short in names or not names:
        return find(reads, short).name
    if len(names) > 1:
        count = f"{len(names)}" if len(names) <= ALIKE_SHOWN else f"more than {ALIKE_SHOWN}"
        message = f"{count} runs begin with {short}: {', '.join(names[:ALIKE_SHOWN])}"
        raise Conflict(message, path="run", hint="give more digits", candidates=names[:ALIKE_SHOWN])
    return names[0]


def is_started(reads: Reads, agent: str, key: str) -> bool:
    """Whether a run of an agent stands under a key."""
    check_name(key, "key", KEY_MAX_CHARS)
    return bool(reads.query(Q.run_by_key, tenant=reads.tenant, agent=agent, key=key))


def find_by_key(reads: Reads, agent: str, key: str) -> Stream:
    """The stream of the run of an agent that was started with a key. NotFound if there is none."""
    check_name(agent, "agent")
    check_name(key, "key", KEY_MAX_CHARS)
    rows = reads.query(Q.run_by_key, tenant=reads.tenant, agent=agent, key=key)
    if not rows:
        raise NotFound(
            f"no run of {agent} was started with the key {key!r}", path="key", hint="`perdure runs` lists them"
        )
    return Stream(*rows[0][:-3])


# -- what a driver says --------------------------------------------------------------------------------------


def wait(tx: Tx, stream: Stream, reason: str, wake_at: int | None, **columns: Any) -> None:
    """The run waits; nobody holds it. wake_at: when it is to be looked at again even if nothing comes."""
    _give_up(tx, stream, "run.waiting", WAITING, reason=reason, wake_at=wake_at, **columns)


def note_held(tx: Tx, stream: Stream, verb: str, place: str, holding: str) -> None:
    """Note that the program waits to do something new, because what is recorded at another place was not reached."""
    tx.record(Change("run.held", stream, op=Op.NOTE, doc={"verb": verb, "place": place, "holding": holding}))


def release(tx: Tx, stream: Stream) -> None:
    """Give a run back that can continue at once, elsewhere."""
    _give_up(tx, stream, "run.released", READY, wake_at=tx.now)


def park(
    tx: Tx,
    stream: Stream,
    reason: str,
    why: str,
    facts: Mapping[str, Any] | None = None,
    program: str | None = None,
    **columns: Any,
) -> None:
    """The machine must not continue by itself. The reason is a short code; `why` and the facts are for people.

    program: the one that did what is recorded, if another was tried with it: the run stays its own, and can be pinned to it.
    """
    doc = {**(facts or {}), "error": {"code": reason, "message": why}}
    columns |= {} if program is None else {"program": program}
    _give_up(tx, stream, "run.parked", PARKED, doc=doc, reason=reason, **columns)


def finish(
    tx: Tx,
    stream: Stream,
    status: RunStatus,
    result: Any = None,
    error: EffectError | None = None,
    blamed: int | str | None = None,
) -> None:
    """The run is over. blamed: the effect, by number, or the step, by place, by whose failure it ended."""
    # It did all that it was to do: a long number that an older version gave it does not make it fail now.
    doc = (
        {"result": to_plain(result, "result", from_store=True)}
        if error is None
        else {"error": msgspec.to_builtins(error)}
    )
    if blamed is not None:
        doc |= blame(blamed)
    _give_up(tx, stream, f"run.{status.value}", status, doc=doc, ended_at=tx.now)


def blame(blamed: int | str) -> dict[str, Any]:
    """By whose failure a run ended, as its outcome says it: what `retry` does anew."""
    return {"effect" if isinstance(blamed, int) else "step": blamed}


def _give_up(tx: Tx, stream: Stream, kind: str, status: RunStatus, *, doc: Any = None, **columns: Any) -> None:
    clear = {"holder": None, "wake_at": None, "suspect": 0, "deaths": 0, "reason": None}
    mark = "" if doc is None else "outcome_seq"
    tx.record(Change(kind, stream, RUNS, Op.SET, set={**clear, "status": status.value, **columns}, doc=doc, mark=mark))


def cut(tx: Tx, stream: Stream, doc: dict[str, Any] | None = None) -> int:
    """Begin the journal anew after what was just recorded; returns the number of the cut. doc: what is noted with it."""
    cuts = row_of(tx, stream)["cuts"] + 1
    tx.record(Change("run.cut", stream, RUNS, Op.SET, set={"cuts": cuts}, doc=doc, mark="cut_seq"))
    return cuts


# -- what people and others say ------------------------------------------------------------------------------


def wake(tx: Tx, stream: Stream) -> None:
    """Something that a waiting run waits for has come: somebody may take it. Any other run is left as it is."""
    if row_of(tx, stream)["status"] == WAITING:
        _set(tx, stream, "run.woken", status=READY.value, wake_at=tx.now, reason=None)


def call_off(tx: Tx, stream: Stream) -> None:
    """Tell a run that it is to end: at its next step if somebody has it, else when somebody takes it. Once is enough."""
    row = row_of(tx, stream)
    if row["cancelling"]:
        return
    freed = {} if row["status"] == RUNNING else {"status": READY.value, "wake_at": tx.now, "reason": None}
    _set(tx, stream, "run.cancelling", cancelling=1, **freed)


def resume(tx: Tx, stream: Stream, vouched: int | None = None) -> None:
    """Let a waiting or parked run be looked at again.

    vouched: the store's epoch, if somebody says that up to here all its external calls are recorded: it is trusted again.
    """
    check_here(tx, stream)
    _reopen(
        tx,
        stream,
        "run.resumed",
        {WAITING, PARKED},
        **({} if vouched is None else {"epoch": vouched, "known_seq": None}),
    )


def unpark(tx: Tx, stream: Stream) -> None:
    """Let a parked run continue; a copy that is over answers here from now on. The one way to take one back that was handed
    over: only if it was adopted nowhere.
    """
    if row_of(tx, stream)["status"] in ENDED and imported.of_stream(tx, stream) is not None:
        imported.take_over(tx, stream)
    else:
        _reopen(tx, stream, "run.unparked", {PARKED})


def retry(tx: Tx, stream: Stream) -> None:
    """Try a run again that failed, was cancelled or is parked: what it did is kept. Its time, if that is over, begins anew."""
    check_here(tx, stream)
    _reopen(
        tx, stream, "run.retried", {FAILED, CANCELLED, PARKED}, ended_at=None, cancelling=0, **_time_anew(tx, stream)
    )


def _time_anew(tx: Tx, stream: Stream) -> dict[str, Any]:
    timeout_at = row_of(tx, stream)["timeout_at"]
    if timeout_at is None or timeout_at > tx.store_now():
        return {}
    timeout_us = _document(tx, stream, 4).get("timeout")
    return {"timeout_at": tx.store_now() + timeout_us if type(timeout_us) is int else None}


def check_here(reads: Reads, stream: Stream) -> None:
    """Conflict for a run that was handed over, and for a copy: another continues it, and it must not continue twice (P3)."""
    if was_moved(reads, stream):
        reason = row_of(reads, stream)["reason"]
        hint = parked_runs.ways_on(stream.name, reason)
        raise Conflict(f"run {stream.name} {parked_runs.AWAY[reason]}", path="run", status=PARKED.value, hint=hint)
    row = row_of(reads, stream)
    if row["status"] in ENDED and imported.is_copy(reads, stream, 1, row["outcome_seq"]):
        hint = parked_runs.ways_on(stream.name, parked_runs.IMPORTED)
        raise Conflict(
            f"run {stream.name} {parked_runs.AWAY[parked_runs.IMPORTED]}", path="run", status=row["status"], hint=hint
        )


def is_known(reads: Reads, stream: Stream) -> bool:
    """Whether all external calls of a run are known here: no restore can have forgotten any of it."""
    row = reads.row(RUNS, stream)
    return row is not None and row["known_seq"] is None


def was_moved(reads: Reads, stream: Stream) -> bool:
    """Whether a run may continue elsewhere: it was handed over and not taken back, or is a copy that nobody let continue here."""
    row = row_of(reads, stream)
    return row["status"] == PARKED and row["reason"] in parked_runs.AWAY


def pin(tx: Tx, stream: Stream, program: str | None) -> None:
    """Let only workers with this very program take the run; None: any. Conflict for a completed one: nobody takes it again."""
    if row_of(tx, stream)["status"] == COMPLETED:
        hint = f"`perdure show {stream.name}` shows its result"
        raise Conflict(f"run {stream.name} is completed: no program takes it again", path="run", hint=hint)
    columns = {"pinned": 0} if program is None else {"pinned": 1, "program": check_name(program, "program")}
    _set(tx, stream, "run.pinned", **columns)


def _reopen(tx: Tx, stream: Stream, kind: str, sources: set[RunStatus], **columns: Any) -> None:
    row = row_of(tx, stream)
    status = RunStatus(row["status"])
    if status is READY:
        return
    if status not in sources:
        ways = " or ".join(sorted(sources))
        raise Conflict(f"run {stream.name} is {status}, not {ways}", path="run", status=status.value)
    columns |= pin_columns.taken_over(row)
    _set(tx, stream, kind, status=READY.value, wake_at=tx.now, reason=None, deaths=0, suspect=0, **columns)


def _set(tx: Tx, stream: Stream, kind: str, **columns: Any) -> None:
    tx.record(Change(kind, stream, RUNS, Op.SET, set=columns))


def row_of(reads: Reads, stream: Stream) -> Row:
    """The row of a run."""
    row = reads.row(RUNS, stream)
    if row is None:
        raise Damaged("the run has no row", path=f"run {stream.name}")
    return row


# -- reading -------------------------------------------------------------------------------------------------


def run(reads: Reads, stream: Stream) -> RunRecord:
    """How a run stands."""
    rows = reads.query(
        Q.run_get, touches=[(RUNS, stream.id), (EVENTS, stream.id), (HOLDERS, stream.tenant)], stream=stream.id
    )
    if not rows:
        raise Damaged("the run has no row", path=f"run {stream.name}")
    return _record(reads, stream, rows[0])


def blamed(reads: Reads, stream: Stream) -> int | str | None:
    """By whose failure a run ended or was parked: an effect by its number, or a step by its place."""
    doc = _document(reads, stream, 5)
    effect, place = doc.get("effect"), doc.get("step")
    return effect if type(effect) is int else place if type(place) is str else None


def interrupted(reads: Reads, stream: Stream) -> list[str]:
    """The places at which a run that is parked as interrupted waits to cancel what it cancelled in an earlier drive."""
    row = row_of(reads, stream)
    if (row["status"], row["reason"]) != (PARKED, parked_runs.INTERRUPTED):
        return []
    return stored_as(list[str], _document(reads, stream, 5).get("interrupted", []), "places", f"run {stream.name}")


def _document(reads: Reads, stream: Stream, column: int) -> dict[str, Any]:
    """The input of a run (4), or its outcome (5)."""
    rows = reads.query(Q.run_get, touches=[(RUNS, stream.id), (EVENTS, stream.id)], stream=stream.id)
    where = f"run {stream.name}"
    return stored_fields(doc_of(reads, rows[0][column], where), where) if rows else {}


def runs_of_store(reads: Reads, asked: RunFilters) -> Page[tuple[Stream, RunRecord]]:
    """The runs of this tenant, newest first, each with its stream. errors: those that failed or are parked, the last trouble
    first: span and order are of when a run went wrong, which may be long after it began.
    """
    listing = Listing(reads, asked, one_each=True)
    listing.asked["version"] = None if asked.version is None else check_version(asked.version)
    if asked.errors:
        rows = reads.query(Q.runs_gone_wrong, **listing.asked)
        return listing.page(rows, lambda stream, row: _record(reads, stream, row[:-1]), len(SHOWN))
    return listing.page(
        reads.query(Q.runs_of_store, **listing.asked), partial(_record, reads), SHOWN.index("created_at")
    )


SHOWN = (
    "name", "agent", "status", "key", "given", "ended", "session", "parent", "creator", "created_at", "ended_at", "wake_at",
    "timeout_at", "holder", "token", "deaths", "suspect", "cancelling", "cuts", "cut_seq", "program", "pinned", "epoch",
    "reason", "abandoned", "outcome_at", "copied", "pins", "pins_change", "on_change",
)  # fmt: skip


def _record(reads: Reads, stream: Stream, row: tuple[Any, ...]) -> RunRecord:
    """A run from what is shown of it, in that order (`run_get`)."""
    (name, agent, status, key, start_body, end_body, session, parent, creator, created_at, ended_at, wake_at, timeout_at, holder,
     token, deaths, suspect, cancelling, cuts, cut_seq, program, pinned, epoch, reason, abandoned, outcome_at, copied, pins,
     pins_change, on_change) = row  # fmt: skip
    where = f"run {stream.name}"
    doc = stored_fields(doc_of(reads, start_body, where), where)
    outcome = stored_fields(doc_of(reads, end_body, where), where)
    args, kwargs = (stored_value(doc.get(name), where) for name in ("args", "kwargs"))
    return RunRecord(
        id=name, agent=agent, status=stored_state(RunStatus, status, where), key=key,
        args=stored_as(list[Any], args, "list of arguments", where),
        kwargs=stored_as(dict[str, Any], kwargs, "arguments by name", where),
        result=stored_value(outcome.get("result"), where),
        error=stored_as(EffectError | None, outcome.get("error"), "error", where), session=session, parent=parent,
        creator=creator, created_at=stored_instant(created_at, where),
        ended_at=stored_instant_or_none(ended_at, where), wake_at=stored_instant_or_none(wake_at, where),
        timeout_at=stored_instant_or_none(timeout_at, where), holder=holder, token=token, deaths=deaths,
        suspect=bool(suspect), cancelling=bool(cancelling), cuts=cuts, cut_seq=cut_seq, program=program,
        pinned=bool(pinned), epoch=epoch, reason=reason, abandoned=bool(abandoned), ref=stream.ref(1),
        what_if=stored_as(WhatIf | None, doc.get("what_if"), "supposition", where),
        hint=stored_as(str, outcome.get("hint", ""), "hint", where),
        outcome_at=stored_instant_or_none(outcome_at, where), copy=bool(copied),
        numbering=stored_as(int, doc.get("numbering", BY_PYTHON), "numbering of branches", where),
        pins=stored_versions(pins, where), pins_change=pin_columns.change_from_column(pins_change, where),
        on_change=None if on_change is None else stored_state(OnChange, on_change, where),
    )  # fmt: skip
