"""Time: a session as it was (`at`), and another way on from there (`fork`).

`at` folds the history up to a point into a private store in memory, where every read verb works unchanged.
`fork` begins a stream that names its parent's event: what never changes is read from the parent, what may
change is restated. A fork costs as much as the session has values, tasks and decisions; folding reads the
events that made them. Callers: the handles. Keeps P5, P6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TypeAlias

import msgspec

from perdure.errors import Conflict, Damaged, Invalid
from perdure.log.actors import is_random
from perdure.log.change import Change, Op, Stream
from perdure.log.event import Body, Event
from perdure.log.fold import Fold
from perdure.log.table import Row, Table
from perdure.model.instants import SECOND_US, instant_us, to_datetime
from perdure.model.limits import check_name
from perdure.planes import subjects
from perdure.planes.audit import base_events
from perdure.planes.execution import imported
from perdure.planes.memory import values
from perdure.planes.reading.body_reading import body_of
from perdure.planes.reading.durations import store_now
from perdure.planes.reading.lineage import ancestry
from perdure.planes.reading.snapshots import one_state
from perdure.planes.recovery import presence
from perdure.planes.tables import EFFECTS, RECORDED, SESSIONS, TASKS, WAITS
from perdure.stores.batch import EVENTS
from perdure.stores.core import Core
from perdure.stores.past_store import Past
from perdure.stores.replay import Slice, adopt_chosen, replay, verbatim
from perdure.stores.statements import Statements
from perdure.stores.store import Reads, event_of
from perdure.stores.tx import LOG, Tx, introduce

Q = Statements("perdure.planes.audit", "history.sql")

Moment: TypeAlias = "int | str | datetime | timedelta"
_PAGE = 500
_AHEAD_US = 60 * SECOND_US  # by so much the clock of whoever asks may be ahead of the store's


class Point(msgspec.Struct, frozen=True):
    """A place in a session's past: the stream that holds the event, its sequence number, and the instant to
    be seen.
    """

    stream: Stream
    seq: int
    hash: bytes
    at_us: int


class PastView(msgspec.Struct, frozen=True):
    """A session, scope or run in a private store, as it was."""

    core: Core
    tenant: int
    stream: Stream
    pin: str


class ForkPlan(msgspec.Struct, frozen=True):
    """Where a fork begins, and the rows that it restates; for whom it was planned, and how many events up to there had
    lost their bodies then.
    """

    stream: Stream
    moment: Moment | None
    emptied: int
    point: Point
    session: Row
    rows: list[tuple[Table, Row]]


# --- points ---------------------------------------------------------------------------------------

OPEN_EFFECTS = frozenset({"planned", "dispatched", "in_doubt", "undoing"})


def point(reads: Reads, stream: Stream, moment: Moment | None, path: str = "at") -> Point:
    """The event that a moment names: a sequence number, an instant, or an age ("2h"); None is the last one.

    Invalid when there is no such event, when none is as old, and for an instant that has not come yet.
    """
    line = ancestry(reads, stream)
    instant: int | None = None
    if moment is None or type(moment) is int:
        seq = _checked_seq(_last(reads, stream), moment, path)
    else:
        instant = _past_instant(reads, stream, moment, path)
        seq = _not_after(reads, line, instant, path)
    holder, seq = _holder(reads, line, seq)
    event = _event(reads, holder, seq)
    return Point(holder, seq, event.hash, event.at if instant is None else instant)


def seq_of(reads: Reads, stream: Stream, moment: Moment | None) -> int:
    """The sequence number that a moment names."""
    return _last(reads, stream) if moment is None else point(reads, stream, moment).seq


def _last(reads: Reads, stream: Stream) -> int:
    return reads.query(LOG.stream_head, touches=[(EVENTS, stream.id)], stream=stream.id)[0][0]


def _checked_seq(last: int, seq: int | None, path: str) -> int:
    if seq is None:
        return last
    if not 1 <= seq <= last:
        message = f"there is no event {seq}: they run from 1 to {last}"
        raise Invalid(message, path=path, hint="`perdure events` lists them")
    return seq


def _past_instant(reads: Reads, stream: Stream, moment: Moment, path: str) -> int:
    """A moment must show the same for ever: none that is still to come. The store's clock decides; an event that was
    written by a clock that was ahead of it has its instant all the same.
    """
    now = store_now(reads)
    instant = instant_us(moment, now, path)
    if instant > now + _AHEAD_US and instant > _event(reads, stream, _last(reads, stream)).at:
        raise Invalid(
            f"this moment has not come yet: the store's clock says {to_datetime(now):%Y-%m-%dT%H:%M:%SZ}",
            path=path, hint="leave it out for the present",
        )  # fmt: skip
    return instant


def _not_after(reads: Reads, line: list[Stream], instant: int, path: str) -> int:
    upto = 2**62
    for stream in line:
        seq = reads.query(
            Q.events_last_not_after, touches=[(EVENTS, stream.id)], stream=stream.id, upto=upto, at=instant
        )[0][0]
        if seq is not None:
            return seq
        upto = stream.fork_seq
    raise Invalid("there was nothing at that time yet", path=path)


def _holder(reads: Reads, line: list[Stream], seq: int) -> tuple[Stream, int]:
    """The stream that holds the event. While a fork is still restating what it starts from, it is where its
    parent was.
    """
    for stream in line:
        if stream.parent is None or seq >= _opened(reads, stream):
            return stream, seq
        seq = min(seq, stream.fork_seq)
    raise AssertionError


def _opened(reads: Reads, stream: Stream) -> int:
    """The last of the events with which a fork begins."""
    first = _event(reads, stream, stream.fork_seq + 1)
    doc = body_of(reads, first.body).doc
    through = doc.get("through") if isinstance(doc, dict) else None
    return through if type(through) is int else first.seq


def _event(reads: Reads, stream: Stream, seq: int) -> Event:
    rows = reads.query(LOG.event_by_seq, touches=[(EVENTS, stream.id)], stream=stream.id, seq=seq)
    if not rows:
        raise Damaged("the event is missing", path=f"{stream.name} seq {seq}")
    return event_of(rows[0])


# --- at -------------------------------------------------------------------------------------------


def view(reads: Reads, stream: Stream, moment: Moment, core: Core | None) -> PastView:
    """The session, scope or run as it was, in a private store in memory. Costs a fold of its history up to then.

    core: of the open store, for a view that outlives these reads.
    """
    then = point(reads, stream, moment)
    past = _past(reads, core, then.at_us)
    tenant = past.tenant_id("default")
    slices = list(_slices(ancestry(reads, then.stream), then.seq))
    streams = replay(reads, slices, past, tenant, RECORDED, partial(imported.translation_of, reads))
    return _peopled(reads, past, tenant, msgspec.structs.replace(streams[-1], name=stream.name))


def view_of(reads: Reads, stream: Stream, then: Point, events: Iterable[Event], core: Core) -> PastView:
    """Like `view`, from these events of a stream without a parent: a row is there if its first event is among them."""
    past = _past(reads, core, then.at_us)
    tenant = past.tenant_id("default")
    translate = imported.translation_of(reads, stream) or verbatim
    placed = past.write(adopt_chosen, stream, [*events], RECORDED, translate, actor="", tenant=tenant)
    return _peopled(reads, past, tenant, msgspec.structs.replace(placed, name=stream.name))


def _peopled(reads: Reads, past: Past, tenant: int, stream: Stream) -> PastView:
    """A replayed stream with the names of its actors, in which every holder of then still holds."""
    actors = [
        actor for (actor,) in past.read(lambda then: then.query(Q.actors_replayed), tenant=tenant) if is_random(actor)
    ]
    name_rows = {actor: reads.query(LOG.actor_named, tenant=reads.tenant, actor=actor) for actor in actors}
    past.write(_acquaint, {actor: rows[0][0] for actor, rows in name_rows.items() if rows}, actor="", tenant=tenant)
    past.write(_hold_on, actor="", tenant=tenant)
    row = past.read(lambda then: then.row(SESSIONS, stream), tenant=tenant)
    return PastView(past, tenant, stream, (row or {}).get("pin") or "")


def now_in(reads: Reads, stream: Stream, core: Core) -> PastView:
    """The present: a copy in which anything can be tried."""
    last = _event(reads, stream, _last(reads, stream)).at
    return view(reads, stream, to_datetime(max(last, store_now(reads))), core)


def _acquaint(tx: Tx, names: Mapping[str, str]) -> None:
    """The past knows its actors by the names that they have now: the directory is no part of what was replayed."""
    if names:
        own = tx.new_stream(imported.TENANT, imported.TENANT)
        for actor, name in names.items():
            introduce(tx, own, actor, name)


def _hold_on(tx: Tx) -> None:
    """A holder of something then holds it, as long as time stands still: whether it was dead by then is not in the log."""
    for (holder,) in tx.query(Q.holders_named):
        presence.touch_holder(tx, holder)


def _past(reads: Reads, core: Core | None, at_us: int) -> Past:
    """It finds its blobs in the store; inside a transaction in that same one, with which it ends: what was written there
    may never be committed.
    """
    if isinstance(reads, Tx):
        return Past(lambda verb: verb(reads), at_us, lambda: reads.uid)
    if core is None:
        return Past(lambda verb: verb(reads), at_us)
    return Past(partial(core.read, tenant=reads.tenant), at_us)


def _slices(line: list[Stream], upto: int) -> Iterator[Slice]:
    """Oldest first, each up to where the next one begins."""
    ends = [upto, *(stream.fork_seq for stream in line[:-1])]
    for stream, end in reversed(list(zip(line, ends, strict=True))):
        yield Slice(stream, end)


# --- fork -----------------------------------------------------------------------------------------


@one_state
def plan_fork(reads: Reads, stream: Stream, moment: Moment | None) -> ForkPlan:
    """Fold what a fork has to restate. A read: only a prune changes history, and `fork` looks whether one did."""
    then = point(reads, stream, moment)
    values.refuse_pruned(reads, then.stream, then.seq)
    state = Fold(RECORDED)
    for event in _mutable_events(reads, then):
        state.add(event)
    rows = [(table, _without_claim(table, row)) for table, row in state.all_rows()]
    session = next((row for table, row in rows if table is SESSIONS), None)
    if session is None:
        raise Invalid("there is no session yet at this point", path="at")
    others = [(table, row) for table, row in rows if table is not SESSIONS]
    return ForkPlan(stream, moment, _emptied(reads, then), then, session, others)


def _emptied(reads: Reads, then: Point) -> int:
    touches = [(EVENTS, then.stream.id)]
    return reads.query(Q.events_emptied, touches=touches, stream=then.stream.id, upto=then.seq)[0][0]


def _mutable_events(reads: Reads, then: Point) -> Iterator[Event]:
    after, stream = then.stream.fork_seq, then.stream.id
    while True:
        rows = reads.query(
            Q.events_of_mutable_rows,
            touches=[(EVENTS, stream)],
            stream=stream,
            after=after,
            upto=then.seq,
            limit=_PAGE,
        )
        yield from map(event_of, rows)
        if len(rows) < _PAGE:
            return
        after = rows[-1][0]


def _without_claim(table: Table, row: Row) -> Row:
    """Nobody holds anything in a fork; an effect under way, or a question, is the parent's to carry on (P3)."""
    if table is TASKS and row["status"] == "doing":
        return row | {"status": "todo", "holder": None, "claimed_by": None, "claim_expires_at": None}
    if table is EFFECTS and row["state"] in OPEN_EFFECTS:
        return row | {"state": "withdrawn", "error": "Forked"}
    if table is WAITS and row["state"] == "open":
        return row | {"state": "withdrawn", "met_at": row["at"], "met_by": "the fork"}
    return row


def fork(tx: Tx, plan: ForkPlan, name: str) -> tuple[Stream, str]:
    """Begin a session that continues from a point of another one. Conflict when the name is taken.

    The parent is locked: a prune was before this fork, and it is planned anew, or sees it. So a fork from now has its
    newest checkpoints.
    """
    if tx.find_stream("session", check_name(name, "name")) is not None:
        hint = "choose another name; `perdure sessions` lists those that are taken"
        raise Conflict(f"there is a session {name!r} already", path="name", hint=hint)
    tx.lock(plan.point.stream)
    if _emptied(tx, plan.point) != plan.emptied:
        plan = plan_fork(tx, plan.stream, plan.moment)
    then = plan.point
    stream = tx.new_stream("session", name, then.stream, (then.seq, then.hash))
    session = plan.session | {"name": name, "creator": tx.actor, "created_at": tx.now}
    if session["ended_at"] is not None:  # a session that had ended continues in its fork
        session |= {"status": "active", "ended_at": None}
    tx.record(_first(stream, plan, session, subjects.so_far(tx, then.stream, then.seq)))
    bodies = partial(_body_at, tx, then.stream)
    for column, seq in base_events.pointers(SESSIONS, session):
        base_events.point_to(tx, stream, SESSIONS, session, (column, bodies(seq)))
    for table, row in plan.rows:
        base_events.restate(tx, stream, table, row, bodies)
    return stream, session["pin"] or ""


def _first(stream: Stream, plan: ForkPlan, session: Row, about: list[str]) -> Change:
    """The fork's first event: it names its parent, and says with which event the restating ends. about: whom anything is that it
    shares with its parent; its row has those of the whole session.
    """
    then = plan.point
    others = len(base_events.pointers(SESSIONS, session)) + sum(
        base_events.count(table, row) for table, row in plan.rows
    )
    doc = {
        "parent": then.stream.uid.hex(),
        "seq": then.seq,
        "hash": then.hash.hex(),
        "through": then.seq + 1 + others,
    }
    return Change(
        "session.forked",
        stream,
        SESSIONS,
        op=Op.BASE,
        set=base_events.values_of(SESSIONS, session),
        doc=doc,
        refs=[then.stream.ref(then.seq)],
        subjects=about,
        derived_from=[then.stream.ref(then.seq)],
    )


def _body_at(reads: Reads, stream: Stream, seq: int) -> Body:
    return body_of(reads, _event(reads, stream, seq).body, f"seq {seq}")
