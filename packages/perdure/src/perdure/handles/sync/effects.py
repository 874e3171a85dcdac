# Generated from handles/aio/effects.py by tools/unasync.py: edit that one.
"""Handles for effects: acting in a session, effects in a loop of one's own, and asking across the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, overload

from perdure.effects import ledger, operator_verbs, settling
from perdure.effects.commands import Steps
from perdure.effects.commits import end_with_checkpoint
from perdure.effects.effect_engine import ModelAsker, intend
from perdure.effects.ledger import Outcome, error_of
from perdure.effects.outcomes import in_doubt, outcome_of
from perdure.effects.tool import as_tool, kind_of
from perdure.effects.tool import tool as declared_tool
from perdure.errors import Invalid
from perdure.handles.facts import EffectFacts
from perdure.handles.filtered import filtered
from perdure.handles.later import orphaned, responding
from perdure.handles.sync.base import StoreHandle, StreamHandle
from perdure.log.change import Stream
from perdure.model.filters import EffectFilters
from perdure.model.functions import Coro, P, R, named_args
from perdure.model.limits import check_name, check_question
from perdure.model.records.conversation import Call
from perdure.model.records.effects import (
    Absent,
    Answer,
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
from perdure.runtime.shells import Shell, effect_engine_of

T = TypeVar("T")


class Acting(StreamHandle):
    """A handle that acts on the outside world."""

    __slots__ = ()

    def _run(self, steps: Steps[T]) -> T:
        return Shell(self._caller, self._stream, self._pin).run(steps)


class Effect(EffectFacts, Acting):
    """One effect (a call to an external system), as it was last read. Each verb and `refresh` bring it up to date.

    All verbs are atomic and fenced by the attempt: a verb that comes too late is recorded and changes nothing. An effect of a
    run only takes `settle`; `dispatch`, `commit` and `fail` are for the caller that began it, and are Refused there.
    """

    __slots__ = ("_record",)

    def __init__(self, caller: Caller, stream: Stream, pin: str, record: EffectRecord) -> None:
        super().__init__(caller, stream, pin)
        self._record = record

    def refresh(self) -> Effect:
        """Read the effect again; returns itself."""
        self._record = self._read(ledger.effect, self._record.seq)
        return self

    def is_left(self) -> bool:
        """Whether its sender is gone and nobody has looked since: doubt that is not recorded yet. Only reads.

        The next caller that acts with its key, recovers or settles it finds it in doubt.
        """
        return self._caller.read(orphaned.is_left, self._record, orphaned.here(self._caller.core))

    def dispatch(self) -> Effect:
        """Make the intent durable. Only after this may you send it (P2). Conflict if another caller has dispatched it already.

        A caller that is cancelled before this returns must not send it: the effect is planned again.

        Raises Waiting while an approval is open, Failed when a guard or a person refused it, and InDoubt when that was after a
        restore and the effect may have been sent before.
        """
        operator_verbs.check_own(self._record)
        engine = effect_engine_of(self._caller, self._stream)
        self._caller.core.liveness.begin()
        sender = engine.sender._replace(holder=self._caller.holder)
        self._record = self._run(engine.begin_user_call(self._record.seq, sender))
        if self._record.state is EffectState.WITHDRAWN:
            outcome_of(self._record)
        if self._record.state is EffectState.IN_DOUBT:
            now_us = self._caller.read(store_now)
            raise in_doubt(self._record, settling.advise(self._record, now_us, can_probe=False))
        return self

    def commit(self, result: Any = None, *, checkpoint: Any = ..., about: Iterable[str] = ()) -> Effect:
        """Record that it happened, with this result.

        checkpoint: the state after it, saved in the same commit. about: subjects of the result, besides those of the effect.
        """
        return self._end("commit", Outcome(result, about=named(about)), checkpoint)

    def fail(self, error: str | BaseException | EffectError = "failed", *, about: Iterable[str] = ()) -> Effect:
        """Record that it is known not to have happened. about: as for `commit`."""
        said = EffectError("Failed", error) if isinstance(error, str) else error
        said = error_of(said) if isinstance(said, BaseException) else said
        return self._end("fail", Outcome(error=said, about=named(about)))

    def settle(
        self, verdict: Verdict, *, by: str | None = None, force: bool = False, about: Iterable[str] = ()
    ) -> Effect:
        """Record the outcome of an effect in doubt: Happened(result), Absent() (it may be tried again) or Declined(reason).

        A run that waits for the effect continues. Of two callers that settle at once, one succeeds and the other gets Conflict.
        Absent raises Conflict while the process that sent the effect lives on this machine, stopped or not: it may still send.
        by: the person or program that says so. Default: the actor of this store.
        force: you know that the process will not send.
        about: as for `commit`.
        """
        who = check_name(self._caller.actor if by is None else by, "by")
        operator_verbs.check_verdict(verdict)
        self._record = self._run(effect_engine_of(self._caller, self._stream).look_at(self._record))
        if isinstance(verdict, Absent) and not force:
            operator_verbs.check_quiet(self._record, self._stream, self._caller.core)
        self._record = self._write(operator_verbs.settle, self._record.seq, verdict, who, named(about), force=force)
        return self

    def _end(self, arrow: str, outcome: Outcome, state: Any = ...) -> Effect:
        operator_verbs.check_own(self._record)
        prepared = None if state is ... else self._read(checkpoints.prepare, checkpoints.freeze(state))
        moving = effect_engine_of(self._caller, self._stream).move(
            arrow, end_with_checkpoint, self._record, outcome, prepared
        )
        # The outcome of the call is a fact, whatever became of the locks around it.
        self._record = Shell(self._caller, self._stream, self._pin, locked=False).run(moving)
        return self


class Effects(Acting):
    """Verbs of a session for acting on the outside world."""

    __slots__ = ()

    @overload
    def act(
        self, tool: Callable[..., Coro[R]], /, *args: Any, key: str | None, call: Call | None = None, approve: str |
        None = None, approve_within: Duration | None = None, about: Iterable[str] = (), **kwargs: Any,
    ) -> R: ...  # fmt: skip
    @overload
    def act(
        self, tool: Callable[..., R], /, *args: Any, key: str | None, call: Call | None = None, approve: str | None =
        None, approve_within: Duration | None = None, about: Iterable[str] = (), **kwargs: Any,
    ) -> R: ...  # fmt: skip
    @overload
    def act(
        self, tool: Callable[..., Coro[R]], /, *args: Any, call: Call | None, approve: str | None = None,
        approve_within: Duration | None = None, about: Iterable[str] = (), **kwargs: Any,
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
        """Call an external system once: save the intent, call the tool, save its result. Returns the result.

            session.act(charge, 7, key="order-1")

        After a crash, the same call with the same key settles what is in doubt by the tool's rule (docs/tools.md).
        key: the same key and arguments again return the stored result; other arguments raise KeyReused. Without `key` and
            `call`, every call is a new effect.
        call: the model's tool call that this answers. Its result turn lands in the same commit.
        approve: ask a person this question first. Waiting is raised until there is an answer; then repeat the call with the
            same key.
        approve_within: without an answer by then, the answer is no.
        about: subjects of the effect, of its result, and of its undo.

        Raises Failed for a clear no, InDoubt when a person must settle it, Invalid when an approval has no key to be found by.
        """
        self._caller.check_may_send()
        found = as_tool(tool)
        found.check_free(key=key, call=call, approve=approve, approve_within=approve_within, about=about or None)
        if approve is not None:
            check_question(approve, "approve")
        intent = intend(found.name, found.kind, found.bind(args, kwargs), found.rule, key, call, named(about))
        engine = effect_engine_of(self._caller, self._stream)
        intent, precondition = engine.ask_guards(found, intent, approve)
        if isinstance(precondition, str) and key is None and call is None:
            hint = "act(…, key=…): the same call again finds the answer by it"
            raise Invalid(f"{found.name} needs an approval, so it needs a key", path="key", hint=hint)
        return outcome_of(self._run(engine.act_in_session(found, intent, precondition, approve_within)))

    def respond(
        self,
        content: Any = None,
        *,
        calls: Sequence[Call | Mapping[str, Any]],
        tools: Iterable[Callable[..., Any]],
        key: str | None = None,
        about: Iterable[str] = (),
    ) -> list[Answer]:
        """Add a model's answer as a turn, and carry out its calls, in order and each once. Returns an Answer for each call.

        The turn lands with all calls planned, and each result with the next dispatch: N effects take N + 1 commits. A call that
        fails, is refused, or fits no tool has an error for its answer, in the conversation too, and the others continue. Tools
        that only read are called directly. After a crash, InDoubt or Waiting, the same calls again continue where they were;
        they are known by the id of the first (`turn = session.pending().turn` has them).
        calls: each a Call, or a mapping of id, tool and args.
        key: of the turn, as for `say`.
        about: subjects of the answer, its calls and their results.

        Raises KeyReused when the calls were part of another turn, Invalid when a call has no id of its own.
        """
        self._caller.check_may_send()
        engine = effect_engine_of(self._caller, self._stream)
        return self._run(responding.respond(engine, content, key, calls, tools, named(about)))

    def ask_model(
        self, ask: Callable[..., Any], /, *args: Any, key: str, name: str = "model", about: Iterable[str] = ()
    ) -> Any:
        """Ask a model once for this key: return the recorded answer, or ask, record the answer, and return it.

        Asking changes nothing in the outside world, so an outage uses up no key: after a call that failed or was cut off, the
        next one asks again, and no person is asked (decision 0094). A guard's refusal stands.
        args: the arguments of `ask`, compared as those of every effect.
        name: of the effect.
        about: as for `act`.

        Raises what `ask` raises; Failed when a guard refuses it, KeyReused for other arguments, Conflict while another caller
        asks.
        """
        self._caller.check_may_send()
        asking = declared_tool(ask, name=name, kind="idempotent", known=False, fails=(Exception,))
        asking.check_free(key=key, about=about or None)
        intent = intend(asking.name, asking.kind, asking.bind(args, {}), asking.rule, key, None, named(about))
        model = ModelAsker(self._caller.core, self._stream, self._caller.actor, self._caller.tenant)
        return self._run(model.ask(asking, intent))

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
        """Plan an effect that you carry out yourself: then call `dispatch`, act, and call `commit` or `fail`.

        The same key and arguments again return the same effect: look at `settled` before you dispatch. A crash after `dispatch`
        leaves it in doubt, and the next caller that begins it finds it so. The guards are asked: a refusal withdraws the
        effect, and while an approval is open, `dispatch` raises Waiting.
        kind: the kind of the tool, if the tool is given by its name.
        about: as for `act`.

        Raises KeyReused, Invalid.
        """
        found = as_tool(tool) if callable(tool) else None
        name = check_name(found.name if found else tool, "tool")
        given = named_args(args) if found is None else found.bind((), named_args(args))
        declared = kind_of(kind) if kind is not None else found.kind if found else ToolKind.UNSAFE
        engine = effect_engine_of(self._caller, self._stream)
        intent = intend(name, declared, given, found.rule if found else Rule(), key, call, named(about))
        intent, precondition = engine.ask_guards(found, intent, None)
        record = self._run(engine.plan_effect(intent, precondition))
        return Effect(self._caller, self._stream, self._pin, self._run(engine.look_at(record)))

    def effects(
        self, *, open: bool = False, about: str | None = None, after: int | str = 0, limit: int = 1_000  # noqa: A002
    ) -> Page[Effect]:  # fmt: skip
        """Return the effects of this session, oldest first. open: only those that are not settled.

        The next page is `after=page.next`; None when there are no more.
        """
        found = self._read(ledger.effects, after=after, limit=limit, open_only=open, about=about)
        return found.each(lambda record: Effect(self._caller, self._stream, self._pin, record))


class EffectsAcross(StoreHandle):
    """Verbs of a store that ask across all effects."""

    __slots__ = ()

    @filtered(EffectFilters)
    def effects(self, asked: EffectFilters) -> Page[Effect]:
        """Return the effects of all sessions and runs of this tenant, newest first.

        in_doubt: those whose outcome is unknown.
        errors: those that went wrong, the latest trouble first; `since` and `until` then mean when the trouble was recorded.
        what_if: also effects that a what-if fork copied from another run (`effect.record.what_if`): nothing was done for those.

        `in_doubt` and `errors` include effects whose sender is gone (`effect.is_left()`), though the doubt is not recorded yet.
        """
        found = self._caller.read(orphaned.effects_of_store, orphaned.here(self._caller.core), asked)
        return found.each(lambda each: Effect(self._caller, each[0], "", each[1]))
