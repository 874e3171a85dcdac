# Generated from handles/aio/runs.py by tools/unasync.py: edit that one.
"""Handles for runs: starting, driving and recovering them, and what people say to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Concatenate, Generic, overload

from perdure.effects import ending, ledger, operator_verbs
from perdure.effects.outcomes import in_doubt_about
from perdure.effects.settling import settle_with
from perdure.errors import (
    Cancelled,
    Changed,
    Conflict,
    Damaged,
    Error,
    Failed,
    Invalid,
    NotFound,
    Parked,
    TimedOut,
    Waiting,
)
from perdure.handles.programs import run_for
from perdure.handles.sync.base import StoreHandle
from perdure.handles.sync.effects import Effect
from perdure.handles.sync.envelope import Enveloping
from perdure.log.change import Stream
from perdure.model.functions import Coro, P, R, R_co
from perdure.model.instants import SECOND_US, instant_us
from perdure.model.lazily import lazily
from perdure.model.records.differences import RunDiff
from perdure.model.records.effects import EffectState
from perdure.model.records.runs import (
    RunRecord,
    RunStatus,
    RunStatusName,
    StepRecord,
    WaitKind,
    WaitRecord,
    WaitState,
    WaitStateName,
)
from perdure.planes import subjects as adding
from perdure.planes.execution import runs, steps, waits
from perdure.planes.reading.durations import Duration, Instant, pauses, store_now
from perdure.planes.reading.origins import check_seq
from perdure.planes.reading.paging import Page
from perdure.planes.recovery import leases
from perdure.planes.recovery.leases import Lease
from perdure.runtime import course, shells
from perdure.runtime.agent import DECLARED, Agent, as_agent, by_name, unknown
from perdure.runtime.callers import FrozenCaller
from perdure.runtime.course import Drive
from perdure.runtime.outward import DOUBT
from perdure.stores.tx import Tx

if TYPE_CHECKING:
    from perdure.effects import adopting, timeline, what_if
    from perdure.planes.audit import diff, history
    from perdure.planes.execution import workers
else:
    adopting, timeline, what_if = lazily("perdure.effects", "adopting", "timeline", "what_if")
    diff, history = lazily("perdure.planes.audit", "diff", "history")
    (workers,) = lazily("perdure.planes.execution", "workers")

CLAIMED_AT_ONCE = 50  # runs that one recovery looks at
ANSWERED = (WaitKind.ASK, WaitKind.APPROVAL, WaitKind.SIGNAL)  # by somebody, at any time
LOOK_SECONDS = 0.5  # how often a drive that waits for the clock or for children looks


class RunHandle(Enveloping, Generic[R_co]):
    """One run, from outside. Shows what was last known of it; `refresh` looks again."""

    __slots__ = ("_record",)

    def __init__(self, caller: Any, stream: Stream, record: RunRecord) -> None:
        super().__init__(caller, stream)
        self._record = record

    @property
    def record(self) -> RunRecord:
        """All that was last known, as plain data."""
        return self._record

    @property
    def id(self) -> str:
        """Its name in the store."""
        return self._record.id

    @property
    def status(self) -> RunStatus:
        """ready, running, waiting, completed, failed, cancelled or parked."""
        return self._record.status

    def refresh(self) -> RunHandle[R_co]:
        """Look again; returns itself."""
        self._record = self._read(runs.run)
        return self

    def at(self, moment: history.Moment) -> RunHandle[R_co]:
        """This run as it was after an event, at an instant, or some time ago ("2h"): for reading only.

        Its steps, effects, waits and timeline, as they stood. Costs a fold of its history up to that point, into memory.
        Writing raises ReadOnly; Invalid when there was nothing then, and for a moment that has not come yet.
        """
        view = self._read(history.view, moment, self._caller.core)
        frozen = FrozenCaller(view.core, self._caller.actor, view.tenant)
        return RunHandle(frozen, view.stream, frozen.read(runs.run, view.stream))

    def fork(self, at: int | str, replace: Any, *, allow_effects: bool = False) -> RunHandle[R_co]:
        """Another run that goes on from a place of this one, as if that had given `replace`; this one is left as it is.

        at: the place of a step, an effect or an answer, or its number. Recorded work gives what it gave and is not done again; an
        effect under way stays this run's. The new run asks a person before any external call, and is parked before it undoes,
        starts runs or writes to sessions, unless `allow_effects`. Atomic; not idempotent. Raises
        NotFound for no such place, Conflict while that has no result, Invalid for a value that cannot be kept.
        """
        target = self._read(what_if.target, at)
        past = self.at(target.known_at)
        made = past._read(what_if.suppose, target, replace, self._witness(), acts=bool(allow_effects))
        stream = self._caller.write(adopting.adopt, made.envelope, made.luggage, self._caller.core.epoch)
        return RunHandle(self._caller, stream, self._caller.read(runs.run, stream))

    def diff(self, other: RunHandle) -> RunDiff:
        """The differences from this run to another one: `run.at("2h").diff(run)`, or a run and its fork.

        How it stands, and its steps, effects and waits by their place. Reads alone; each side is one state. Costs what both did.
        """
        if not isinstance(other, RunHandle):
            raise Invalid(f"expected a run, got {type(other).__name__}", path="other")
        return diff.diff_runs(self._read(timeline.stand), other._read(timeline.stand))

    def result(self, timeout: Duration | None = None) -> R_co:
        """Its result, waiting for its end if need be, from any process. timeout: TimedOut after it; None: do not wait.

        Raises Failed, Cancelled or Parked if that is how it ended, Waiting if it waits and no time is given.
        """
        self.refresh()
        for pause in pauses(timeout, "timeout"):
            if self._record.ended or self._record.status is RunStatus.PARKED:
                break
            self._caller.pause(pause)
            self.refresh()
        return self._outcome(waited=timeout is not None)

    def _outcome(self, *, waited: bool) -> Any:
        if self._record.ended or self._record.status is RunStatus.PARKED:
            return course.ended_as(self._record)
        if self._record.status is RunStatus.WAITING and not waited:
            raise waiting_for(self)
        untaken = "nobody has taken it: `perdure worker MODULE` drives it, or store.drive does here"
        hint = untaken if self._record.status is RunStatus.READY else "wait longer, or look at `perdure show`"
        raise TimedOut(f"run {self.id} is {self.status}", path="run", hint=hint)

    def waits(self) -> list[WaitRecord]:
        """The open waits."""
        return self._read(waits.waiting)

    def effects(self, *, open: bool = False) -> list[Effect]:  # noqa: A002 - the word of the other lists
        """Its effects, oldest first. open: those that are not settled."""
        after = self._record.cut_seq if open else 0  # a cut leaves nothing open behind it
        found = self._read(ledger.all_effects, after=after, open_only=open)
        return [Effect(self._caller, self._stream, "", record) for record in found]

    def steps(self, *, after: int | None = None) -> list[StepRecord]:
        """Its steps since its last checkpoint, oldest first. after: since that event; 0: all."""
        since = self._record.cut_seq if after is None else after
        return self._read(steps.left, check_seq(since, "after") if since else 0)

    def input_of(self, step: int) -> dict[str, Any]:
        """The input of the model of a step, by the number of its event: `args` and `kwargs`. NotFound if there is none."""
        return self._read(steps.input_of, step)

    def signal(self, name: str, payload: Any = None, *, about: Iterable[str] = ()) -> None:
        """Send it a signal, which waits there until it is taken. Conflict when the run is over, or was handed over. about: whom
        it is about, besides those of the run.
        """
        self._write(waits.signal, name, payload, about=about)

    def add_subjects(self, *subjects: str) -> tuple[str, ...]:
        """The whole run is about these persons or things: everything in it, and the runs that it started. Returns all of its
        subjects. Idempotent.
        """
        return self._write(adding.add_to_run, subjects)

    def cancel(self, why: str = "") -> RunHandle[R_co]:
        """Ask it to end. Returns itself.

        One that nobody holds is over at once, unless it did what can be undone: then whoever takes it next lets it do so; if
        it is parked again instead, cancelling it once more ends it as it is. One that runs is told at its next step. Raises
        Conflict for one that was handed over.
        """
        self._write(ending.cancel, why, self._caller.core.epoch)
        return self.refresh()

    def resume(self, *, vouch: bool = False) -> RunHandle[R_co]:
        """Let a waiting or parked run be looked at again: after a deploy, or when what it waits for is known to have come.

        An undo that failed is tried again.

        vouch: after a restore, say that all it did outside is recorded here: nobody is asked any more before it does
        something unsafe. Conflict for one that was handed over: see `unpark`.
        """
        return self._told(operator_verbs.resume, self._caller.core.epoch if vouch else None)

    def retry(self) -> RunHandle[R_co]:
        """Try it again where it failed: what it did is kept, what failed last is done anew; its time begins anew if it is over.

        Raises Conflict if it did not fail, was handed over, or undid what it did when it failed.
        """
        return self._told(operator_verbs.retry)

    def unpark(self) -> RunHandle[R_co]:
        """Let a parked run go on; one that was handed over only if it was adopted nowhere, and what was handed over with it comes
        back too. An undo that failed is tried again. Conflict if it is not parked.
        """
        return self._told(operator_verbs.unpark)

    def pin(self, program: str | None) -> RunHandle[R_co]:
        """Let only workers with this very program take it; None: any. Conflict if it is completed.

        A run that failed or was cancelled may be pinned before `retry`.
        """
        return self._told(runs.pin, program)

    def _told(
        self, verb: Callable[Concatenate[Tx, Stream, P], Any], *args: P.args, **kwargs: P.kwargs
    ) -> RunHandle[R_co]:
        self._write(verb, *args, **kwargs)
        return self.refresh()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r}, {self._record.agent!r}, {self.status.value})"


def waiting_for(handle: RunHandle) -> Waiting:
    """The error that says what a run waits for, and which command lets it continue."""
    open_ones = handle.waits()
    asked = [each for each in open_ones if each.kind in waits.PEOPLE]
    signals = [each.name for each in open_ones if each.kind is WaitKind.SIGNAL]
    doubts = [each for each in handle.effects(open=True) if each.state is EffectState.IN_DOUBT]
    ways = [waits.answer_with(each) for each in asked] + [f"check, then run {settle_with(each.id)}" for each in doubts]
    ways += [f"`store.signal({handle.id!r}, {name!r})`" for name in signals]
    said = [each.question for each in asked] + [in_doubt_about(each.record) for each in doubts]
    said += [f"the signal {name!r}" for name in signals]
    until = handle.record.wake_at.isoformat() if handle.record.wake_at is not None else None
    if handle.record.reason == DOUBT and until:
        ways.append(f"the next check is at {until}")
    elif until and not said:
        ways.append(f"it can continue at {until}, and store.drive(…, wait=True) waits for that")
    return Waiting(
        f"waiting: {'; '.join(said) or handle.record.reason}", path=f"run {handle.id}",
        hint="; ".join([*ways, "then drive it again, if no worker does"]), run=handle.id,
        asks=[each.id for each in asked], doubts=[each.id for each in doubts], until=until,
    )  # fmt: skip


class Runs(StoreHandle):
    """Agents: starting, driving, recovering, and what people answer."""

    __slots__ = ()

    @overload
    def start(
        self, agent: Callable[..., Coro[R]], /, *args: Any, key: str | None, session: str | None = None,
        about: Iterable[str] = (), **kwargs: Any,
    ) -> RunHandle[R]: ...  # fmt: skip
    @overload
    def start(
        self, agent: Callable[..., R], /, *args: Any, key: str | None, session: str | None = None,
        about: Iterable[str] = (), **kwargs: Any,
    ) -> RunHandle[R]: ...  # fmt: skip
    @overload
    def start(
        self,
        agent: Callable[..., Coro[R]],
        /,
        *args: Any,
        session: str | None,
        about: Iterable[str] = (),
        **kwargs: Any,
    ) -> RunHandle[R]: ...
    @overload
    def start(
        self, agent: Callable[..., R], /, *args: Any, session: str | None, about: Iterable[str] = (), **kwargs: Any
    ) -> RunHandle[R]: ...
    @overload
    def start(
        self, agent: Callable[..., Coro[R]], /, *args: Any, about: Iterable[str], **kwargs: Any
    ) -> RunHandle[R]: ...
    @overload
    def start(self, agent: Callable[..., R], /, *args: Any, about: Iterable[str], **kwargs: Any) -> RunHandle[R]: ...
    @overload
    def start(
        self, agent: Callable[Concatenate[Any, P], Coro[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> RunHandle[R]: ...
    @overload
    def start(self, agent: Callable[Concatenate[Any, P], R], /, *args: P.args, **kwargs: P.kwargs) -> RunHandle[R]: ...
    def start(
        self,
        agent: Callable[..., Any],
        /,
        *args: Any,
        key: str | None = None,
        session: str | None = None,
        about: Iterable[str] = (),
        **kwargs: Any,
    ) -> RunHandle:
        """Begin a run and leave it to the workers. The same key and arguments again: the same run. Atomic. about: whom all of it
        is about, besides those of its session.

        Raises KeyReused for the same key with other arguments, Invalid for what cannot be kept or does not fit the function.
        """
        made = as_agent(agent)
        made.check(args, kwargs, key=key, session=session, about=about or None)
        wanted = runs.RunRequest(
            agent=made.name, args=list(args), kwargs=kwargs, key=key, session=session, program=made.program,
            timeout=made.timeout, about=adding.named(about),
        )  # fmt: skip
        stream, begun = self._caller.write(runs.start, wanted, self._caller.core.epoch)
        return self._handle(stream) if begun is None else RunHandle(self._caller, stream, begun)

    @overload
    def drive(
        self, agent: Callable[..., Coro[R]], /, *args: Any, key: str | None, session: str | None = None, wait: Duration
        | bool | None = None, about: Iterable[str] = (), **kwargs: Any,
    ) -> R: ...  # fmt: skip
    @overload
    def drive(
        self, agent: Callable[..., R], /, *args: Any, key: str | None, session: str | None = None, wait: Duration | bool
        | None = None, about: Iterable[str] = (), **kwargs: Any,
    ) -> R: ...  # fmt: skip
    @overload
    def drive(
        self, agent: Callable[..., Coro[R]], /, *args: Any, session: str | None, wait: Duration | bool | None = None,
        about: Iterable[str] = (), **kwargs: Any,
    ) -> R: ...  # fmt: skip
    @overload
    def drive(
        self, agent: Callable[..., R], /, *args: Any, session: str | None, wait: Duration | bool | None = None,
        about: Iterable[str] = (), **kwargs: Any,
    ) -> R: ...  # fmt: skip
    @overload
    def drive(
        self, agent: Callable[..., Coro[R]], /, *args: Any, wait: Duration | bool | None, about: Iterable[str] = (),
        **kwargs: Any,
    ) -> R: ...  # fmt: skip
    @overload
    def drive(
        self,
        agent: Callable[..., R],
        /,
        *args: Any,
        wait: Duration | bool | None,
        about: Iterable[str] = (),
        **kwargs: Any,
    ) -> R: ...
    @overload
    def drive(self, agent: Callable[..., Coro[R]], /, *args: Any, about: Iterable[str], **kwargs: Any) -> R: ...
    @overload
    def drive(self, agent: Callable[..., R], /, *args: Any, about: Iterable[str], **kwargs: Any) -> R: ...
    @overload
    def drive(self, agent: Callable[Concatenate[Any, P], Coro[R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def drive(self, agent: Callable[Concatenate[Any, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def drive(
        self,
        agent: Callable[..., Any],
        /,
        *args: Any,
        key: str | None = None,
        session: str | None = None,
        wait: Duration | bool | None = None,
        about: Iterable[str] = (),
        **kwargs: Any,
    ) -> Any:
        """Begin a run, or go on with the one under this key, here and now; gives its result.

        Children are driven in place, and a sleep is waited for if it ends within a minute. wait: within that time; True: however
        long it is; False: not at all. about: as for `start`. Raises Waiting when a person, a signal or a later time must come
        first (call it again afterwards), Failed, Cancelled or Parked if that is how it ends, Conflict while somebody else drives
        it.
        """
        made = as_agent(agent)
        made.check(args, kwargs, wait=wait)
        patience_us = course.patience_us(wait)
        handle = self.start(made, *args, key=key, session=session, about=about, **kwargs)
        return self._driven(handle, {**DECLARED, made.name: made}, patience_us)

    def _driven(self, handle: RunHandle, agents: dict[str, Agent], patience_us: float = course.PATIENCE_US) -> Any:
        """Drive a run, and the runs that it starts, until it is over. patience_us: the longest sleep that is waited for."""
        cause = None
        while not handle.record.ended and handle.status is not RunStatus.PARKED:
            drive = self._take(handle._stream, handle.record, agents)
            if drive is None:
                self._bide(handle, agents, patience_us)
            elif drive.status is RunStatus.COMPLETED:
                return drive.result
            else:
                cause = drive.cause
            handle.refresh()
        return course.ended_as(handle.record, cause)

    def _take(self, stream: Stream, record: RunRecord, agents: dict[str, Agent]) -> Drive | None:
        """Claim a run and drive it. None: it could not be had."""
        core = self._caller.core
        agent = agents.get(record.agent)
        if agent is None:
            raise unknown(record.agent)
        driven, owner = (stream.id, 0), object()
        try:
            if not core.flights.begin(driven, owner):
                return None
            core.living.begin()
            lease = self._claimed(stream, record, agent)
            if lease is None:
                return None
            return shells.drive(self._caller, agent, lease, run_for, record)
        finally:
            core.flights.end(driven, owner)

    def _claimed(self, stream: Stream, record: RunRecord, agent: Agent) -> Lease | None:
        """Take a run that nobody else of this process drives. Interrupted, it is given back: it may be taken all the same."""
        core = self._caller.core
        holder = record.holder
        gone = {holder} if holder and (holder == core.holder or core.living.is_dead(holder)) else ()
        try:
            return self._caller.write(
                leases.claim, stream, holder=core.holder, program=agent.program, epoch=core.epoch, dead=gone
            )
        except Exception:
            raise
        except BaseException:
            with suppress(Error):
                self._caller.write(workers.give_back, stream, core.holder)
            raise

    def _is_gone(self, holder: str, stream: Stream) -> bool:
        """Whether nobody drives a run any more: its process is dead, or it is this one, and it does not."""
        core = self._caller.core
        return core.living.is_dead(holder) or (holder == core.holder and (stream.id, 0) not in core.flights)

    def _bide(self, handle: RunHandle, agents: dict[str, Agent], patience_us: float) -> None:
        """A run that cannot be had now: drive its children, wait for the clock, or say what it waits for."""
        record = (handle.refresh()).record
        self._check_pin(record, agents)
        if record.ended or record.status in (RunStatus.READY, RunStatus.PARKED):
            return
        if record.status is RunStatus.RUNNING:
            raise Conflict(f"run {record.id} is being driven by {record.holder}", path="run", holder=record.holder)
        open_ones = handle.waits()
        children = [each.name for each in open_ones if each.kind is WaitKind.CHILD]
        stuck = [error for name in children if (error := self._driven_child(name, agents, patience_us)) is not None]
        if len(stuck) < len(children):
            return
        if stuck:
            raise stuck[0]
        on_others = record.reason == DOUBT or any(each.kind in ANSWERED for each in open_ones)
        left_us = 0 if record.wake_at is None else instant_us(record.wake_at, 0) - self._caller.read(store_now)
        if record.wake_at is None or on_others or left_us > patience_us or not self._caller.core.clock_moves:
            said, now = waiting_for(handle), (handle.refresh()).record
            if (now.status, now.token) == (record.status, record.token):
                raise said
            return  # the awaited thing came while it was looked at
        self._caller.pause(min(max(left_us / SECOND_US, 0.001), LOOK_SECONDS))

    def _check_pin(self, record: RunRecord, agents: dict[str, Agent]) -> None:
        """A run that is pinned to another program is not for this process."""
        here = agents[record.agent].program
        if record.pinned and record.program != here and not record.ended:
            raise Changed(
                f"run {record.id} is pinned to the program {record.program}; here is {here}", path="run",
                hint="drive it where that program is, or `perdure pin` it anew", expected=record.program, found=here,
            )  # fmt: skip

    def _driven_child(self, name: str, agents: dict[str, Agent], patience_us: float) -> Error | None:
        """Drive a child to its end. Gives what keeps it from going on here; its sisters may go on all the same."""
        child = self.run(name)
        try:
            self._driven(child, agents, patience_us)
        except (Cancelled, Failed):
            return None  # its parent hears of it
        except Conflict:
            self._caller.pause(LOOK_SECONDS)  # somebody else drives it
        except (Waiting, Parked, NotFound) as error:
            return error
        return None

    def _drive_left(self, agents: Iterable[Callable[..., Any]]) -> tuple[list[RunRecord], list[str]]:
        """The runs' part of `recover`: drive what dead workers left and what has become ready. Unknown agents' are left.

        Gives the runs as they stand then, and what cannot be read of others.
        """
        known = self._known(agents)
        driven: list[RunRecord] = []
        damaged: list[str] = []
        for stream in self._left_runs(known):
            try:
                self._take(stream, self._caller.read(runs.run, stream), known)
                driven.append(self._caller.read(runs.run, stream))
            except Damaged as error:
                damaged.append(str(error))
        return driven, damaged

    def _known(self, agents: Iterable[Callable[..., Any]]) -> dict[str, Agent]:
        """The agents that can be driven here: these, and those that were declared in this process."""
        return {**DECLARED, **by_name(as_agent(each) for each in agents)}

    def _left_runs(self, known: dict[str, Agent]) -> list[Stream]:
        """Runs of these agents that can be taken here: as a worker looks for them, and those that this store dropped."""
        core = self._caller.core
        wanted = workers.drivable(known, {each.program for each in known.values()})
        seen = self._caller.read(workers.look, wanted, CLAIMED_AT_ONCE, core.living.is_dead, core.holder)
        mine = self._caller.read(workers.held_by, core.holder)
        dropped = [each for each in mine if self._is_gone(core.holder, each.stream)]
        found = [each for each in (*seen.takeable, *seen.suspects, *dropped) if each.agent in known]
        return [*{each.stream.name: each.stream for each in found}.values()]

    def run(
        self, name: str | None = None, *, agent: Callable[..., Any] | str | None = None, key: str | None = None
    ) -> RunHandle:
        """The run of this name, or the one that was started with a `key`: keys are an agent's own, so name the agent too.

        NotFound if there is none; Invalid unless it is one of the two.
        """
        if name is not None and agent is None and key is None:
            return self._handle(self._caller.read(runs.find, name))
        if name is not None or agent is None or key is None:
            raise Invalid(
                "expected a name, or an agent and a key", path="run", hint="store.run(agent=fix, key='issue-42')"
            )
        named = agent if isinstance(agent, str) else as_agent(agent).name
        return self._handle(self._caller.read(runs.find_by_key, named, key))

    def run_id(self, short: str) -> str:
        """The whole id of the run whose id begins so, at least four digits: for people, who type it. Reads alone.

        NotFound if there is none; Conflict, with the candidates, if there are several.
        """
        return self._caller.read(runs.whole_name, short)

    def runs(
        self,
        *,
        status: RunStatus | RunStatusName | None = None,
        agent: str | None = None,
        session: str | None = None,
        parent: str | None = None,
        errors: bool = False,
        about: str | None = None,
        since: Instant | None = None,
        until: Instant | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Page[RunHandle]:
        """The runs of this tenant, newest first. errors: those that failed or are parked, the last trouble first; `since` and
        `until` are then of when a run went wrong. about: those in which anything is about a subject.
        """
        found = self._caller.read(
            runs.runs_of_store, status=status, agent=agent, session=session, parent=parent, errors=errors, about=about,
            since=since, until=until, limit=limit, after=after,
        )  # fmt: skip
        return found.each(lambda each: RunHandle(self._caller, each[0], each[1]))

    def asks(
        self, *, state: WaitState | WaitStateName | None = "open", about: str | None = None, limit: int = 100,
        after: str | None = None,
    ) -> Page[WaitRecord]:  # fmt: skip
        """The questions to people, and approvals, newest first. `.next`, for `after=`, is None when that was all."""
        return self._caller.read(waits.asks, state=state, about=about, limit=limit, after=after)

    def answer(self, ask: str, value: Any, *, by: str | None = None, about: Iterable[str] = ()) -> WaitRecord:
        """Answer an ask or an approval, once. by: who says so; default: the actor of this store. about: whom
        the answer is about, besides those of the question.

        Raises Conflict if it was answered, expired or withdrawn, or its run was handed over, Invalid if it is no choice,
        NotFound if there is none.
        """
        stream, seq = self._caller.read(operator_verbs.locate, ask, "ask")
        who = self._caller.actor if by is None else by
        return self._caller.write(waits.answer, stream, seq, value, who, about)

    def signal(self, run: str, name: str, payload: Any = None, *, about: Iterable[str] = ()) -> None:
        """Send a signal to a run. Conflict when it is over, or was handed over. about: as for `run.signal`."""
        (self.run(run)).signal(name, payload, about=about)

    def effect(self, name: str) -> Effect:
        """The effect that people call so: `run:4f1c/12`."""
        stream, seq = self._caller.read(operator_verbs.locate, name, "effect")
        return Effect(self._caller, stream, "", self._caller.read(ledger.effect, stream, seq))

    def _handle(self, stream: Stream) -> RunHandle:
        return RunHandle(self._caller, stream, self._caller.read(runs.run, stream))
