"""Presence: who is at work, proved by a heartbeat. A lapsed heartbeat is how a crash shows; a clean leave is
none.

A holder is one open store (`core.holder`). It has one heartbeat row for all that it holds, and one attendance
row for each session that it has written in. Both are ephemeral. The proof of its lock file (`stores/liveness.py`) is kept as long
as something names it, and a lapsed heartbeat for a day at least (`tidy`). Callers: the handles (first write, heartbeat thread,
close), and the planes that lease things (tasks, locks) through `is_alive` and `touch_holder`. Keeps P8, P15.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from perdure.errors import Error, Limited
from perdure.log.change import Stream
from perdure.model.instants import SECOND_US
from perdure.model.limits import LEASE_TTL_SECONDS
from perdure.planes.recovery import epochs
from perdure.planes.tables import ATTENDANCE, HOLDERS
from perdure.stores import migrate
from perdure.stores.statements import Statements
from perdure.stores.store import NO_TENANT, Reads
from perdure.stores.tx import LOG, Tx

if TYPE_CHECKING:
    from perdure.stores.core import Core, Reader

T = TypeVar("T")
P = ParamSpec("P")
log = logging.getLogger("perdure.presence")

Q = Statements("perdure.planes.recovery", "presence.sql")

TTL_SECONDS = LEASE_TTL_SECONDS
NEEDED_MAX = 10_000  # holders that one tidying can tell apart
FORGET_US = 24 * 3_600 * SECOND_US  # after its lapse, a heartbeat is there for people who look for what went wrong
FORGET_MAX = 1_000  # heartbeats that one tidying removes
_CLIENT = "-client"


def client_of(holder: str) -> str:
    """The holder of what a client carries out itself, of the open store that serves it. No lock file proves its death (P4)."""
    return holder + _CLIENT


def server_of(holder: str) -> str:
    """The open store that a holder is, or is a client of."""
    return holder.removesuffix(_CLIENT)


def is_alive(reads: Reads, holder: str) -> bool:
    """Whether a holder's heartbeat has not lapsed, on the store's clock, and its process is not proved to be dead. A client has
    the heartbeat of its server.
    """
    beats = server_of(holder)
    params = {"tenant": reads.tenant, "holder": beats}
    return bool(reads.query(Q.holder_alive, touches=[(HOLDERS, reads.tenant)], **params)) and not reads.clocks.is_dead(
        beats
    )


def touch_holder(tx: Tx, holder: str, until: int | None = None) -> None:
    """Renew a holder's heartbeat, or begin it. A verb that leases something to a holder calls this in the same commit. Raises
    NewerSchema when it begins in a store that a newer Perdure has migrated.

    until: when the lease ends by itself. A client's holder is good until then, because nobody beats for it.
    """
    now = tx.store_now()
    row = tx.own_row(HOLDERS, holder)
    if row is None or row["expires_at"] <= now:
        check_schema(tx)
    began = row or {"actor": tx.actor, "host": os.uname().nodename, "started_at": now}
    values = {name: began[name] for name in ("actor", "host", "started_at")}
    expires_at = now + tx.clocks.lease_us
    if until is not None and server_of(holder) != holder:
        expires_at = max(until, row["expires_at"] if row else 0)
    tx.touch(HOLDERS, {"holder": holder}, {**values, "expires_at": expires_at})


def make_room(tx: Tx, holder: str, prefix: str, most: int) -> None:
    """Before a new holder's first sign of life: forget the lapsed ones whose names begin so. Limited if as many live as may.

    A heartbeat that is not there says what a lapsed one says. Names from outside could otherwise fill the table.
    """
    if tx.own_row(HOLDERS, holder) is not None:
        return
    living = 0
    for other, lapsed in tx.query(Q.holders_under, touches=[(HOLDERS, tx.tenant)], tenant=tx.tenant, prefix=prefix):
        if lapsed:
            tx.touch(HOLDERS, {"holder": other}, None)
        living += not lapsed
    if living >= most:
        raise Limited(
            f"{living} workers of this token live, at most {most} may", path="holder", limit="workers",
            hint="end those that are not needed, or use a further token", retry_after=tx.clocks.lease_us / SECOND_US,
        )  # fmt: skip


def check_schema(reads: Reads) -> None:
    """Refuse a store that a newer Perdure has migrated since it was opened. Asked when a heartbeat begins, and at every beat."""
    facts = dict(reads.query(Q.schema_now))
    migrate.check(migrate.number_in(facts, "schema"), migrate.latest(migrate.migrations()))


def attend(tx: Tx, stream: Stream, holder: str, *, begin: bool) -> None:
    """Write down that a holder is at work in a session; it takes over from those whose heartbeat has lapsed or who are
    proved to be dead.

    begin: the holder has no heartbeat yet. It is renewed elsewhere, so that this costs one read in a session.
    """
    if begin:
        touch_holder(tx, holder)
    touches = [(ATTENDANCE, stream.id)]
    for other, lapsed in tx.query(Q.attendance_others, touches=touches, stream=stream.id, holder=holder):
        if lapsed or tx.clocks.is_dead(other):
            tx.touch(ATTENDANCE, {"holder": other}, None, stream)
    tx.touch(ATTENDANCE, {"holder": holder}, {}, stream)


def attending(
    tx: Tx, stream: Stream, verb: Callable[Concatenate[Tx, Stream, P], T], holder: str, begin: bool, /,
    *args: P.args, **kwargs: P.kwargs,
) -> T:  # fmt: skip
    """A verb and, in the same commit, the attendance of who calls it: the first write of a handle in a
    session.
    """
    attend(tx, stream, holder, begin=begin)
    return verb(tx, stream, *args, **kwargs)


def step_out(tx: Tx, stream: Stream, holder: str) -> None:
    """End a holder's attendance in one session: nothing that happens to it later is a crash of this
    session.
    """
    tx.touch(ATTENDANCE, {"holder": holder}, None, stream)


def beat(tx: Tx, holder: str, attended: Iterable[Stream]) -> None:
    """Renew the heartbeat. After a lapse others may have taken over, so attendance is written down again. Raises NewerSchema.

    A raised epoch is heard of here, too.
    """
    check_schema(tx)
    epochs.look_up(tx)
    lapsed = not is_alive(tx, holder)
    touch_holder(tx, holder)
    for stream in attended if lapsed else ():
        tx.touch(ATTENDANCE, {"holder": holder}, {}, stream)


def leave(tx: Tx, holder: str, attended: Iterable[Stream]) -> None:
    """End a heartbeat and all attendance cleanly: this is not a crash. Its leases are free at once."""
    for stream in attended:
        tx.touch(ATTENDANCE, {"holder": holder}, None, stream)
    tx.touch(HOLDERS, {"holder": holder}, None)


# -- lock files ------------------------------------------------------------------------------------------------


def needed(reads: Reader) -> set[str] | None:
    """The holders, of all tenants, whose deaths somebody may yet have to prove. None: too many to tell."""
    with reads.snapshot():
        reads.query(LOG.every_tenant)
        rows = reads.query(Q.holders_needed, limit=NEEDED_MAX)
    return None if len(rows) == NEEDED_MAX else {holder for (holder,) in rows}


def forget_lapsed(tx: Tx) -> int:
    """Remove heartbeats that lapsed long ago and whose holders nothing names any more; returns how many. Bounded.

    A heartbeat that is not there says what a lapsed one says. A process that was only stopped begins anew.
    """
    params = {"tenant": tx.tenant, "age": FORGET_US, "limit": FORGET_MAX}
    over = tx.query(Q.holders_over, touches=[(HOLDERS, tx.tenant)], **params)
    for (holder,) in over:
        tx.touch(HOLDERS, {"holder": holder}, None)
    return len(over)


def tidy(core: Core, actor: str, tenants: Iterable[int]) -> int:
    """Remove what the dead left and nothing names any more: heartbeats of these tenants, and lock files; returns how many files.
    Bounded, and safe at any time.

    A holder that could not be looked at now is looked at another time: nothing rests on it.
    """
    try:
        for tenant in tenants:
            core.write(forget_lapsed, actor=actor, tenant=tenant)
        return core.liveness.tidy(lambda: core.read(needed, tenant=NO_TENANT))
    except (Error, OSError) as error:
        log.warning("signs of life of the dead could not be looked through: %s", error)
        return 0
