# Generated from handles/aio/effects.py by tools/unasync.py: edit that one.
"""Handles for effects: acting in a session, effects in a loop of one's own, and asking across the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar, overload

from perdure.effects import ledger, operator_verbs, settling
from perdure.effects.commands import Steps
from perdure.effects.composed import end_begun
from perdure.effects.intents import intend, named_args
from perdure.effects.ledger import Outcome, error_of
from perdure.effects.outcomes import in_doubt, outcome_of
from perdure.effects.tool import as_tool, kind_of
from perdure.effects.tool import tool as declared_tool
from perdure.errors import Failed, InDoubt, Invalid
from perdure.handles.facts import EffectFacts
from perdure.handles.filtered import filtered
from perdure.handles.later import orphaned
from perdure.handles.sync.base import StoreHandle, StreamHandle
from perdure.log.change import Stream
from perdure.model.filters import EffectFilters
from perdure.model.functions import Coro, P, R, noting
from perdure.model.limits import check_name, check_question
from perdure.model.records.conversation import Call
from perdure.model.records.effects import (
    Absent,
    EffectError,
    EffectRecord,
    EffectState,
    Rule,
    ToolKind,
    ToolKindName,
    Verdict,
)
from perdure.planes.reading.durations import Duration, store_now
from perdure.planes.reading.paging import Page
from perdure.planes.recovery import checkpoints
from perdure.planes.subjects import named
from perdure.runtime.callers import Caller
from perdure.runtime.shells import Shell, acting_in
from perdure.stores.rollback_guard import Dispatch

T = TypeVar("T")


class Acting(StreamHandle):
    """A handle through which something is done outside."""

    __slots__ = ()

    def _run(self, steps: Steps[T]) -> T:
        return Shell(self._caller, self._stream, self._pin).run(steps)


class Effect(EffectFacts, Acting):
    """One effect. Shows what was last known of it; each verb and `refresh` bring that up to date.

    All verbs are atomic and fenced by the attempt: what comes too late is recorded and changes nothing. Of an effect of a run
    only `settle` may be said: `dispatch`, `commit` and `fail` are for whoever began it, and Refused there.
    """

    __slots__ = ("_record",)

    def __init__(self, caller: Caller, stream: Stream, pin: str, record: EffectRecord) -> None:
        super().__init__(caller, stream, pin)
        self._record = record

    def refresh(self) -> Effect:
        """Look again; returns itself."""
        self._record = self._read(ledger.effect, self._record.seq)
        return self

    def is_left(self) -> bool:
        """Whether it was sent by somebody who is gone, and nobody has looked since: doubt that is not recorded yet.

        Only reads. A caller that acts with its key, recovers or settles it finds it in doubt.
        """
        return self._caller.read(orphaned.is_left, self._record, orphaned.here(self._caller.core))

    def dispatch(self) -> Effect:
        """Make the intent durable: only after this may it be sent (P2). Conflict if somebody has dispatched it already.

        A caller that is cancelled before this returns must not send it: then it is planned again.
        Raises Waiting while an approval is asked for, Failed when a guard or a person refused it; InDoubt when that was after a
        restore, and it may have been sent before.
        """
        operator_verbs.check_own(self._record)
        acting = acting_in(self._caller, self._stream)
        self._caller.core.liveness.begin()
        sender = acting.sender._replace(holder=self._caller.holder)
        self._record = self._run(acting.dispatch_begun(self._record.seq, sender))
        if self._record.state is EffectState.WITHDRAWN:
            outcome_of(self._record)
        if self._record.state is EffectState.IN_DOUBT:
            now_us = self._caller.read(store_now)
            raise in_doubt(self._record, settling.advise(self._record, now_us, can_probe=False))
        dispatch = Dispatch(self._stream.uid, self._record.seq, self._record.attempt)
        self._caller.heartbeat.after_commit(partial(self._caller.core.rollback_guard.note, dispatch))
        return self

    def commit(self, result: Any = None, *, checkpoint: Any = ..., about: Iterable[str] = ()) -> Effect:
        """It happened, with this result. checkpoint: the state after it, saved in the same commit. about: whom the result is
        about, besides those of the effect.
        """
        return self._end("commit", Outcome(result, about=named(about)), checkpoint)

    def fail(self, error: str | BaseException | EffectError = "failed", *, about: Iterable[str] = ()) -> Effect:
        """It is known not to have happened. about: as for `commit`."""
        said = EffectError("Failed", error) if isinstance(error, str) else error
        said = error_of(said) if isinstance(said, BaseException) else said
        return self._end("fail", Outcome(error=said, about=named(about)))

    def settle(
        self, verdict: Verdict, *, by: str | None = None, force: bool = False, about: Iterable[str] = ()
    ) -> Effect:
        """Say what became of an effect in doubt: Happened(result), Absent() (it may be tried again), Declined(reason).

        Of two who settle at once one does, the other gets Conflict. by: who says so; default: the actor of this store. A run
        that waits for it goes on. Conflict for Absent while the process that sent it lives on this machine, stopped or not: it
        may still send it. force: you know that it will not. about: as for `commit`.
        """
        who = check_name(self._caller.actor if by is None else by, "by")
        operator_verbs.check_verdict(verdict)
        self._record = self._run(acting_in(self._caller, self._stream).looked_at(self._record))
        if isinstance(verdict, Absent) and not force:
            operator_verbs.check_quiet(self._record, self._stream, self._caller.core)
        self._record = self._write(operator_verbs.settle, self._record.seq, verdict, who, named(about), force=force)
        return self

    def _end(self, arrow: str, outcome: Outcome, state: Any = ...) -> Effect:
        operator_verbs.check_own(self._record)
        prepared = None if state is ... else self._read(checkpoints.prepare, checkpoints.freeze(state))
        moving = acting_in(self._caller, self._stream).move(arrow, end_begun, self._record, outcome, prepared)
        # The outcome of the call is a fact, whatever became of the locks around it.
        self._record = Shell(self._caller, self._stream, self._pin, locked=False).run(moving)
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r}, {self.tool!r}, {self.state.value})"


class Effects(Acting):
    """Acting on the outside world in a session."""

    __slots__ = ()

    @overload
    def act(
        self, tool: Callable[..., Coro[R]], /, *args: Any, key: str | None, call: Call | None = None, approve: str |
        None = None, approve_within: Duration | None = None, about: Iterable[str] = (), **kwargs: Any,
    ) -> R: ...  # fmt: skip
    @overload
    def act(
        self, tool: Callable[..., R], /, *args: Any, key: str | None, call: Call | None = None, approve: str | None =
        None, approve_within: Duration | None = None,
        about: Iterable[str] = (), **kwargs: Any,
    ) -> R: ...  # fmt: skip
    @overload
    def act(
        self, tool: Callable[..., Coro[R]], /, *args: Any, call: Call | None, approve: str | None = None,
        approve_within: Duration | None = None,
        about: Iterable[str] = (), **kwargs: Any,
    ) -> R: ...  # fmt: skip
    @overload
    def act(
        self, tool: Callable[..., R], /, *args: Any, call: Call | None, approve: str | None = None, approve_within:
        Duration | None = None, about: Iterable[str] = (), **kwargs: Any,
    ) -> R: ...  # fmt: skip
    @overload
    def act(
        self, tool: Callable[..., Coro[R]], /, *args: Any, about: Iterable[str], approve: str | None = None, approve_within:
        Duration | None = None, **kwargs: Any,
    ) -> R: ...  # fmt: skip
    @overload
    def act(
        self, tool: Callable[..., R], /, *args: Any, about: Iterable[str], approve: str | None = None, approve_within:
        Duration | None = None, **kwargs: Any,
    ) -> R: ...  # fmt: skip
    @overload
    def act(self, tool: Callable[P, Coro[R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def act(self, tool: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def act(
        self,
        tool: Callable[..., Any],
        /,
        *args: Any,
        key: str | None = None,
        call: Call | None = None,
        approve: str | None = None,
        approve_within: Duration | None = None,
        about: Iterable[str] = (),
        **kwargs: Any,
    ) -> Any:
        """Do something outside, once: intent first, then the call, then its result. Returns the result.

        key: the same key and arguments again give the stored result; other arguments are KeyReused. call: the tool call that
        this answers; its result turn lands in the same commit. Without either, every call is a new action. After a crash,
        calling it again with the same key settles what is in doubt by the tool's rule. approve: ask a person first; Waiting
        until there is an answer, then call it again with the same key; approve_within: no answer by then is a no. about: whom
        it is about; so is its result, and what it undoes. Raises
        Failed for a clear no, InDoubt when a person must settle it, Invalid when an approval has no key to be found by.
        """
        self._caller.check_may_send()
        found = as_tool(tool)
        found.check_free(key=key, call=call, approve=approve, approve_within=approve_within, about=about or None)
        if approve is not None:
            check_question(approve, "approve")
        intent = intend(found.name, found.kind, found.bind(args, kwargs), found.rule, key, call, named(about))
        acting = acting_in(self._caller, self._stream)
        intent, asked = acting.guarded(found, intent, approve)
        if isinstance(asked, str) and key is None and call is None:
            hint = "act(…, key=…): the same call again finds the answer by it"
            raise Invalid(f"{found.name} needs an approval, and so a key", path="key", hint=hint)
        return outcome_of(self._run(acting.act(found, intent, asked, approve_within)))

    def ask_model(
        self, ask: Callable[..., Any], /, *args: Any, key: str, name: str = "model", about: Iterable[str] = ()
    ) -> Any:
        """Ask a model once for this key: the answer that is recorded, or a new one, which is recorded before it is given.

        Asking changes nothing outside, so an outage spends no key: a call that failed, or was cut off, is planned anew by the
        next one, and no person is asked (docs/decisions/0094). A refusal stands. args: of `ask`, compared as those of every
        effect. name: of the effect. about: as for `act`. Raises what `ask` raises; Failed when a guard refuses it, KeyReused
        for other arguments, Conflict while another caller asks.
        """
        raised: list[Exception] = []
        asking = declared_tool(noting(ask, raised), name=name, kind="idempotent", known=False, fails=(Exception,))
        planned_anew = False
        while not raised:
            try:
                return self.act(asking, *args, key=key, about=about)
            except (Failed, InDoubt):
                if not raised and (planned_anew or not self._write(ledger.plan_anew, key)):
                    raise
                planned_anew = True
        raise raised[0]

    def begin(
        self,
        tool: str | Callable[..., Any],
        args: Mapping[str, Any] | None = None,
        *,
        kind: ToolKind | ToolKindName | None = None,
        key: str | None = None,
        call: Call | None = None,
        about: Iterable[str] = (),
    ) -> Effect:
        """Plan an effect that you carry out yourself: then `dispatch`, act, and `commit` or `fail`.

        The same key and arguments again give the same effect: look at `settled` before you dispatch. A crash after
        `dispatch` leaves it in doubt: who begins it again finds it so. kind: what the tool is, if it is given by its name.
        The guards are asked: a refusal withdraws it, and while an approval is asked for, `dispatch` raises Waiting.
        about: as for `act`. Raises KeyReused, Invalid.
        """
        found = as_tool(tool) if callable(tool) else None
        name = check_name(found.name if found else tool, "tool")
        given = named_args(args) if found is None else found.bind((), named_args(args))
        declared = kind_of(kind) if kind is not None else found.kind if found else ToolKind.UNSAFE
        acting = acting_in(self._caller, self._stream)
        intent = intend(name, declared, given, found.rule if found else Rule(), key, call, named(about))
        intent, asked = acting.guarded(found, intent, None)
        record = self._run(acting.plan_asked(intent, asked))
        return Effect(self._caller, self._stream, self._pin, self._run(acting.looked_at(record)))

    def effects(
        self, *, open: bool = False, about: str | None = None, after: int | str = 0, limit: int = 1_000  # noqa: A002
    ) -> Page[Effect]:  # fmt: skip
        """The effects of this session, oldest first. open: those that are not settled. `.next`, for `after=`, is None when
        that was all.
        """
        found = self._read(ledger.effects, after=after, limit=limit, open_only=open, about=about)
        return found.each(lambda record: Effect(self._caller, self._stream, self._pin, record))


class EffectsAcross(StoreHandle):
    """Asking across the store: effects."""

    __slots__ = ()

    @filtered(EffectFilters)
    def effects(self, asked: EffectFilters) -> Page[Effect]:
        """The effects of all sessions and runs of this tenant, newest first.

        in_doubt: those of which nobody knows whether they happened. errors: those with which something went wrong, the last
        trouble first; `since` and `until` are then of when that was recorded. Both have
        among them what somebody sent who is gone (`effect.is_left()`), though nobody has recorded the doubt yet. what_if: also
        what a what-if fork copied from another run (`effect.record.what_if`): nothing was done for those.
        """
        found = self._caller.read(orphaned.effects_of_store, orphaned.here(self._caller.core), asked)
        return found.each(lambda each: Effect(self._caller, each[0], "", each[1]))
