# Generated from handles/aio/runs.py by tools/unasync.py: edit that one.
"""Handles for runs: starting, driving and recovering them, and answering their questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Concatenate, overload

from perdure.effects import ledger, operator_verbs
from perdure.errors import Damaged, Invalid
from perdure.handles.colours import run_for
from perdure.handles.filtered import filtered
from perdure.handles.later import adopting
from perdure.handles.sync.base import StoreHandle
from perdure.handles.sync.effects import Effect
from perdure.handles.sync.run_handle import RunHandle
from perdure.log.change import Stream
from perdure.model.filters import AskFilters, RunFilters
from perdure.model.functions import Coro, P, R
from perdure.model.records.envelope import Envelope
from perdure.model.records.runs import RunRecord, WaitRecord
from perdure.planes import subjects as adding
from perdure.planes.execution import runs, waits
from perdure.planes.reading.durations import Duration
from perdure.planes.reading.paging import Page
from perdure.runtime import driver, untaken
from perdure.runtime.agent import DECLARED, Agent, as_agent, by_name
from perdure.runtime.in_place import DrivenInPlace
from perdure.runtime.shells import Shell


class Runs(StoreHandle):
    """Verbs of a store for runs of agents, and for the answers of people."""

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
        self, agent: Callable[..., Coro[R]], /, *args: Any, session: str | None, about: Iterable[str] = (), **kwargs: Any
    ) -> RunHandle[R]: ...  # fmt: skip
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
        """Begin a run and leave it to the workers. Returns its handle. Atomic; the same key and arguments again return the same
        run.

        about: subjects of the whole run, besides those of its session. Raises KeyReused for the same key with other arguments,
            Invalid for arguments that cannot be kept or do not fit the function.
        """
        made = as_agent(agent)
        made.check(args, kwargs, key=key, session=session, about=about or None)
        wanted = runs.RunRequest(
            agent=made.name, args=list(args), kwargs=kwargs, key=key, session=session, program=made.program,
            timeout=made.timeout, about=adding.named(about), pins=made.versions, on_change=made.on_change,
        )  # fmt: skip
        stream, begun = self._write(runs.start, wanted, self._caller.core.epoch)
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
        self, agent: Callable[..., R], /, *args: Any, wait: Duration | bool | None, about: Iterable[str] = (), **kwargs: Any
    ) -> R: ...  # fmt: skip
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
        """Begin a run, or continue the one under this key, in this process. Returns its result.

            store.drive(fix, "issue-42", key="issue-42")

        After a crash, the same call continues the run. Children are driven in this process too, and a sleep that ends within a
        minute is waited for.
        wait: wait for sleeps that end within this time; True: however long; False: not at all.
        about: as for `start`.

        Raises Waiting when a person, a signal or a later time must come first (call it again afterwards), Failed, Cancelled or
        Parked if it ends so, Conflict while another process drives it.
        """
        self._caller.check_may_drive()
        made = as_agent(agent)
        made.check(args, kwargs, wait=wait)
        patience_us = driver.patience_us(wait)
        handle = self.start(made, *args, key=key, session=session, about=about, **kwargs)
        return self._driven(handle, {**DECLARED, made.name: made}, patience_us)

    def _driven(self, handle: RunHandle, agents: dict[str, Agent], patience_us: float = driver.PATIENCE_US) -> Any:
        """Drive a run, and the runs that it starts, until it is over. patience_us: the longest sleep that is waited for."""
        here = DrivenInPlace(self._caller.core, agents, run_for, patience_us)
        return self._shell(handle._stream).run(here.drive(handle._stream, handle.record))

    def _shell(self, stream: Stream) -> Shell:
        return Shell(self._caller, stream, locked=False)

    def _drive_left(self, agents: Iterable[Callable[..., Any]]) -> tuple[list[RunRecord], list[str]]:
        """The runs' part of `recover`: drive what dead workers left and what has become ready. Unknown agents' are left.

        Gives the runs as they stand then, and what cannot be read of others.
        """
        known = self._known(agents)
        here = DrivenInPlace(self._caller.core, known, run_for)
        driven: list[RunRecord] = []
        damaged: list[str] = []
        for stream in self._caller.read(untaken.left_runs, known, self._caller.core):
            try:
                self._shell(stream).run(here.take(stream, self._caller.read(runs.run, stream)))
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
        """Return the run with this id, or the one that was started with a `key`. Keys belong to an agent, so name the agent
        too.

        Raises NotFound if there is none; Invalid unless you give one of the two.
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
        """Return the whole id of the run whose id begins with these digits, at least four. Only reads.

        Raises NotFound if there is none; Conflict, with the candidates, if there are several.
        """
        return self._caller.read(runs.whole_name, short)

    @filtered(RunFilters)
    def runs(self, asked: RunFilters) -> Page[RunHandle]:
        """Return the runs of this tenant, newest first.

        errors: those that failed or are parked, the latest trouble first; `since` and `until` then mean when a run went wrong.
        about: those in which anything is about a subject.
        """
        found = self._caller.read(runs.runs_of_store, asked)
        return found.each(lambda each: RunHandle(self._caller, each[0], each[1]))

    @filtered(AskFilters)
    def asks(self, asked: AskFilters) -> Page[WaitRecord]:
        """Return the questions to people, and approvals, newest first: the open ones, unless `state` says otherwise (None:
        all).

        The next page is `after=page.next`; None when there are no more.
        """
        return self._caller.read(waits.asks, asked)

    def answer(self, ask: str, value: Any, *, by: str | None = None, about: Iterable[str] = ()) -> WaitRecord:
        """Answer a question or an approval, once.

        by: the person who answers. Default: the actor of this store.
        about: subjects of the answer, besides those of the question.

        Raises Conflict if it was answered, expired or withdrawn, or its run was handed over; Invalid if the answer is none of
        the choices, NotFound if there is no such question.
        """
        stream, seq = self._caller.read(operator_verbs.locate, ask, "ask")
        who = self._caller.actor if by is None else by
        return self._write(waits.answer, stream, seq, value, who, about)

    def signal(
        self, run: str, name: str, payload: Any = None, *, key: str | None = None, about: Iterable[str] = ()
    ) -> None:
        """Send a signal to a run. Conflict when it is over, or was handed over. key, about: as for `run.signal`."""
        (self.run(run)).signal(name, payload, key=key, about=about)

    def effect(self, name: str) -> Effect:
        """Return an effect by the name that people use: `run:4f1c/12`."""
        stream, seq = self._caller.read(operator_verbs.locate, name, "effect")
        return Effect(self._caller, stream, "", self._caller.read(ledger.effect, stream, seq))

    def artifacts_of(self, envelope: Envelope) -> dict[str, bytes]:
        """Return all blobs that an envelope of this store needs, by address. Keep them with the envelope. Damaged names a lost
        blob.
        """
        return self._caller.read(adopting.artifacts_of, envelope)

    def adopt(
        self, envelope: Envelope | bytes | str, artifacts: Mapping[str, bytes] | None = None, *, lost: bool = False
    ) -> RunHandle:
        """Continue a run of another store here, from its envelope and its blobs alone. Returns its handle.

        Atomic: all of it or nothing. The run keeps its name, its key and the keys of its effects; its entries get new numbers.
        lost: the other store is gone for good, and the run was not handed over. Every effect that was planned or under way is
            then in doubt, and the next sends are asked about as after a restore, because the lost store may have sent them.

        Raises Refused for a run that was not handed over, Conflict if this store already has the run (or its name or key),
        NotFound for a missing blob, Invalid or Damaged for a text that is no envelope or was altered.
        """
        text = envelope.to_json() if isinstance(envelope, Envelope) else envelope
        found = Envelope.from_json(text)
        adopting.check(found, lost=lost)
        luggage = self._caller.read(adopting.unpack, found, artifacts or {})
        stream = self._write(adopting.adopt, found, luggage, self._caller.core.epoch)
        return self._handle(stream)

    def _handle(self, stream: Stream) -> RunHandle:
        return RunHandle(self._caller, stream, self._caller.read(runs.run, stream))
