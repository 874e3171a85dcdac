"""Locks: one holder at a time under a name, fenced by a token that only grows, and with a deadline. Keeps P7.

    free ── acquire (token + 1) ──▶ held ── release, or the deadline passes ──▶ free

A lock is *held* while its token is the newest, the store's clock has not reached its deadline, and its holder is not
proved to be dead. A caller that lost it is told Stale and writes nothing: every write of a block that holds locks goes through
`fenced`. The row stays when it is free: tokens grow for ever. Callers: `session.lock`, and the callers of the handles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from perdure.errors import Conflict, Stale
from perdure.log.change import Change, Op, Stream
from perdure.log.table import Row
from perdure.model.instants import to_datetime
from perdure.model.limits import check_name
from perdure.model.records.values import LockRecord
from perdure.planes.reading.durations import Duration, deadline, store_now
from perdure.planes.reading.row_reading import stored_instant
from perdure.planes.tables import LOCKS
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

T = TypeVar("T")
P = ParamSpec("P")


class Fence(NamedTuple):
    """A lock that a block of code holds, and the token that it got: what its writes are checked against."""

    stream: Stream
    name: str
    token: int


def fenced(
    fences: Iterable[Fence], verb: Callable[Concatenate[Tx, P], T], tx: Tx, /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """A verb, if all these locks are still held by their tokens; Stale, and nothing is written, if one is not."""
    for fence in fences:
        check(tx, fence.stream, fence.name, token=fence.token)
    return verb(tx, *args, **kwargs)


def acquire(tx: Tx, stream: Stream, name: str, *, ttl: Duration, holder: str) -> LockRecord:
    """Take a lock that is free, or whose holder's time is over or is proved dead. Conflict names who has it and until when."""
    check_name(name, "name")
    expires_at = deadline(tx, ttl)
    assert expires_at is not None
    row = tx.row(LOCKS, stream, name)
    if row is not None and _is_held(tx, row):
        raise _held_by(name, row)
    token = row["token"] + 1 if row else 1
    columns = {"token": token, "holder": f"{tx.actor}@{holder}", "expires_at": expires_at}
    tx.record(Change("lock.acquired", stream, LOCKS, Op.SET if row else Op.INSERT, {"name": name}, columns))
    return LockRecord(name, token, columns["holder"], to_datetime(expires_at))


def renew(tx: Tx, stream: Stream, name: str, *, token: int, ttl: Duration) -> LockRecord:
    """Move the deadline of a lock that is still held by this token. Stale when it is not."""
    row = _mine(tx, stream, name, token)
    expires_at = deadline(tx, ttl)
    assert expires_at is not None
    tx.record(Change("lock.renewed", stream, LOCKS, Op.SET, {"name": name}, {"expires_at": expires_at}))
    return LockRecord(name, token, row["holder"], to_datetime(expires_at))


def release(tx: Tx, stream: Stream, name: str, *, token: int) -> None:
    """Give a lock back. Stale, and nothing is written, when it is no longer held by this token."""
    _mine(tx, stream, name, token)
    tx.record(Change("lock.released", stream, LOCKS, Op.SET, {"name": name}, {"holder": None, "expires_at": None}))


def give_back(tx: Tx, stream: Stream, record: LockRecord) -> None:
    """Release a lock of which its taker never heard. Nothing if it is not held as it was taken then."""
    row = tx.row(LOCKS, stream, record.name)
    if row is None or row["holder"] is None:
        return
    if (row["token"], row["holder"], to_datetime(row["expires_at"])) == (record.token, record.holder, record.deadline):
        release(tx, stream, record.name, token=record.token)


def check(reads: Reads, stream: Stream, name: str, *, token: int) -> None:
    """Nothing if this token still holds the lock; Stale if not."""
    _mine(reads, stream, name, token)


def _mine(reads: Reads, stream: Stream, name: str, token: int) -> Row:
    row = reads.row(LOCKS, stream, name)
    if row is None or row["token"] != token or not _is_held(reads, row):
        newest = row["token"] if row else 0
        hint = "leave its block and take it again; a longer `ttl`, or `renew` in time, keeps it"
        raise Stale(f"the lock {name!r} is no longer held by token {token}", path="lock", hint=hint, token=newest)
    return row


def _is_held(reads: Reads, row: Row) -> bool:
    if row["holder"] is None or row["expires_at"] <= store_now(reads):
        return False
    return not reads.clocks.is_dead(row["holder"].rpartition("@")[2])


def _held_by(name: str, row: Row) -> Conflict:
    ends = stored_instant(row["expires_at"], f"lock {name}")
    return Conflict(
        f"the lock {name!r} is held by {row['holder']} until {ends.isoformat()}",
        path="lock",
        holder=row["holder"],
        deadline=ends,
        token=row["token"],
    )
