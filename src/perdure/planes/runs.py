"""Runs: agents at work, each a stream of its own, leased to one holder at a time. Keeps P3, P7, P8, P13.

      start           claim                         finish
       ──▶ ready ───────────────▶ running ─────────────────────▶ completed | failed | cancelled
             ▲   ◀── release ──── │  │  │                              │ retry (failed, cancelled)
             │                    │  │  └── park ──▶ parked ── unpark ─┤
             └── met, woken ── waiting ◀── wait                        ▼
                                                                     ready

A lease is void when its holder's heartbeat lapsed or its process is proved dead: then whoever claims next goes on, and the old
token is Stale. The fence costs nothing while nobody else wrote to the stream: see docs/decisions/0007. What a run did (steps,
effects, waits) is its journal. Callers: the handles and the worker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple, TypeVar

import msgspec

from perdure.errors import Conflict, Damaged, Invalid, KeyReused, NotFound, Stale
from perdure.log.change import Change, Op, Stream
from perdure.log.table import Row
from perdure.model.ids import new_uid
from perdure.model.limits import KEY_MAX_CHARS, check_name, check_page
from perdure.model.records.effects import EffectError
from perdure.model.records.runs import RunRecord, RunStatus, StepRecord
from perdure.model.values import digest, to_plain
from perdure.planes import presence
from perdure.planes.documents import doc_of, stored_value
from perdure.planes.paging import Page, decode_cursor, encode_cursor
from perdure.planes.spans import Duration, Instant, between, deadline
from perdure.planes.stored import stored_fields, stored_instant, stored_instant_or_none, stored_state
from perdure.planes.tables import HOLDERS, RUNS, STEPS
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import EVENTS, Tx

Q = Statements("perdure.planes", "runs.sql")
T = TypeVar("T")

READY, RUNNING, WAITING = RunStatus.READY, RunStatus.RUNNING, RunStatus.WAITING
COMPLETED, FAILED, CANCELLED, PARKED = RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.PARKED
DEATHS_MAX = 5  # processes that died with a run, alone and without any progress: then it is parked
ID_CHARS = 12


class Lease:
    """A driver's claim on a run. `seq` is its last own write: while that is the head, nobody else wrote anything."""

    __slots__ = ("cancelling", "disturbed", "first", "holder", "leaving", "seq", "stream", "token")

    def __init__(self, stream: Stream, holder: str, token: int, seq: int) -> None:
        self.stream = stream
        self.holder = holder
        self.token = token
        self.seq = seq
        self.cancelling = False
        self.disturbed = False  # somebody else has written to the stream since: an answer, a signal, a settlement
        self.leaving = False  # its process is about to end: the run is given back at the next thing that it does
        self.first = token == 1  # nobody had it before: there is nothing to replay


class Wanted(NamedTuple):
    """What a run is started with."""

    agent: str
    args: Any
    kwargs: Any
    key: str | None = None
    session: str | None = None
    parent: str | None = None
    program: str = ""
    timeout: Duration | None = None


# -- starting ------------------------------------------------------------------------------------------------


def start(tx: Tx, wanted: Wanted, epoch: int) -> Stream:
    """Begin a run, or give the one that stands under this key. KeyReused when it was started with other arguments.

    Of several who start it at once, the unique key lets one through; the others run again and find it.
    """
    check_name(wanted.agent, "agent")
    doc = {"args": to_plain(wanted.args, "args"), "kwargs": to_plain(wanted.kwargs, "kwargs")}
    mark = digest([wanted.args, wanted.kwargs], "args").hex()
    found = None if wanted.key is None else _by_key(tx, wanted.agent, wanted.key, mark)
    if found is not None:
        return found
    name = new_uid().hex()[:ID_CHARS]
    stream = tx.new_stream("run", name)
    columns = {
        "name": name, "agent": wanted.agent, "key": wanted.key, "digest": mark, "status": READY.value,
        "session": wanted.session, "parent": wanted.parent, "creator": tx.actor, "created_at": tx.now, "wake_at": tx.now,
        "timeout_at": deadline(tx, wanted.timeout, "timeout"), "token": 0, "claimed_seq": 0, "deaths": 0, "suspect": 0,
        "cancelling": 0, "cuts": 0, "cut_seq": 0, "program": wanted.program, "pinned": 0, "epoch": epoch,
    }  # fmt: skip
    tx.record(Change("run.started", stream, RUNS, set=columns, doc=doc, mark="doc_seq"))
    return stream


def _by_key(tx: Tx, agent: str, key: str, mark: str) -> Stream | None:
    check_name(key, "key", KEY_MAX_CHARS)
    rows = tx.query(Q.run_by_key, tenant=tx.tenant, agent=agent, key=key)
    if not rows:
        return None
    *found, stored = rows[0]
    stream = Stream(*found)
    if stored != mark:
        raise KeyReused(
            f"the key {key!r} stands for run {stream.name}, which has other arguments", path="key", run=stream.name,
            stored=stored, given=mark,
        )  # fmt: skip
    return stream


def find(reads: Reads, name: str) -> Stream:
    """The stream of a run. NotFound if there is none of this name."""
    check_name(name, "run")
    rows = reads.query(Q.run_by_name, tenant=reads.tenant, name=name)
    if not rows:
        raise NotFound(f"there is no run {name!r}", path="run", hint="`perdure runs` lists them")
    return Stream(*rows[0])


# -- leasing -------------------------------------------------------------------------------------------------


def claim(
    tx: Tx, stream: Stream, *, holder: str, program: str, epoch: int, dead: Collection[str] = (), alone: bool = True
) -> Lease | None:
    """Take a run: the next token. None when it is not to be had, or is parked instead of being taken once more.

    dead: holders whose processes are proved gone. alone: whether nothing else runs in this process. Whoever's process died
    is a suspect and is only taken alone; a death counts only then, because it is nobody else's.
    """
    row = _row(tx, stream)
    orphaned = row["status"] == RUNNING and _is_void(tx, row["holder"], dead)
    if not orphaned and row["status"] != READY and not _is_due(tx, row):
        return None
    if (row["suspect"] or orphaned) and not alone:
        return None
    deaths = _deaths(tx, stream, row) if orphaned else row["deaths"]
    if deaths >= DEATHS_MAX:
        park(tx, stream, "deaths", f"{deaths} processes died with it, one after the other, without any progress")
        return None
    if row["pinned"] and program != row["program"]:
        return None
    columns = {
        "status": RUNNING.value, "holder": holder, "token": row["token"] + 1, "wake_at": None, "program": program,
        "deaths": deaths, "suspect": int(orphaned or (row["suspect"] and deaths)), "epoch": epoch, "reason": None,
    }  # fmt: skip
    presence.touch_holder(tx, holder)
    kind = "run.recovered" if orphaned else "run.claimed"
    seq = tx.record(Change(kind, stream, RUNS, Op.SET, set=columns, mark="claimed_seq"))
    lease = Lease(stream, holder, columns["token"], seq)
    lease.cancelling = bool(row["cancelling"])
    return lease


def _is_void(reads: Reads, holder: str, dead: Collection[str]) -> bool:
    return holder in dead or not presence.is_alive(reads, holder)


def _is_due(tx: Tx, row: Row) -> bool:
    return row["status"] == WAITING and row["wake_at"] is not None and row["wake_at"] <= tx.store_now()


def _deaths(tx: Tx, stream: Stream, row: Row) -> int:
    """Deaths in a row while it was alone: what was recorded since the last claim is progress, and begins the count anew."""
    if not row["suspect"]:
        return 0
    return row["deaths"] + 1 if tx.seq(stream) == row["claimed_seq"] else 1


def fenced(tx: Tx, lease: Lease, verb: Callable[..., T], *args: Any, **kwargs: Any) -> tuple[T, int]:
    """Run a verb on the leased run, and give its result and the head after it. Stale, and nothing is written, if the
    lease was lost (P7).
    """
    check_lease(tx, lease)
    result = verb(tx, lease.stream, *args, **kwargs)
    return result, tx.seq(lease.stream)


def check_lease(tx: Tx, lease: Lease) -> None:
    """Nothing while the lease holds; the run's row is read only if somebody else wrote to the stream."""
    if tx.seq(lease.stream) == lease.seq:
        return
    lease.disturbed = True
    row = _row(tx, lease.stream)
    lease.cancelling = lease.cancelling or bool(row["cancelling"])
    if row["token"] != lease.token or row["status"] != RUNNING:
        raise Stale(f"run {lease.stream.name} is no longer this worker's", path="run", token=row["token"])


def holds(reads: Reads, lease: Lease) -> bool:
    """Whether the lease still stands: asked right before something is sent outside."""
    given = {"stream": lease.stream.id, "holder": lease.holder, "token": lease.token}
    return bool(reads.query(Q.lease_standing, touches=[(RUNS, lease.stream.id), (HOLDERS, 0)], **given))


# -- what a driver says --------------------------------------------------------------------------------------


def wait(tx: Tx, stream: Stream, reason: str, wake_at: int | None) -> None:
    """The run waits; nobody holds it. wake_at: when it is to be looked at again even if nothing comes."""
    _give_up(tx, stream, "run.waiting", WAITING, reason=reason, wake_at=wake_at)


def release(tx: Tx, stream: Stream) -> None:
    """Give a run back that can go on at once, elsewhere."""
    _give_up(tx, stream, "run.released", READY, wake_at=tx.now)


def park(tx: Tx, stream: Stream, reason: str, why: str, **facts: Any) -> None:
    """The machine must not go on by itself. The reason is a short code; `why` and the facts are for people."""
    doc = {"error": {"code": reason, "message": why}, **facts}
    _give_up(tx, stream, "run.parked", PARKED, doc=doc, reason=reason)


def finish(
    tx: Tx,
    stream: Stream,
    status: RunStatus,
    result: Any = None,
    error: EffectError | None = None,
    blamed: int | None = None,
) -> None:
    """The run is over. blamed: the effect by whose failure it ended: what `retry` does anew."""
    doc = {"result": to_plain(result, "result")} if error is None else {"error": msgspec.to_builtins(error)}
    if blamed is not None:
        doc["effect"] = blamed
    _give_up(tx, stream, f"run.{status.value}", status, doc=doc, ended_at=tx.now)


def _give_up(tx: Tx, stream: Stream, kind: str, status: RunStatus, *, doc: Any = None, **columns: Any) -> None:
    clear = {"holder": None, "wake_at": None, "suspect": 0, "deaths": 0, "reason": None}
    mark = "" if doc is None else "outcome_seq"
    tx.record(Change(kind, stream, RUNS, Op.SET, set={**clear, "status": status.value, **columns}, doc=doc, mark=mark))


def step(tx: Tx, stream: Stream, doc: dict[str, Any]) -> int:
    """Record that a step was done: one event and nothing else. The document is plain data (see `step_document`)."""
    return tx.record(Change("step.done", stream, STEPS, Op.NOTE, doc=doc))


def noting(tx: Tx, stream: Stream, docs: list[dict[str, Any]], verb: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """A verb after some steps, in one commit: steps that failed are recorded when the program goes on."""
    for doc in docs:
        step(tx, stream, doc)
    return verb(tx, stream, *args, **kwargs)


def step_document(
    place: str, name: str, mark: str, value: Any, error: EffectError | None, notes: dict[str, Any]
) -> Any:
    """What a step keeps. Invalid names the path of what cannot be kept."""
    became = {"value": to_plain(value, "result")} if error is None else {"error": msgspec.to_builtins(error)}
    return {
        "place": place,
        "name": name,
        "digest": mark,
        **became,
        **({"notes": to_plain(notes, "notes")} if notes else {}),
    }


def cut(tx: Tx, stream: Stream, doc: dict[str, Any] | None = None) -> int:
    """Begin the journal anew after what was just recorded; returns the number of the cut. doc: what is noted with it."""
    row = _row(tx, stream)
    columns = {"cuts": row["cuts"] + 1}
    tx.record(Change("run.cut", stream, RUNS, Op.SET, set=columns, doc=doc, mark="cut_seq"))
    return columns["cuts"]


# -- what people and others say ------------------------------------------------------------------------------


def wake(tx: Tx, stream: Stream) -> None:
    """Something that a waiting run waits for has come: somebody may take it. Any other run is left as it is."""
    if _row(tx, stream)["status"] == WAITING:
        _set(tx, stream, "run.woken", status=READY.value, wake_at=tx.now, reason=None)


def call_off(tx: Tx, stream: Stream) -> None:
    """Tell a run that it is to end: at its next step if somebody has it, else when somebody takes it. Once is enough."""
    row = _row(tx, stream)
    if row["cancelling"]:
        return
    freed = {} if row["status"] == RUNNING else {"status": READY.value, "wake_at": tx.now, "reason": None}
    _set(tx, stream, "run.cancelling", cancelling=1, **freed)


def resume(tx: Tx, stream: Stream) -> None:
    """Let a waiting or parked run be looked at again."""
    _reopen(tx, stream, "run.resumed", {WAITING, PARKED})


def unpark(tx: Tx, stream: Stream) -> None:
    """Let a parked run go on."""
    _reopen(tx, stream, "run.unparked", {PARKED})


def retry(tx: Tx, stream: Stream) -> None:
    """Try a run again that failed, was cancelled or is parked: what it did is kept, the failing step is done anew."""
    _reopen(tx, stream, "run.retried", {FAILED, CANCELLED, PARKED}, ended_at=None, cancelling=0)


def pin(tx: Tx, stream: Stream, program: str | None) -> None:
    """Let only workers with this very program take the run; None: any."""
    columns = {"pinned": 0} if program is None else {"pinned": 1, "program": check_name(program, "program")}
    _set(tx, stream, "run.pinned", **columns)


def _reopen(tx: Tx, stream: Stream, kind: str, sources: set[RunStatus], **columns: Any) -> None:
    status = RunStatus(_row(tx, stream)["status"])
    if status is READY:
        return
    if status not in sources:
        ways = ", ".join(sorted(sources))
        raise Conflict(f"run {stream.name} is {status}, not {ways}", path="run", status=status.value)
    _set(tx, stream, kind, status=READY.value, wake_at=tx.now, reason=None, deaths=0, suspect=0, **columns)


def _set(tx: Tx, stream: Stream, kind: str, **columns: Any) -> None:
    tx.record(Change(kind, stream, RUNS, Op.SET, set=columns))


def _row(reads: Reads, stream: Stream) -> Row:
    row = reads.row(RUNS, stream)
    if row is None:
        raise Damaged("the run has no row", path=f"run {stream.name}")
    return row


# -- reading -------------------------------------------------------------------------------------------------


def run(reads: Reads, stream: Stream) -> RunRecord:
    """How a run stands."""
    rows = reads.query(Q.run_get, touches=[(RUNS, stream.id), (EVENTS, stream.id), (HOLDERS, 0)], stream=stream.id)
    if not rows:
        raise Damaged("the run has no row", path=f"run {stream.name}")
    return _record(reads, stream, rows[0])


def blamed(reads: Reads, stream: Stream) -> int | None:
    """The effect by whose failure a run ended or was parked, if it was one."""
    rows = reads.query(Q.run_get, touches=[(RUNS, stream.id), (EVENTS, stream.id)], stream=stream.id)
    where = f"run {stream.name}"
    found = stored_fields(doc_of(reads, rows[0][5], where), where).get("effect") if rows else None
    return found if type(found) is int else None


def runs_of_store(
    reads: Reads,
    *,
    status: str | None = None,
    agent: str | None = None,
    session: str | None = None,
    parent: str | None = None,
    since: Instant | None = None,
    until: Instant | None = None,
    limit: int = 100,
    after: str | None = None,
) -> Page[tuple[Stream, RunRecord]]:
    """The runs of this tenant, newest first, each with its stream."""
    count = check_page(limit)
    at, in_stream = (None, None) if after is None else decode_cursor(after, 2)
    span = between(reads, since, until)
    names = {"agent": agent, "session": session, "run": parent}
    given: dict[str, Any] = {name: None if value is None else check_name(value, name) for name, value in names.items()}
    rows = reads.query(
        Q.runs_of_store,
        tenant=reads.tenant,
        status=None if status is None else _status(status),
        since=span.since,
        until=span.until,
        after_at=at,
        after_stream=in_stream,
        limit=count + 1,
        **given,
    )
    found = [(stream := Stream(*row[25:]), _record(reads, stream, row[:25])) for row in rows[:count]]
    last = rows[count - 1] if len(rows) > count else None
    return Page(found, encode_cursor(last[9], last[25]) if last else None)


class Claimable(NamedTuple):
    """A run that can perhaps be taken."""

    status: str
    agent: str
    holder: str | None
    suspect: int
    program: str
    pinned: int
    stream: Stream


def claimable(reads: Reads, *, limit: int = 50) -> list[Claimable]:
    """What somebody may take now: ready runs, waiting ones past their time, and those whose holder's heartbeat lapsed."""
    found: list[Claimable] = []
    for status, extra in ((READY, {}), (WAITING, {"waking": 1}), (RUNNING, {"lapsed": 1})):
        given: dict[str, Any] = {"waking": None, "lapsed": None, **extra}
        rows = reads.query(Q.runs_claimable, tenant=reads.tenant, status=status.value, limit=limit, **given)
        found += [_claimable(row) for row in rows]
    return found


def _claimable(row: tuple[Any, ...]) -> Claimable:
    status, agent, holder, suspect, program, pinned, *stream = row
    return Claimable(status, agent, holder, suspect, program, pinned, Stream(*stream))


def running(reads: Reads, *, limit: int = 1_000) -> list[Claimable]:
    """Runs that somebody has: what can be taken from those who are proved dead."""
    rows = reads.query(
        Q.runs_claimable, tenant=reads.tenant, status=RUNNING.value, limit=check_page(limit), waking=None, lapsed=None
    )
    return [_claimable(row) for row in rows]


def steps(reads: Reads, stream: Stream, after: int = 0) -> list[StepRecord]:
    """The steps of a run after an event, in order."""
    rows = reads.query(Q.steps_after, touches=[(EVENTS, stream.id)], stream=stream.id, after=after)
    return [_step(reads, stream, seq, body) for seq, body in rows]


def _step(reads: Reads, stream: Stream, seq: int, body: bytes | None) -> StepRecord:
    where = f"run {stream.name} step {seq}"
    doc = stored_fields(doc_of(reads, body, where), where)
    try:
        error = None if doc.get("error") is None else msgspec.convert(doc["error"], EffectError)
        return StepRecord(
            seq, doc["place"], doc["name"], doc["digest"], stored_value(doc.get("value"), where), error,
            stored_fields(stored_value(doc.get("notes") or {}, where), where),
        )  # fmt: skip
    except (KeyError, msgspec.ValidationError) as problem:
        raise Damaged(f"what is stored is no step: {problem}", path=where) from None


def _status(status: object) -> str:
    try:
        return RunStatus(status).value  # type: ignore[arg-type]
    except ValueError:
        raise Invalid(f"expected one of {', '.join(RunStatus)}; got {status!r}", path="status") from None


def _record(reads: Reads, stream: Stream, row: tuple[Any, ...]) -> RunRecord:
    (name, agent, status, key, given, ended, session, parent, creator, created_at, ended_at, wake_at, timeout_at, holder, token,
     deaths, suspect, cancelling, cuts, cut_seq, program, pinned, epoch, reason, abandoned) = row  # fmt: skip
    where = f"run {stream.name}"
    doc = stored_fields(doc_of(reads, given, where), where)
    became = stored_fields(doc_of(reads, ended, where), where)
    failed = became.get("error")
    return RunRecord(
        name, agent, stored_state(RunStatus, status, where), key, stored_value(doc.get("args"), where),
        stored_value(doc.get("kwargs"), where), stored_value(became.get("result"), where),
        None if failed is None else msgspec.convert(failed, EffectError), session, parent, creator,
        stored_instant(created_at, where), stored_instant_or_none(ended_at, where), stored_instant_or_none(wake_at, where),
        stored_instant_or_none(timeout_at, where), holder, token, deaths, bool(suspect), bool(cancelling), cuts, cut_seq,
        program, bool(pinned), epoch, reason, bool(abandoned), stream.ref(1),
    )  # fmt: skip
