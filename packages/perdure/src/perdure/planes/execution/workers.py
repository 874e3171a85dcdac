"""Workers: what they can take, who they are, and the tree of who runs what. Keeps P13, P15.

Taking itself is `leasing.claim`: what is found here is only a hint, and the claim decides. A run whose process died is a
*suspect* (it may have killed it) and is listed apart: suspects run one to a process. Callers: the handles of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from perdure.errors import Damaged
from perdure.log.change import Stream
from perdure.model.instants import SECOND_US, to_datetime
from perdure.model.records.runs import RunStatus
from perdure.model.records.workers import About, HeldRecord, QueueRecord, StrandedRecord, WorkerRecord, WorkersRecord
from perdure.planes.execution import runs
from perdure.planes.reading.body_reading import inline_body
from perdure.planes.reading.durations import store_now
from perdure.planes.reading.row_reading import stored_instant
from perdure.planes.recovery import presence
from perdure.planes.tables import RUNS, WORKERS
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

Q = Statements("perdure.planes.execution", "workers.sql")

ROWS_MAX = 1_000
OVERTAKING = 8  # of so many runs for each place of all workers, a worker claims its own share first
# The status of what can be taken, and whether it must be due.
TAKEABLE = ((RunStatus.READY, None), (RunStatus.WAITING, 1))
IsDead = Callable[[str], bool]


class FoundRun(NamedTuple):
    """A run that can perhaps be taken. pinned: the only program that may drive it, if there is one."""

    agent: str
    holder: str | None
    suspect: bool
    parent: str | None
    stream: Stream
    pinned: str | None = None

    @property
    def uid(self) -> bytes:
        """The identity of its stream."""
        return self.stream.uid


class Look(NamedTuple):
    """A worker's view: the runs that it can take, suspects, and when (microseconds from now) the next waiting run is due.

    introduced: whether it is still written down. Others forget who gave no sign of life; it may have been only stopped.
    held: how many runs it has. place, workers: its place among the living workers, and their number.
    """

    takeable: list[FoundRun]
    suspects: list[FoundRun]
    wake_left_us: int | None
    introduced: bool
    held: int = 0
    place: int = 0
    workers: int = 1

    def in_own_order(self, runs: Sequence[FoundRun], room: int) -> list[FoundRun]:
        """Runs in the order in which this worker claims them: its own share first, and then any.

        A run belongs to one of the living workers by its hash, so that they do not all claim the same; of what belongs to others
        each has an order of its own. Shares count only among the oldest runs: a run whose worker has no room is overtaken by a
        few others, not by all of them.
        """
        near = room * self.workers * OVERTAKING
        share = partial(_share, place=self.place, workers=max(1, self.workers))
        return [*sorted(runs[:near], key=share), *runs[near:]]


def _share(run: FoundRun, place: int, workers: int) -> int:
    """Where a run comes in the order of the worker at this place; 0: it belongs to it."""
    if int.from_bytes(run.uid[-4:]) % workers == place:
        return 0
    return crc32(run.uid, place + 1)


class Drivable(NamedTuple):
    """The abilities of a worker: the names of its agents and the digests of their programs."""

    agents: str
    programs: str


def drivable(agents: Iterable[str], programs: Iterable[str]) -> Drivable:
    """The abilities, as the statements take them."""
    return Drivable(msgspec.json.encode(sorted(set(agents))).decode(), "".join(f"|{digest}|" for digest in programs))


# -- what can be taken -----------------------------------------------------------------------------------------


def look(reads: Reads, what: Drivable, limit: int, is_dead: IsDead, me: str) -> Look:
    """The work for a worker. Only a hint: `leasing.claim` decides. limit: 0 when it has no room."""
    takeable = [*_takeable(reads, what, limit)] if limit else []
    holders = reads.query(Q.holders_of_runs, tenant=reads.tenant)
    void = [holder for holder, good, _ in holders if holder != me and (not good or is_dead(holder))]
    suspects = [run for holder in void for run in held_by(reads, holder)]
    left_us, place, living, introduced = reads.query(Q.wake_left, tenant=reads.tenant, me=me)[0]
    held = sum(count for holder, _, count in holders if holder == me)
    return Look(takeable, suspects, left_us, introduced=bool(introduced), held=held, place=place, workers=living)


def _takeable(reads: Reads, what: Drivable, limit: int) -> Iterator[FoundRun]:
    """Ready runs, and waiting ones past their time, oldest first."""
    for status, due in TAKEABLE:
        params = {"status": status.value, "due": due, "limit": limit, **what._asdict()}
        yield from (_run_of_row(row) for row in reads.query(Q.runs_takeable, tenant=reads.tenant, **params))


def held_by(reads: Reads, holder: str) -> list[FoundRun]:
    """The runs that a holder has."""
    return [_run_of_row(row) for row in reads.query(Q.runs_held_by, tenant=reads.tenant, holder=holder, limit=ROWS_MAX)]


def _run_of_row(row: tuple[Any, ...]) -> FoundRun:
    agent, holder, suspect, parent, pinned, *stream = row
    return FoundRun(agent, holder, bool(suspect), parent, Stream(*stream), pinned)


def give_back(tx: Tx, stream: Stream, holder: str) -> bool:
    """Release a run that a holder has without knowing it: its claim was committed, and nobody was told. Whether it had it."""
    row = tx.row(RUNS, stream)
    if row is None or row["status"] != RunStatus.RUNNING or row["holder"] != holder:
        return False
    runs.release(tx, stream)
    return True


# -- who they are ----------------------------------------------------------------------------------------------


def introduce(tx: Tx, holder: str, about: About, dead: Iterable[str] = ()) -> None:
    """Begin a worker's heartbeat and write down what it can do; workers that are gone are forgotten."""
    presence.touch_holder(tx, holder)
    for former in {*dead, *(lapsed for (lapsed,) in tx.query(Q.workers_lapsed, tenant=tx.tenant))}:
        tx.touch(WORKERS, {"holder": former}, None)
    tx.touch(WORKERS, {"holder": holder}, {"about": msgspec.json.encode(about).decode()})


def holders(reads: Reads) -> list[str]:
    """Everybody who introduced itself as a worker and did not leave."""
    return [row[0] for row in reads.query(Q.workers_all, tenant=reads.tenant)]


def leave(tx: Tx, holder: str) -> None:
    """A worker ends cleanly."""
    tx.touch(WORKERS, {"holder": holder}, None)


# -- what people see -------------------------------------------------------------------------------------------


def tree(reads: Reads, is_dead: IsDead) -> WorkersRecord:
    """The living workers, who runs what since when, and what waits for somebody to take it."""
    now_us = store_now(reads)
    held: dict[str, list[HeldRecord]] = {}
    for row in reads.query(Q.runs_running, tenant=reads.tenant, limit=ROWS_MAX):
        held.setdefault(row[0], []).append(_held(now_us, row))
    workers = [_worker(row, held.pop(row[0], [])) for row in reads.query(Q.workers_all, tenant=reads.tenant)]
    workers += [_stranger(reads, holder, theirs) for holder, theirs in held.items()]
    workers = [msgspec.structs.replace(worker, alive=worker.alive and not is_dead(worker.holder)) for worker in workers]
    worth_showing = [worker for worker in workers if worker.alive or worker.runs]
    return WorkersRecord(
        to_datetime(now_us), tuple(worth_showing), tuple(_queue(reads, worth_showing)), tuple(stranded(reads))
    )


def unfinished(reads: Reads) -> int:
    """How many runs of this tenant are not over."""
    counted = sum(count for _, _, count, _ in reads.query(Q.runs_counted, tenant=reads.tenant))
    return counted + sum(count for _, count in reads.query(Q.runs_parked, tenant=reads.tenant))


def stranded(reads: Reads) -> list[StrandedRecord]:
    """Runs that could be taken, and are pinned to a program that nobody who lives has."""
    rows = [
        row
        for status, due in TAKEABLE
        for row in reads.query(Q.runs_pinned, tenant=reads.tenant, status=status.value, due=due, limit=ROWS_MAX)
    ]
    had = _programs(reads) if rows else frozenset()
    return [
        StrandedRecord(run, agent, program, stored_instant(since, f"run {run}"))
        for run, agent, program, since in rows
        if program not in had
    ]


def _programs(reads: Reads) -> frozenset[str]:
    """The programs of the workers that live."""
    workers = [_worker(row, []) for row in reads.query(Q.workers_all, tenant=reads.tenant)]
    living = [worker for worker in workers if worker.alive and not reads.clocks.is_dead(worker.holder)]
    return frozenset(program for worker in living if worker.about is not None for program in worker.about.programs)


def _held(now_us: int, row: tuple[Any, ...]) -> HeldRecord:
    _, run, agent, parent, session, since, kind, table, at, body, deaths, suspect, cancelling = row
    where = f"run {run}"
    return HeldRecord(
        run=run, agent=agent, parent=parent, session=session, since=stored_instant(since, where),
        doing=_doing(kind, table, body, where), last_at=stored_instant(at, where),
        quiet_seconds=max(0.0, (now_us - at) / SECOND_US), deaths=deaths, suspect=bool(suspect),
        cancelling=bool(cancelling),
    )  # fmt: skip


def _doing(kind: str, table: str, stored: bytes | None, where: str) -> str:
    """The last thing that a run recorded, in two words: what it does now comes after it."""
    body = inline_body(stored, where)
    if table == "steps":
        name = body.doc.get("name") if isinstance(body.doc, dict) else None
    else:
        name = body.set.get("tool")
    return f"{kind} {name}" if name else kind


def _worker(row: tuple[Any, ...], held: list[HeldRecord]) -> WorkerRecord:
    holder, about, actor, host, started_at, alive = row
    where = f"worker {holder}"
    try:
        details = msgspec.json.decode(about, type=About)
    except msgspec.DecodeError as error:
        raise Damaged(f"the stored data is no worker: {error}", path=where) from None
    started = None if started_at is None else stored_instant(started_at, where)
    return WorkerRecord(
        holder=holder,
        actor=actor or "",
        host=host or "",
        started_at=started,
        alive=bool(alive),
        about=details,
        runs=tuple(held),
    )


def host_of(reads: Reads, holder: str) -> str:
    """The machine of a holder; nothing if it never gave a sign of life."""
    rows = reads.query(Q.holder_get, tenant=reads.tenant, holder=holder)
    return (rows[0][1] or "") if rows else ""


def _stranger(reads: Reads, holder: str, held: list[HeldRecord]) -> WorkerRecord:
    """Somebody who has runs and is no worker: a program that drives them itself, or one that is gone."""
    rows = reads.query(Q.holder_get, tenant=reads.tenant, holder=holder)
    actor, host, started_at, alive = rows[0] if rows else ("", "", None, 0)
    started = None if started_at is None else stored_instant(started_at, f"holder {holder}")
    return WorkerRecord(
        holder=holder, actor=actor, host=host, started_at=started, alive=bool(alive), about=None, runs=tuple(held)
    )


def _queue(reads: Reads, living: Iterable[WorkerRecord]) -> list[QueueRecord]:
    agents = {name for worker in living if worker.alive and worker.about is not None for name in worker.about.agents}
    counts: dict[str, dict[str, int]] = {name: {} for name in agents}
    oldest: dict[str, int] = {}
    for agent, status, count, first in reads.query(Q.runs_counted, tenant=reads.tenant):
        counts.setdefault(agent, {})[status] = count
        if status == RunStatus.READY:
            oldest[agent] = first
    for agent, count in reads.query(Q.runs_parked, tenant=reads.tenant):
        counts.setdefault(agent, {})["parked"] = count
    return [_counted(agent, counts[agent], oldest.get(agent), is_known=agent in agents) for agent in sorted(counts)]


def _counted(agent: str, by_status: dict[str, int], oldest: int | None, *, is_known: bool) -> QueueRecord:
    ready, running, waiting, parked = (by_status.get(name, 0) for name in ("ready", "running", "waiting", "parked"))
    first = None if oldest is None else stored_instant(oldest, f"agent {agent}")
    return QueueRecord(
        agent=agent, known=is_known, ready=ready, running=running, waiting=waiting, parked=parked, oldest_ready_at=first
    )
