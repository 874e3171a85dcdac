"""Driving a run from the other side of a wire: the engine of runs, one transaction at a time (docs/decisions/0057).

A worker in another process, in any language, has the program. It calls the functions; each verb of its run comes here as one
request. The request runs the generator of that verb inside a single transaction, up to the first command that only the worker can
carry out: a call of its tool or its probe. Nothing is kept between two requests but in the store, so a server may be killed
between any two. A request names a place, and what is recorded there is given again: each is safe to repeat.
Callers: the routes of workers. Keeps P2-P4, P7, P13.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

from perdure.effects import ledger, orphaned
from perdure.effects.commands import (
    CallFunction,
    CallIsolated,
    CheckLease,
    Ending,
    Pause,
    Read,
    Steps,
    Write,
    carried,
)
from perdure.effects.effect_engine import EffectEngine
from perdure.effects.tool import Tool
from perdure.errors import Conflict, Invalid, Stale
from perdure.log.change import Stream
from perdure.model.records.effects import EffectRecord, EffectState, Rule, ToolKind
from perdure.model.records.runs import RunRecord, RunStatus, StepRecord, WaitRecord
from perdure.planes.execution import leases, runs, steps, waits
from perdure.planes.execution.leases import Lease
from perdure.runtime.agent import HOLD_SECONDS, Agent, Policy
from perdure.runtime.heartbeat import Heartbeat
from perdure.runtime.journal import Branch, Journal, load_journal
from perdure.runtime.run_engine import RunEngine
from perdure.runtime.stopping import Suspended
from perdure.stores.core import Core
from perdure.stores.in_flight import InFlight
from perdure.stores.store import Reads
from perdure.stores.tool_limits import Slots
from perdure.stores.tx import Tx

PLACE_MAX_CHARS = 300
BACKOFF_SECONDS = 0.5


class RemoteClaim(NamedTuple):
    """The claim of a remote worker, as each of its requests names it: its name, and the token of its lease."""

    holder: str
    token: int


class Next(enum.StrEnum):
    """The next thing for the worker to do."""

    GIVEN = "given"  # it is over: continue with what is given
    SEND = "send"  # call the tool now, then say what came of it
    PROBE = "probe"  # ask the other side, then say what it said
    REST = "rest"  # nothing can be done now: once no other branch of the run is at work, let it rest
    END = "end"  # the run was cancelled, or its time is over: end the program


class RequestResult(NamedTuple):
    """The result of a request. value: the record at its place, if there is one. why: the reason of a rest or an end.

    seq: the head before the request. news: marks of the places that were taken up to there, as far as the server did not know
    them.
    """

    next: Next
    value: Any
    seq: int
    news: dict[str, PlaceMark]
    why: str = ""
    wake_us: int | None = None
    awaited: tuple[int, ...] = ()
    cancelling: bool = False
    pause_seconds: float = 0.0


class PlaceMark(NamedTuple):
    """The kind of a recorded thing, and its number."""

    what: str
    seq: int


class KnownPlaces:
    """Places that a server knows to be taken in a claimed run, up to an event: a cache, so that no request reads all of them."""

    __slots__ = ("marks", "seq")

    def __init__(self, seq: int) -> None:
        self.marks: dict[str, PlaceMark] = {}
        self.seq = seq

    def learn(self, reached: RequestResult) -> None:
        """A request was committed: what it found is known from here on."""
        self.marks.update(reached.news)
        self.seq = max(self.seq, reached.seq)


class RemoteAgent(Agent):
    """An agent whose function is elsewhere."""

    def __init__(self, name: str, program: str, timeout: Any = None) -> None:
        self.fn = self.__wrapped__ = _elsewhere
        self.name = name
        self.policy = Policy()
        self.timeout = timeout
        self.limit = self.workspace = None
        self.hold_seconds = HOLD_SECONDS
        self.pins, self.versions, self.on_change = {}, {}, None  # of what a remote worker starts, nothing is known
        self.is_async = False
        self.program = program


def _elsewhere(*_args: Any, **_kwargs: Any) -> Any:
    raise AssertionError("a function of a remote worker is never called here")


def remote_tool(name: str, kind: ToolKind, rule: Rule, *, can_probe: bool = False) -> Tool:
    """A tool whose function is elsewhere."""
    probe: Any = _elsewhere if can_probe else None
    return Tool(
        _elsewhere, name, kind, rule, probe=probe, undo=None, fails=(), guards=(), limit=None, isolate=False,
        backoff=BACKOFF_SECONDS, keep="all",
    )  # fmt: skip


class GivenPlace(Branch):
    """The one place that a request names."""

    __slots__ = ("_place",)

    def __init__(self, place: str) -> None:
        super().__init__()
        self._place = place

    def next_place(self, cut: int) -> str:  # noqa: ARG002 - it was checked against the run
        """The place of the request."""
        return self._place


class _Senders(InFlight):
    """Attempts that may still be under way: of a remote process it is never known that one is not."""

    def has_attempt(self, stream: int, effect: int, attempts: int) -> bool:  # noqa: ARG002
        return True


class RemoteSender:
    """The sending side of an effect (`effect_engine.SendingStore`), where the sender is a remote worker."""

    def __init__(self, core: Core, holder: str) -> None:
        self._core = core
        self.acts = core.acts
        self.holder = holder
        self.guards = core.guards
        self.liveness = core.liveness
        self.in_flight: InFlight = _Senders()
        self.slots = Slots()
        self.keep_seconds = core.keep_seconds
        self.kept_since = core.kept_since

    @property
    def epoch(self) -> int:
        """The store's, as far as this process has heard."""
        return self._core.epoch

    @property
    def clock_moves(self) -> bool:
        """Whether waiting helps."""
        return self._core.clock_moves

    def write(self, verb: Callable[..., Any], *args: Any, actor: str, tenant: int) -> Any:
        """Run a verb in a transaction of its own."""
        return self._core.write(verb, *args, actor=actor, tenant=tenant)


class HandedOver(Exception):
    """The engine has come to a call that only the worker can make."""

    def __init__(self, what: Next) -> None:
        super().__init__(what)
        self.what = what


class TransactionShell:
    """Carries out the commands of the engine inside one transaction. Raises HandedOver at the first call.

    A pause is left to the worker, which was told of it with the outcome before.
    """

    __slots__ = ("_stream", "_tx")

    def __init__(self, tx: Tx, stream: Stream) -> None:
        self._tx = tx
        self._stream = stream

    def run(self, made: Steps[Any]) -> Any:
        """Run it to its end, or to the first call."""
        return carried(made, self._carry_out, leave=(HandedOver,))

    def _carry_out(self, command: Any) -> Any:
        match command:
            case Write():
                return command.verb(self._tx, self._stream, *command.args, **command.kwargs)
            case Read(verb, args, kwargs):
                return verb(self._tx, *args, **kwargs)
            case CheckLease():
                return None  # it was checked in this very transaction
            case Pause():
                return None
            case CallFunction(late=late):
                raise HandedOver(Next.PROBE if late is None else Next.SEND)
            case CallIsolated():
                raise HandedOver(Next.SEND)
        raise AssertionError(f"a remote run comes to {command!r}")


# -- the fence -------------------------------------------------------------------------------------------------------


def fence(tx: Tx, stream: Stream, hold: RemoteClaim) -> Lease:
    """The lease that a request names. Stale, with what happened to it, if the run is no longer this worker's (P7)."""
    row = runs.row_of(tx, stream)
    lease = Lease(stream, hold.holder, hold.token, -1)
    lease.epoch, lease.known_seq, lease.before = row["epoch"], row["known_seq"], row["program"]
    lease.driven_by_worker = True
    if row["token"] == hold.token and row["holder"] == hold.holder:
        leases.check_lease(tx, lease)
        return lease
    if row["token"] == hold.token and row["status"] != RunStatus.RUNNING:
        said = f"the lease with token {hold.token} was given up: run {stream.name} is {row['status']}"
    elif row["token"] > hold.token:
        said = f"run {stream.name} was taken over: its token is {row['token']}, and yours is {hold.token}"
    else:
        said = f"run {stream.name} is not held by {hold.holder} under token {hold.token}"
    raise Stale(said, path="token", hint="leave it: claim again", token=row["token"], status=row["status"])


def was_given_up(tx: Tx, stream: Stream, hold: RemoteClaim) -> RunRecord | None:
    """The run as it stands, if it was given up under this very token: the request that did so is repeated. None if not."""
    row = runs.row_of(tx, stream)
    return runs.run(tx, stream) if row["token"] == hold.token and row["status"] != RunStatus.RUNNING else None


def check_place(place: str, record: RunRecord) -> str:
    """A place of the run since its last checkpoint: `cut/branch/ordinal`. Invalid or Conflict if it is none."""
    cut, slash, rest = place.partition("/")
    if not slash or "/" not in rest or len(place) > PLACE_MAX_CHARS or not place.isprintable() or not _is_count(cut):
        raise Invalid(f"expected a place such as 0//1, got {place[:60]!r}", path="place", hint="cut/branch/ordinal")
    if int(cut) != record.cuts:
        said = f"{place} is a place of cut {cut}, and the run is at cut {record.cuts}"
        raise Conflict(said, path="place", cut=record.cuts)
    return place


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


# -- one request -----------------------------------------------------------------------------------------------------


class RemoteRequest:
    """One request of a remote worker, inside its transaction."""

    __slots__ = ("_known", "branch", "engine", "lease", "marks", "record", "seq", "shell", "side", "stream", "tx")

    def __init__(
        self,
        tx: Tx,
        stream: Stream,
        core: Core,
        heartbeat: Heartbeat,
        hold: RemoteClaim,
        known: KnownPlaces,
        place: str = "",
    ) -> None:
        self.tx, self.stream = tx, stream
        self.lease = fence(tx, stream, hold)
        self.record = record = runs.run(tx, stream)
        self._known = known
        self.seq = tx.seq(stream)
        self.marks = marks_after(tx, stream, max(known.seq, record.cut_seq))
        self.branch = GivenPlace(check_place(place, record) if place else "")
        self.side = RemoteSender(core, hold.holder)
        agent = RemoteAgent(record.agent, record.program)
        self.engine = engine = RunEngine(
            core=core, heartbeat=heartbeat, actor=tx.actor, tenant=tx.tenant, agent=agent, lease=self.lease,
            record=record,
        )  # fmt: skip
        engine.trunk = self.branch
        engine.replay.unread = False
        engine.hold.ahead_us = core.clocks.now() - tx.store_now()
        engine.effects = EffectEngine(
            self.side, stream, tx.actor, tx.tenant, in_run=True, token=hold.token,
            check_may_continue=engine.hold.check_may_continue,
        )  # fmt: skip
        if place:
            engine.replay.journal = self._journal_at(place)
        self.shell = TransactionShell(tx, stream)

    def _journal_at(self, place: str) -> Journal:
        """The journal of this one place, as it stands now."""
        mark = self.marks.get(place) or self._known.marks.get(place)
        if mark is None:
            return Journal()
        if mark.what == "step":
            return Journal(steps=steps.steps(self.tx, self.stream, mark.seq - 1)[:1])
        if mark.what == "effect":
            return Journal(effects=[ledger.effect(self.tx, self.stream, mark.seq)])
        return Journal(waits=[waits.wait(self.tx, self.stream, mark.seq)])

    def reach(self, made: Steps[Any], look: Callable[[], Any] = lambda: None) -> RequestResult:
        """Run a verb as far as it comes here. look: the record at the place, if the verb does not give it."""
        awaited = self.engine.activity.awaited
        try:
            return self.reached(Next.GIVEN, self.shell.run(made))
        except HandedOver as handed:
            return self.reached(handed.what, look())
        except Suspended as paused:
            reached = self.reached(Next.REST, look())
            return reached._replace(why=paused.reason, wake_us=paused.wake_us, awaited=tuple(sorted(awaited)))
        except Ending as ending:
            return self.reached(Next.END, look())._replace(why=ending.code)

    def reached(self, following: Next, value: Any) -> RequestResult:
        """The result of this request."""
        return RequestResult(
            next=following, value=value, seq=self.seq, news=self.marks, cancelling=self.lease.cancelling,
        )  # fmt: skip

    @property
    def unsent_effect(self) -> EffectRecord | None:
        """The effect at the place, if it was dispatched under this very lease: its sender lost our answer, and may send it."""
        found = next((entry.record for _, entry in self.engine.replay.journal.entries), None)
        if not isinstance(found, EffectRecord) or found.state is not EffectState.DISPATCHED:
            return None
        if found.holder != self.lease.holder or found.epoch != self.side.epoch:
            return None
        claimed_seq = runs.row_of(self.tx, self.stream)["claimed_seq"]
        return found if orphaned.was_dispatched_after(self.tx, found, self.stream, claimed_seq) else None


def marks_after(reads: Reads, stream: Stream, after: int) -> dict[str, PlaceMark]:
    """The places that were taken after an event."""
    found = load_journal(reads, stream, after).entries
    return {place: PlaceMark(entry.kind, entry.record.seq) for place, entry in found}


def recorded(reads: Reads, stream: Stream, record: RunRecord, after: int) -> list[tuple[str, Any]]:
    """The record at each place of a run since its last checkpoint, in order, after an event. Raises Parked and Damaged."""
    found = load_journal(reads, stream, max(after, record.cut_seq)).entries
    return [
        (place, entry) for place, entry in found if isinstance(entry.record, (StepRecord, EffectRecord, WaitRecord))
    ]
