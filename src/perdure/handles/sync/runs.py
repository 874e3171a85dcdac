# Generated from handles/aio/runs.py by tools/unasync.py: edit that one.
"""Handles for runs: starting, driving and recovering them, and what people say to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Concatenate, overload

from perdure.effects import ledger, operator_verbs
from perdure.errors import (
    Cancelled,
    Conflict,
    Damaged,
    Error,
    Failed,
    Invalid,
    NotFound,
    Parked,
    Waiting,
)
from perdure.handles.filtered import filtered
from perdure.handles.programs import run_for
from perdure.handles.sync.base import StoreHandle
from perdure.handles.sync.effects import Effect
from perdure.handles.sync.run_handle import RunHandle
from perdure.log.change import Stream
from perdure.model.filters import AskFilters, RunFilters
from perdure.model.functions import Coro, P, R
from perdure.model.instants import SECOND_US, instant_us
from perdure.model.lazily import lazily
from perdure.model.records.runs import (
    RunRecord,
    RunStatus,
    WaitKind,
    WaitRecord,
)
from perdure.planes import subjects as adding
from perdure.planes.execution import runs, waits
from perdure.planes.reading.durations import Duration, store_now
from perdure.planes.reading.paging import Page
from perdure.planes.recovery import leases
from perdure.planes.recovery.leases import Lease
from perdure.runtime import course, shells, untaken
from perdure.runtime.agent import DECLARED, Agent, as_agent, by_name, unknown
from perdure.runtime.course import Drive
from perdure.runtime.outward import DOUBT

if TYPE_CHECKING:
    from perdure.planes.execution import workers
else:
    (workers,) = lazily("perdure.planes.execution", "workers")

ANSWERED = (WaitKind.ASK, WaitKind.APPROVAL, WaitKind.SIGNAL)  # by somebody, at any time
LOOK_SECONDS = 0.5  # how often a drive that waits for the clock or for children looks


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
        self._caller.check_may_drive()
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

    def _bide(self, handle: RunHandle, agents: dict[str, Agent], patience_us: float) -> None:
        """A run that cannot be had now: drive its children, wait for the clock, or say what it waits for."""
        record = (handle.refresh()).record
        untaken.check_pin(record, agents[record.agent])
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
            said = self._caller.read(untaken.waiting_for, handle._stream, record)
            now = (handle.refresh()).record
            if (now.status, now.token) == (record.status, record.token):
                raise said
            return  # the awaited thing came while it was looked at
        self._caller.pause(min(max(left_us / SECOND_US, 0.001), LOOK_SECONDS))

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
        for stream in self._caller.read(untaken.left_runs, known, self._caller.core):
            try:
                self._take(stream, self._caller.read(runs.run, stream), known)
                driven.append(self._caller.read(runs.run, stream))
            except Damaged as error:
                damaged.append(str(error))
        return driven, damaged

    def _known(self, agents: Iterable[Callable[..., Any]]) -> dict[str, Agent]:
        """The agents that can be driven here: these, and those that were declared in this process."""
        return {**DECLARED, **by_name(as_agent(each) for each in agents)}

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

    @filtered(RunFilters)
    def runs(self, asked: RunFilters) -> Page[RunHandle]:
        """The runs of this tenant, newest first. errors: those that failed or are parked, the last trouble first; `since` and
        `until` are then of when a run went wrong. about: those in which anything is about a subject.
        """
        found = self._caller.read(runs.runs_of_store, asked)
        return found.each(lambda each: RunHandle(self._caller, each[0], each[1]))

    @filtered(AskFilters)
    def asks(self, asked: AskFilters) -> Page[WaitRecord]:
        """The questions to people, and approvals, newest first: the open ones, unless `state` says otherwise (None: all).
        `.next`, for `after=`, is None when that was all.
        """
        return self._caller.read(waits.asks, asked)

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
