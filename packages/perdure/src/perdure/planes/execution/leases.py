"""The holder of a run: one at a time, by a lease with a token that only grows. Keeps P3, P7.

A lease is void when its holder's heartbeat lapsed or its process is proved dead: then whoever claims next continues, and the old
token is Stale. A run whose process died is a suspect (docs/decisions/0011). The fence costs nothing while nobody else wrote to
the stream: see docs/decisions/0007. Callers: the handles and the worker.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Concatenate, ParamSpec, TypeVar

from perdure.errors import Stale
from perdure.log.change import Change, Op, Stream
from perdure.log.table import Row
from perdure.model.pins import Moved, OnChange
from perdure.planes.execution import run_pins, runs
from perdure.planes.execution.runs import READY, RUNNING, WAITING
from perdure.planes.recovery import epochs, presence
from perdure.planes.tables import HOLDERS, RUNS
from perdure.stores.batch import EVENTS
from perdure.stores.job import contended
from perdure.stores.statements import Statements
from perdure.stores.store import Head, Reads
from perdure.stores.tx import Tx

Q = Statements("perdure.planes.execution", "leases.sql")
CLAIMED, RECOVERED = CLAIMS = ("run.claimed", "run.recovered")
T = TypeVar("T")
P = ParamSpec("P")

DEATHS_MAX = 5  # processes that died with a suspect, one after the other without any progress: then it is parked
NO_PINS: Mapping[str, str] = MappingProxyType({})
HEADS = 32  # of own writes that a lease remembers


class Company(enum.Enum):
    """The other runs in the process that wants a run."""

    ANY = "any"
    FELLOWS = "fellows"  # only runs whose process died, all of them with the same one and for the first time
    NOBODY = "nobody"


class Lease:
    """A driver's claim on a run. `seq` is its last own write: while that is the head, nobody else wrote anything."""

    __slots__ = (
        "before", "cancelling", "disturbed", "driven_by_worker", "epoch", "first", "forsaken", "heads", "holder", "known_seq",
        "leaving", "moved", "seq", "stream", "token",
    )  # fmt: skip

    def __init__(self, stream: Stream, holder: str, token: int, seq: int) -> None:
        self.stream = stream
        self.holder = holder
        self.token = token
        self.seq = seq
        self.heads: deque[Head] = deque(maxlen=HEADS)  # after its last own writes, heard of or not; only verbs touch it
        self.cancelling = False
        self.disturbed = False  # somebody else has written to the stream since: an answer, a signal, a settlement
        self.leaving = False  # its process is about to end: the run is given back at the next thing that it does
        self.forsaken = False  # the run rests, though its program does not end: nobody waits for that program any more
        self.driven_by_worker = False  # a worker has it: its process is not the agent's to end
        self.known_seq: int | None = None  # the store was restored: what it did after this event may be forgotten
        self.before = ""  # the program that had it before
        self.epoch: int | None = None  # of the store, when it was claimed
        self.moved: Moved = {}  # versions that are other than before
        self.first = token == 1  # nobody had it before: there is nothing to replay


# -- taking a run ---------------------------------------------------------------------------------------------


@contended
def claim(
    tx: Tx, stream: Stream, *, holder: str, program: str, epoch: int, dead: Collection[str] = (),
    company: Company = Company.NOBODY, pins: Mapping[str, str] = NO_PINS, on_change: OnChange | None = None,
) -> Lease | None:  # fmt: skip
    """Take a run: the next token. None when it is not to be had, or is parked instead of being taken once more.

    epoch: as the caller believes; the store's own word counts, because another process may have raised it.
    dead: holders whose processes are proved gone. company: what else runs in this process. A run whose process died is a suspect
    until it comes to rest. It continues among its fellows, once; if their process dies too, alone from then on, and
    each further death counts. pins, on_change: the versions that this process has (none: unknown), and what its agent says of a
    change of them.
    """
    row = runs.row_of(tx, stream)
    abandoned = row["status"] == RUNNING and _is_void(tx, row["holder"], dead)
    if not abandoned and row["status"] != READY and not _is_due(tx, row):
        return None
    orphaned = abandoned and row["holder"] != holder  # a holder that only lost sight of it has not died with it
    if not _may_join(row, company, orphaned=orphaned):
        return None
    deaths = _deaths(tx, stream, row) if orphaned else row["deaths"]
    if deaths >= DEATHS_MAX:
        runs.park(tx, stream, "deaths", f"{deaths} processes died with it, one after the other, without any progress")
        return None
    if row["pinned"] and program != row["program"]:
        return None
    admission = run_pins.admit(tx, stream, row, pins, on_change)
    if admission is None:
        return None
    columns = {
        **admission.columns, "status": RUNNING.value, "holder": holder, "token": row["token"] + 1, "wake_at": None,
        "program": program, "deaths": deaths, "suspect": int(orphaned or bool(row["suspect"] and deaths)), "reason": None,
    }  # fmt: skip
    epoch = max(epoch, epochs.look_up(tx))
    if row["epoch"] != epoch:  # the store was restored since; of several times, what counts is the first
        columns |= {"epoch": epoch, "known_seq": tx.seq(stream) if row["known_seq"] is None else row["known_seq"]}
    presence.touch_holder(tx, holder)
    kind = RECOVERED if abandoned else CLAIMED
    seq = tx.record(Change(kind, stream, RUNS, Op.SET, set=columns, mark="claimed_seq"))
    lease = Lease(stream, holder, columns["token"], seq)
    lease.cancelling, lease.known_seq = bool(row["cancelling"]), columns.get("known_seq", row["known_seq"])
    lease.before, lease.epoch, lease.moved = row["program"], epoch, admission.moved
    return lease


def _is_void(reads: Reads, holder: str, dead: Collection[str]) -> bool:
    return holder in dead or not presence.is_alive(reads, holder)


def _is_due(tx: Tx, row: Row) -> bool:
    return row["status"] == WAITING and row["wake_at"] is not None and row["wake_at"] <= tx.store_now()


def _may_join(row: Row, company: Company, *, orphaned: bool) -> bool:
    """Whether a run that may have killed its process endangers nobody here who is not a suspect for the same death."""
    if row["suspect"]:
        return company is Company.NOBODY
    return not orphaned or company is not Company.ANY


def _deaths(tx: Tx, stream: Stream, row: Row) -> int:
    """Deaths in a row since it is a suspect: whatever came to its end since the last claim begins the count anew.

    The first of them was among fellows, if it had any: a run that did not cause it stays far from the limit, because it rests
    before.
    """
    if not row["suspect"]:
        return 0
    further = tx.query(Q.progress_after, touches=[(EVENTS, stream.id)], stream=stream.id, after=row["claimed_seq"])
    return 1 if further else row["deaths"] + 1


# -- the fence ------------------------------------------------------------------------------------------------


def fenced(
    tx: Tx, lease: Lease, verb: Callable[Concatenate[Tx, Stream, P], T], *args: P.args, **kwargs: P.kwargs
) -> tuple[T, int]:
    """Run a verb on the leased run, and give its result and the head after it. Stale, and nothing is written, if the
    lease was lost (P7). The head is 0 when the verb gave the lease up: whatever comes after it is looked at.
    """
    check_lease(tx, lease)
    result = verb(tx, lease.stream, *args, **kwargs)
    row = tx.changed(RUNS, lease.stream)
    if row is not None and row["status"] != RUNNING:
        return result, 0
    lease.heads.append(head := tx.head(lease.stream))
    return result, head[0]


def check_lease(tx: Tx, lease: Lease) -> None:
    """Nothing while the lease holds; the run's row is read only if somebody else wrote to the stream.

    A write whose caller was stopped before it heard of it, or that another branch has just made, is no one else's. A lease of
    before the database lost something is over: what its drive has done may be missing, and so may the lease.
    """
    epochs.check(tx, lease.epoch)
    head = tx.head(lease.stream)
    if head[0] == lease.seq or head in lease.heads:
        return
    lease.disturbed = True
    row = runs.row_of(tx, lease.stream)
    lease.cancelling = lease.cancelling or bool(row["cancelling"])
    if row["token"] != lease.token or row["status"] != RUNNING:
        raise Stale(f"run {lease.stream.name} is no longer this worker's", path="run", token=row["token"])


def claim_at(reads: Reads, stream: Stream, seq: int) -> tuple[str, int, bytes | None] | None:
    """The claim by which somebody drives a run at an event: its kind, instant and stored body. None if nobody does."""
    rows = reads.query(Q.drive_before, touches=[(EVENTS, stream.id)], stream=stream.id, seq=seq)
    return rows[0] if rows and rows[0][0] in CLAIMS else None


def lasted_us(reads: Reads, stream: Stream, seq: int) -> int:
    """How long the drive that recorded an event had lasted by then; 0 if its claim is not here."""
    rows = reads.query(Q.drive_lasted, touches=[(EVENTS, stream.id)], stream=stream.id, seq=seq)
    return max(rows[0][0] or 0, 0) if rows else 0


def holds(reads: Reads, lease: Lease) -> bool:
    """Whether the lease still stands: asked right before an external call."""
    if epochs.is_of_another(reads, lease.epoch):
        return False
    params = {"stream": lease.stream.id, "holder": lease.holder, "token": lease.token}
    return bool(
        reads.query(Q.lease_standing, touches=[(RUNS, lease.stream.id), (HOLDERS, lease.stream.tenant)], **params)
    )


# -- after a restore ------------------------------------------------------------------------------------------
#
# A part of a run from after the backup may be forgotten (docs/guarantees.md): `claim` notes the last event before the restore,
# which stands until the run ends or somebody vouches for it.


def has_strayed(reads: Reads, stream: Stream, known_seq: int) -> bool:
    """Whether a run has found out anything anew since its store was restored: from there on it may mean to do what it had done
    before, with other words.
    """
    return bool(reads.query(Q.found_out_after, touches=[(EVENTS, stream.id)], stream=stream.id, after=known_seq))
