"""The engine of effects: one effect, from its intent to its end, in a session or in a run. Keeps P2-P4, P15.

    ask_guards ─▶ plan_effect ─▶ dispatch_effect ─▶ call_tool ─▶ record_outcome ─▶ settled
                                     ▲                  ┆ its sender died, or nobody knows what came of it
                                     └── settle_doubt ◀─┴─ doubt_if_sender_is_gone

Generators that yield commands, written once for sync and async: a shell carries them out (`commands`). Each writes by verbs of
`commits`, one a transaction. Every arrow of the ledger has a crash point before and after it, `effect.<arrow>.before|after`, and
so has the call itself. Callers: the handles of sessions, and the engine of runs, each through a shell.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar

import msgspec

from perdure.effects import commits, ledger, settling
from perdure.effects.batch import BatchCall, next_free
from perdure.effects.commands import (
    CHECK_LEASE,
    Await,
    CallFunction,
    CallIsolated,
    CallOutcome,
    Command,
    Ending,
    Overdue,
    Pause,
    Read,
    Steps,
    Write,
    write,
)
from perdure.effects.commits import Dispatcher, Precondition
from perdure.effects.ledger import Intent, Outcome, Sender, error_of
from perdure.effects.outcomes import (
    backoff_seconds,
    cause_of_silence,
    in_doubt,
    is_quiet,
    kept,
    late_answer,
    outcome_of,
    says_no,
    says_unsent,
    unkept,
    unsent,
)
from perdure.effects.settling import Action, Advice
from perdure.effects.tool import Guard, Refuse, RequireApproval, Tool, digest_of
from perdure.errors import Conflict, Error, Failed, InDoubt, Invalid, Refused, Stale
from perdure.log.change import Stream
from perdure.model.crash_points import reach
from perdure.model.display import whence
from perdure.model.ids import new_uid
from perdure.model.instants import SECOND_US
from perdure.model.records.conversation import Call
from perdure.model.records.effects import (
    Absent,
    Answer,
    Declined,
    EffectError,
    EffectRecord,
    EffectState,
    Happened,
    Rule,
    ToolKind,
    Unknown,
    Verdict,
    key_of_call,
    text_of,
)
from perdure.planes.reading.durations import Duration, store_now
from perdure.planes.recovery import presence
from perdure.stores.in_flight import Attempt, InFlight
from perdure.stores.kept_results import ResultKeeper, keep_trying
from perdure.stores.liveness import Liveness
from perdure.stores.tool_limits import Slots
from perdure.stores.tx import Tx

log = logging.getLogger("perdure.effects")

T = TypeVar("T")
P = ParamSpec("P")
NextCall: TypeAlias = Callable[[], "BatchCall | None"]
KEPT_ARROWS = frozenset({"commit", "fail", "absent"})  # that say what became of a call: not recorded, it would be doubt
PATIENCE_SECONDS = 600.0  # the longest that is waited in place for what was sent to arrive
PROBE_SECONDS = 60.0  # for a probe whose tool has no deadline
FORGOTTEN = EffectError(
    settling.RESTORED, "its store was restored or lost since; what came after the backup or the envelope is not known"
)
STRAYED = EffectError(
    settling.STRAYED,
    "its store was restored or lost, and the run has found things out anew: it may have done this otherwise before",
)


class SendingStore(ResultKeeper, Protocol):
    """The engine's needs of the open store that it acts in, besides the commands that it yields: `stores.core.Core` has it."""

    acts: bool
    holder: str
    guards: tuple[Guard, ...]
    liveness: Liveness
    in_flight: InFlight
    slots: Slots

    @property
    def epoch(self) -> int:
        """The store's, as far as this process has heard."""
        ...

    @property
    def clock_moves(self) -> bool:
        """Whether waiting helps."""
        ...

    def write(self, verb: Callable[..., Any], *args: Any, actor: str, tenant: int) -> Any:
        """Run a verb in a transaction: for a call that comes back when nobody waits for it."""
        ...


class EffectEngine:
    """Carries out the effects of one stream.

    in_run: under the lease of a run. token: of that lease, handed to tools that ask for it. check_may_continue: raises when the
    run is to end, so that nothing more is begun.
    """

    __slots__ = ("_actor", "_announced", "_check_may_continue", "_in_run", "_store", "_stream", "_tenant", "_token")

    def __init__(
        self, store: SendingStore, stream: Stream, actor: str, tenant: int, *, in_run: bool = False, token: int = 0,
        check_may_continue: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._store = store
        self._stream = stream
        self._actor = actor
        self._tenant = tenant
        self._in_run = in_run
        self._token = token
        self._check_may_continue = check_may_continue
        self._announced: str | int | None = None  # the effect that is dispatched next, until its attempt begins

    @property
    def sender(self) -> Sender:
        """The dispatching side here."""
        return Sender(self._store.holder, self._store.epoch)

    def dispatcher(self) -> Dispatcher:
        """The dispatching side of one transaction."""
        return Dispatcher(Sender(self._store.holder, self._store.epoch), self._check_may_continue)

    def move(
        self, arrow: str, verb: Callable[Concatenate[Tx, Stream, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Steps[T]:
        """Follow one arrow of the ledger, between its two crash points."""
        reach(f"effect.{arrow}.before")
        result = yield Write(verb, args, kwargs, keep=arrow in KEPT_ARROWS)
        reach(f"effect.{arrow}.after")
        return result

    # -- the intent ------------------------------------------------------------------------------------------------------------

    def ask_guards(self, tool: Tool | None, intent: Intent, approve: str | None) -> tuple[Intent, Precondition]:
        """Ask the guards of the store and of the tool. Gives the intent with their verdicts noted, and what must come before it
        is sent: a refusal, a question to a person, or nothing.
        """
        guards = (*self._store.guards, *(tool.guards if tool else ()))
        if not guards:
            return intent, approve
        notes, verdict = verdicts_of(guards, intent, self._actor)
        intent = msgspec.structs.replace(intent, notes={"guards": notes})
        if isinstance(verdict, RequireApproval):
            return intent, approve or verdict.question
        return intent, verdict or approve

    def ask_guards_about_call(self, tool: Tool, intent: Intent) -> tuple[Intent, Precondition]:
        """`ask_guards`, for a call that a model made. A guard that raises refuses the call: the model's answer is paid for, and
        is kept.
        """
        try:
            return self.ask_guards(tool, intent, None)
        except Exception as error:  # noqa: BLE001 - whatever it raises, it did not let the call pass
            return intent, Refuse(f"a guard failed: {error_of(error)}")

    def plan_effect(
        self, intent: Intent, precondition: Precondition = None, within: Duration | None = None
    ) -> Steps[EffectRecord]:
        """Plan an effect, or give that of its key; the same commit records what must come before it is sent."""
        return self.move("plan", commits.plan_with_precondition, intent, self.sender.epoch, precondition, within)

    def withdraw_effect(self, record: EffectRecord, why: str, by: str) -> Steps[EffectRecord]:
        """Withdraw a planned effect."""
        return self.move("withdraw", commits.withdraw_and_answer_call, record.seq, EffectError("Refused", why), by)

    # -- to its end ------------------------------------------------------------------------------------------------------------

    def act_in_session(
        self, tool: Tool, intent: Intent, precondition: Precondition, within: Duration | None
    ) -> Steps[EffectRecord]:
        """Carry out an effect in a session, once. precondition: as `ask_guards` gives it. Gives the effect, settled.

        Raises Waiting while a person has not answered, InDoubt when only a person or a later time can settle it.
        """
        try:
            effect: Intent | EffectRecord = intent
            if precondition is not None:
                effect = yield from self.plan_effect(intent, precondition, within)
            record, must_send = yield from self.dispatch_effect(tool, effect)
            return (yield from self.carry_to_end(tool, record, must_send=must_send))
        finally:
            self.unannounce()

    def carry_to_end(
        self, tool: Tool | None, record: EffectRecord, *, must_send: bool, then: NextCall | None = None
    ) -> Steps[EffectRecord]:
        """Carry an effect on until it is settled. must_send: this caller dispatched it.

        then: gives the next call of a batch. It is dispatched in the commit that ends this effect, if it can be sent at once.
        Raises InDoubt when only a person, or a later time, can settle it. A run that is to end begins no planned effect.
        """
        raised: BaseException | None = None
        while must_send or not record.settled:
            if must_send:
                assert tool is not None
                (record, raised), must_send = (yield from self.call_tool(tool, record, then)), False
            elif record.state is EffectState.UNDOING:
                return record
            elif record.state is EffectState.IN_DOUBT:
                try:
                    record, must_send = yield from self.settle_doubt(tool, record)
                except InDoubt as doubt:
                    raise doubt from raised  # nothing keeps where the tool raised it
            elif record.epoch != self._store.epoch or record.state is EffectState.DISPATCHED:
                record = yield from self.doubt_if_sender_is_gone(record)
            else:
                assert tool is not None
                self._check_may_continue()
                record, must_send = yield from self.dispatch_effect(tool, record)
        return record

    def look_at(self, record: EffectRecord) -> Steps[EffectRecord]:
        """The effect as it stands now. One whose sender is gone is put in doubt first."""
        is_open = record.state in (EffectState.PLANNED, EffectState.DISPATCHED)
        if not self._store.acts:
            return record  # over a network: the server looks
        if not is_open or (record.state is EffectState.PLANNED and record.epoch == self._store.epoch):
            return record
        if presence.server_of(record.holder or "") == self._store.holder and record.epoch == self._store.epoch:
            return record  # by this very store: its user, or its client, is at it
        try:
            return (yield from self.doubt_if_sender_is_gone(record))
        except Conflict:
            return record

    # -- dispatch --------------------------------------------------------------------------------------------------------------

    def dispatch_effect(
        self, tool: Tool, effect: Intent | EffectRecord, *, again: bool = False
    ) -> Steps[tuple[EffectRecord, bool]]:
        """Dispatch the next attempt of an effect: new (an intent), planned, or in doubt and to be called again. Gives the effect,
        and whether this caller must send it; one that moved on meanwhile is given as it stands.

        The tool's slot is taken first, and `call_tool` gives it back: a caller that waits for a slot has dispatched nothing.
        Raises Waiting while a person who was asked has not answered.
        """
        if not again and isinstance(effect, EffectRecord):
            if effect.state is not EffectState.PLANNED:
                return effect, False
            if effect.epoch != self._store.epoch:
                return (yield write(commits.check_approval, effect.seq, self._store.epoch)), False
        yield from self._take_slot(tool)
        self._store.liveness.begin()
        if not self._in_run:
            self.announce(effect.key if isinstance(effect, Intent) else effect.seq)
        dispatcher, arrow = self.dispatcher(), "dispatch"
        verb: Callable[..., tuple[EffectRecord, bool]]
        about: tuple[Any, ...]
        if isinstance(effect, Intent):
            verb, about = (commits.dispatch_under_lease if self._in_run else commits.dispatch_for_call), (effect,)
        elif again:
            arrow, verb, about = "again", commits.dispatch_again, (effect.seq, effect.attempt)
        else:
            verb, about = commits.dispatch_if_approved, (effect.seq,)
        try:
            record, must_send = yield from self.move(arrow, verb, *about, dispatcher)
        except BaseException as error:
            self._give_slot(tool)
            yield from self._take_back_dispatch(error, dispatcher)
            raise
        if not must_send:
            self.unannounce()
            self._give_slot(tool)
        return record, must_send

    def begin_user_call(self, seq: int, sender: Sender) -> Steps[EffectRecord]:
        """Dispatch an effect that its user sends. A caller that is stopped before it hears of that has sent nothing."""
        dispatcher = Dispatcher(sender)
        try:
            return (yield from self.move("dispatch", commits.dispatch_by_user, seq, dispatcher))
        except BaseException as error:
            if self._store.acts:  # over a network the same dispatch again has the same answer
                yield from self._take_back_dispatch(error, dispatcher)
            raise

    def begin_batch(
        self, batch: Sequence[BatchCall], verb: Callable[..., Any], *args: Any
    ) -> Steps[dict[str, Answer]]:  # fmt: skip
        """Plan a model's batch in one commit, and dispatch its first call in it if that can be sent at once.

        verb, args: of the commit, one of those in `commits`. Gives the answers that are known by then, by the ids of their calls.
        """
        first = next_free(batch, 0)
        if first is not None and not self._try_slot(first.sends):
            first = None
        dispatcher = self.dispatcher()
        self._store.liveness.begin()
        if first is not None and first.intent is not None:
            self.announce(first.intent.key)
        try:
            if first is not None:
                reach("effect.dispatch.before")
            reach("effect.plan.before")
            # A model's answer is paid for: it is kept.
            planned, answers = yield Write(verb, (*args, batch, dispatcher), {"first": first is not None}, keep=True)
            reach("effect.plan.after")
            for call, (record, must_send) in zip((call for call in batch if call.intent), planned, strict=True):
                call.record, call.must_send = record, must_send
            if first is not None:
                reach("effect.dispatch.after")
        except BaseException as error:
            if first is not None and first.intent is not None:
                first.must_send = False
                yield from self._take_back_dispatch(error, dispatcher)
            raise
        finally:
            if first is not None and not first.must_send:
                self.unannounce()
                self._give_slot(first.sends)
        return answers

    def _take_back_dispatch(self, error: BaseException, dispatcher: Dispatcher) -> Steps[None]:
        """Record that nothing was sent, if a caller that was stopped has dispatched the effect all the same. The effect stays
        announced until then, so that nobody takes it for doubt.
        """
        try:
            if not isinstance(error, (Exception, Ending)):
                with suppress(Error):  # the store is away: it is found out later
                    yield from self._record_without_lease(
                        Write(commits.take_back_dispatch, (dispatcher, unsent(error)))
                    )
        finally:
            self.unannounce()

    def announce(self, effect: str | int) -> None:
        """Let others of this process know that an effect, by its key or its number, is about to be dispatched and sent. In a run
        its lease says so.
        """
        if not self._in_run:
            self._announced = effect
            self._store.in_flight.announce(self._stream.id, effect, self)

    def unannounce(self) -> None:
        """End the announcement: the attempt has begun, or will never begin. Idempotent."""
        if self._announced is not None:
            self._store.in_flight.unannounce(self._stream.id, self._announced, self)
            self._announced = None

    # -- the slots of a tool that has a limit ----------------------------------------------------------------------------------

    def _take_slot(self, tool: Tool) -> Steps[None]:
        """Wait until the tool may be called once more, if it has a limit."""
        if tool.limit is None:
            return
        slots = self._store.slots
        future = slots.take(tool.name, tool.limit)
        try:
            yield Await(future)
        except BaseException:
            slots.leave(tool.name, future)
            raise

    def _try_slot(self, tool: Tool) -> bool:
        return tool.limit is None or self._store.slots.try_take(tool.name, tool.limit)

    def _give_slot(self, tool: Tool) -> None:
        if tool.limit is not None:
            self._store.slots.give_back(tool.name)

    # -- the call --------------------------------------------------------------------------------------------------------------

    def call_tool(
        self, tool: Tool, record: EffectRecord, then: NextCall | None = None
    ) -> Steps[tuple[EffectRecord, BaseException | None]]:
        """Call the tool and record the outcome. Gives the effect, and what the tool raised."""
        attempt = Attempt(self._store.in_flight, (self._stream.id, record.seq, record.attempt))
        try:
            attempt.begin()
            if self._announced is not None:
                self.unannounce()
            yield from self._check_before_call(tool, record)
            call = self._call_of(tool, record, attempt)
            try:
                came: CallOutcome = yield call
            except GeneratorExit:  # dropped by its event loop
                attempt.goes_on = isinstance(call, CallFunction) and call.outlives
                raise
            if came.error is None or is_quiet(came.error):
                self._give_slot(tool)  # else the call gives it back when it returns, however late that is
            if came.error is None:
                reach("effect.call.after")
            else:
                attempt.goes_on = not is_quiet(came.error)
            return (yield from self.record_outcome(tool, record, came, then)), came.error
        finally:
            attempt.recorded()

    def _check_before_call(self, tool: Tool, record: EffectRecord) -> Steps[None]:
        """Check the lease once more, right before the call. A caller that is stopped here has sent nothing, and records that;
        without the lease, if that was lost.
        """
        try:
            yield CHECK_LEASE
            reach("effect.call.before")
        except BaseException as error:
            self._give_slot(tool)
            late = ledger.LateAnswer("unsent", unsent(error))
            with suppress(Error):  # the store is away: it is found out later
                yield from self._record_without_lease(Write(commits.record_late_outcome, (record, late)))
            raise

    def _call_of(self, tool: Tool, record: EffectRecord, attempt: Attempt) -> CallFunction | CallIsolated:
        for_tool = {"key": record.sent_key, "token": self._token}
        if tool.isolate:
            return CallIsolated(tool, record.args, for_tool)
        seconds = None if tool.rule.timeout is None else tool.rule.timeout / SECOND_US
        late = partial(self._came_back_late, tool, record, attempt)
        return CallFunction(partial(tool.call, tool.fn, record.args, **for_tool), tool.is_async, seconds, late)

    def _came_back_late(
        self, tool: Tool, record: EffectRecord, attempt: Attempt, result: Any, error: BaseException | None
    ) -> None:
        """Record the outcome of a call that comes back after its deadline. It settles the doubt about itself, if nothing else
        has.
        """
        self._give_slot(tool)
        about = (commits.record_late_outcome, self._stream, record, late_answer(tool, result, error))
        try:
            keep_trying(
                self._store, partial(self._store.write, *about, actor=self._actor, tenant=self._tenant), record.id
            )
        except Error as lost:  # the store was closed meanwhile, or was away for too long: the doubt stays
            log.warning("the outcome of effect %s came too late to be recorded: %s", record.id, lost)
        finally:
            attempt.landed()

    # -- the outcome -----------------------------------------------------------------------------------------------------------

    def record_outcome(
        self, tool: Tool, record: EffectRecord, came: CallOutcome, then: NextCall | None = None
    ) -> Steps[EffectRecord]:
        """Record what came of the call of an attempt; a worker on the other side of a wire may have made it.

        then: as for `carry_to_end`. A caller that has lost its lease records it without, and gets Stale.
        """
        try:
            if came.error is not None:
                return (yield from self._record_error(tool, record, came.error, then))
            return (yield from self._end_attempt(record, Outcome(came.result), then))
        except Stale:
            yield from self.record_late(tool, record, came)
            raise
        except Invalid as error:
            if came.error is not None:
                raise
            # It happened, and its result cannot be kept: it must not happen again.
            return (yield from self.move("commit", commits.commit_and_answer_call, record, unkept(came.result, error)))

    def _record_error(
        self, tool: Tool, record: EffectRecord, error: BaseException, then: NextCall | None
    ) -> Steps[EffectRecord]:
        """Record what a tool raised. A clear no is a failure, Unavailable says that nothing was sent, and anything else is doubt
        (docs/decisions/0006).
        """
        if says_no(tool, error):
            return (yield from self._end_attempt(record, Outcome(error=error_of(error)), then))
        if says_unsent(error):
            return (yield from self._record_unsent(tool, record, error))
        cause = EffectError(settling.OVERDUE, str(error)) if isinstance(error, Overdue) else error_of(error)
        if not isinstance(error, Exception):
            cause = EffectError(settling.INTERRUPTED, type(error).__name__)
        doubted = yield from self._doubt(record, cause, quiet=is_quiet(error))
        if not isinstance(error, Exception):
            raise error
        if log.isEnabledFor(logging.WARNING):  # where it was raised is put into words
            trace: Mapping[str, str] = {"trace": whence(error, log, self._stream.name)}
            log.warning("it is not known whether %s happened: effect %s", tool.name, record.id, extra=trace)
        return doubted

    def _record_unsent(self, tool: Tool, record: EffectRecord, error: BaseException) -> Steps[EffectRecord]:
        """Plan the next attempt after one that was not sent. Doubt, if an attempt before it may have happened."""
        outcome = Outcome(error=error_of(error), by="its tool")
        if record.doubtful:
            return (yield from self._doubt(record, error_of(error), quiet=True))
        if record.failures > tool.rule.retries:
            return (yield from self.move("fail", commits.fail_and_answer_call, record, outcome, quiet=True))
        planned = yield from self.move("absent", commits.plan_next_attempt, record, outcome)
        yield Pause(backoff_seconds(tool.backoff, record.failures, error))
        return planned

    def _end_attempt(self, record: EffectRecord, outcome: Outcome, then: NextCall | None) -> Steps[EffectRecord]:
        """Record that an attempt happened, or that it did not. The next call of its batch is dispatched in the same commit, if it
        can be sent at once.
        """
        following = None if then is None else then()
        if following is not None and following.record is not None and self._try_slot(following.sends):
            try:
                return (yield from self._end_and_dispatch_next(record, outcome, following))
            except Stale:
                raise
            except Conflict:  # the next one has moved: that is looked at then
                pass
        if outcome.error is None:
            return (yield from self.move("commit", commits.commit_and_answer_call, record, outcome))
        return (yield from self.move("fail", commits.fail_and_answer_call, record, outcome, quiet=record.doubtful))

    def _end_and_dispatch_next(
        self, record: EffectRecord, outcome: Outcome, following: BatchCall
    ) -> Steps[EffectRecord]:  # fmt: skip
        assert following.record is not None
        seq, dispatcher = following.record.seq, self.dispatcher()
        arrow = "commit" if outcome.error is None else "fail"
        self.announce(seq)
        try:
            reach("effect.dispatch.before")
            both = self.move(arrow, commits.end_and_dispatch_next, record, outcome, seq, dispatcher)
            record, following.record = yield from both
            following.must_send = True
            reach("effect.dispatch.after")
        except BaseException as error:
            following.must_send = False
            self._give_slot(following.sends)
            yield from self._take_back_dispatch(error, dispatcher)
            raise
        return record

    def record_late(self, tool: Tool, record: EffectRecord, came: CallOutcome) -> Steps[None]:
        """Record the outcome for a caller that may have lost its lease: under the lease if that holds, else without it. The
        outcome is a fact, and settles the doubt about its own attempt, if nothing else has.
        """
        late = late_answer(tool, came.result, came.error)
        return self._record_without_lease(Write(commits.record_late_outcome, (record, late), keep=True))

    def _record_without_lease(self, command: Write) -> Generator[Command, Any, None]:
        """Write under the lease; if that was lost, without it."""
        try:
            yield command
        except Stale:
            yield msgspec.structs.replace(command, fenced=False)

    # -- doubt -----------------------------------------------------------------------------------------------------------------

    def doubt_if_sender_is_gone(self, record: EffectRecord) -> Steps[EffectRecord]:
        """Put an effect in doubt whose sender is no longer at it. Raises Conflict while the sender is.

        The sender of a run may live and yet have lost the run: the holder of the lease does not wait for it.
        """
        store, holder = self._store, record.holder or ""
        # Announcements first: an attempt begins before its announcement ends.
        names = (record.key, record.seq, *([] if record.call is None else [key_of_call(record.call)]))
        announced = store.in_flight.is_announced(self._stream.id, *names)
        sending = announced or store.in_flight.has_attempt(self._stream.id, record.seq, record.attempt)
        dead = store.liveness.is_dead(holder) or (holder == store.holder and self._in_run and not sending)
        elsewhere = holder != store.holder and not dead
        if record.epoch != store.epoch:
            cause = FORGOTTEN
        elif not self._in_run and (sending or (elsewhere and (yield Read(presence.is_alive, (holder,))))):
            raise Conflict(
                f"effect {record.id} is being sent by {holder}", path="effect", state="dispatched", holder=holder
            )
        else:
            cause = cause_of_silence(dead=dead, held=store.liveness.is_held(holder))
        return (yield from self._doubt(record, cause, quiet=dead, epoch=store.epoch))

    def _doubt(
        self, record: EffectRecord, cause: EffectError, *, quiet: bool, epoch: int | None = None
    ) -> Steps[EffectRecord]:
        return self.move("doubt", commits.doubt_attempt, record, cause, quiet=quiet, epoch=epoch)

    def settle_doubt(self, tool: Tool | None, record: EffectRecord) -> Steps[tuple[EffectRecord, bool]]:
        """Do what the rule of the tool says about doubt. Gives the effect, and whether it is to be sent again now."""
        now_us = yield Read(store_now)
        advice = settling.advise(record, now_us, can_probe=tool is not None and tool.probe is not None)
        if advice.action is Action.AGAIN and tool is not None:
            if record.error is not None and record.error.code not in settling.MISHAPS:
                yield Pause(backoff_seconds(tool.backoff, record.failures))
            try:
                return (yield from self.dispatch_effect(tool, record, again=True))
            except Stale:
                raise
            except Conflict:  # another caller settled it meanwhile
                return (yield Read(ledger.effect, (self._stream, record.seq))), False
        if advice.action is Action.PROBE and tool is not None:
            record = yield from self._note_dead_sender(record)
            asked_us = yield Read(store_now)
            verdict = yield from self.ask_probe(tool, record)
            return (yield from self.apply_probe_answer(record, verdict, asked_us)), False
        if advice.action is Action.FAIL:
            return (yield from self._give_up(record, advice)), False
        raise in_doubt(record, advice)

    def _give_up(self, record: EffectRecord, advice: Advice) -> Steps[EffectRecord]:
        error = record.error or EffectError("Failed", advice.reason)
        outcome = Outcome(error=error, by=advice.reason, doubtful=record.kind is ToolKind.IDEMPOTENT)
        return self.move("fail", commits.settle_and_answer_call, record.seq, record.attempt, outcome)

    def ask_probe(self, tool: Tool, record: EffectRecord) -> Steps[Verdict]:
        """Call the probe of a tool. A probe that raises, or returns no verdict, gives Unknown."""
        probe = tool.probe
        assert probe is not None
        seconds = PROBE_SECONDS if tool.rule.timeout is None else tool.rule.timeout / SECOND_US
        call = partial(tool.call, probe, record.args, key=record.sent_key)
        came: CallOutcome = yield CallFunction(call, iscoroutinefunction(probe), seconds)
        if isinstance(came.error, Exception):
            return Unknown(f"the probe failed: {type(came.error).__name__}: {came.error}")
        if came.error is not None:
            raise came.error
        if isinstance(came.result, (Happened, Absent, Unknown, Declined)):
            return came.result
        return Unknown(f"the probe returned {type(came.result).__name__}, not Happened, Absent or Unknown")

    def apply_probe_answer(self, record: EffectRecord, verdict: Verdict, asked_us: int) -> Steps[EffectRecord]:
        """Record the answer of the other side. asked_us: the time at which it was asked. Raises InDoubt if that settles nothing
        yet.
        """
        if isinstance(verdict, Happened):
            outcome = Outcome(kept(verdict.result), by="probe")
            settle = self.move("commit", commits.settle_and_answer_call, record.seq, record.attempt, outcome)
            return (yield from settle)
        if isinstance(verdict, Declined):
            outcome = Outcome(error=EffectError("Declined", verdict.reason), by="probe")
            settle = self.move("fail", commits.settle_and_answer_call, record.seq, record.attempt, outcome)
            return (yield from settle)
        if not isinstance(verdict, Absent):
            reason = getattr(verdict, "reason", "") or "the probe cannot tell"
            raise in_doubt(record, settling.look_again(record, asked_us, reason))
        advice = settling.after_absent(record, asked_us)
        if advice.action is Action.WAIT:
            yield from self._wait_until(record, advice)
            return record
        if advice.action is Action.FAIL:
            return (yield from self._give_up(record, advice))
        if advice.action is not Action.AGAIN:
            raise in_doubt(record, advice)
        outcome = Outcome(error=EffectError("Absent", advice.reason), by="probe")
        return (yield from self.move("absent", ledger.absent, record.seq, record.attempt, outcome))

    def _wait_until(self, record: EffectRecord, advice: Advice) -> Steps[None]:
        assert advice.until_us is not None
        left = (advice.until_us - (yield Read(store_now))) / SECOND_US
        if self._in_run or left > PATIENCE_SECONDS or not self._store.clock_moves:
            raise in_doubt(record, advice)  # a run rests meanwhile, and nobody holds it
        yield Pause(max(left, 0.001), watched=False)

    def _note_dead_sender(self, record: EffectRecord) -> Steps[EffectRecord]:
        """The effect; recorded as quiet, if its sender is proved dead by now."""
        if record.quiet_at is not None or not self._store.liveness.is_dead(record.holder or ""):
            return record
        cause = record.error or EffectError(settling.DIED, settling.HAS_DIED)
        return (yield from self._doubt(record, cause, quiet=True))

    def advice_until_landed(self, record: EffectRecord) -> Steps[Advice | None]:
        """None when nothing of an effect can arrive at the other side any more; else how long to wait, and why.

        An effect that happened has arrived; but an attempt before the one that did may still be under way here.
        """
        given_up = record.state is EffectState.FAILED
        if given_up:
            record = yield from self._note_dead_sender(record)
        now_us = yield Read(store_now)
        if self._store.in_flight.has_attempt(self._stream.id, record.seq, record.attempt):
            return settling.look_again(record, now_us, "its caller may still send it")
        return settling.until_landed(record, now_us) if given_up else None


class DoubtSettler(EffectEngine):
    """Settles one effect that is in doubt, and never waits in place: what must wait is left."""

    __slots__ = ()

    def settle(self, tool: Tool | None, record: EffectRecord) -> Steps[EffectRecord]:
        """Bring an effect out of doubt by its rule. One that did not happen is planned again and not sent: the next caller that
        acts with its key sends it. Raises InDoubt when a person or a later time must settle it. Gives it as it is while its
        sender lives.
        """
        record = yield from self.look_at(record)
        while record.state is EffectState.IN_DOUBT:
            record, must_send = yield from self.settle_doubt(tool, record)
            if must_send and tool is not None:
                record, _ = yield from self.call_tool(tool, record)
        return record

    def _wait_until(self, record: EffectRecord, advice: Advice) -> Steps[None]:
        raise in_doubt(record, advice)


class ModelAsker(EffectEngine):
    """Asks a model. That changes nothing in the outside world, so a question that failed or was cut off may be asked anew."""

    __slots__ = ("_raised",)

    def ask(self, tool: Tool, intent: Intent) -> Steps[Any]:
        """The answer that is recorded under the key of the intent, or a new one. Raises what the tool raises in this call."""
        self._raised: BaseException | None = None
        planned_anew = False
        while self._raised is None:
            try:
                noted, precondition = self.ask_guards(tool, intent, None)
                return outcome_of((yield from self.act_in_session(tool, noted, precondition, None)))
            except (Failed, InDoubt):
                if self._raised is None and (planned_anew or not (yield write(ledger.plan_anew, intent.key))):
                    raise
                planned_anew = True
        raise self._raised

    def call_tool(
        self, tool: Tool, record: EffectRecord, then: NextCall | None = None
    ) -> Steps[tuple[EffectRecord, BaseException | None]]:
        """As every effect; what the tool raised is kept for its caller."""
        record, self._raised = yield from super().call_tool(tool, record, then)
        return record, self._raised


# -- before anything is written --------------------------------------------------------------------------------------------------


def intend(
    name: str, kind: ToolKind, args: dict[str, Any], rule: Rule, key: str | None, call: Call | None,
    about: tuple[str, ...] = (),
) -> Intent:  # fmt: skip
    """An effect in a session, under its key, the call that it answers, or a new key. Refused for a tool that only reads."""
    if kind is ToolKind.READ:
        raise Refused(f"{name} only reads: call it yourself", path="tool", hint="a run records it with run.step")
    if call is not None and type(call) is not Call:
        raise Invalid(f"expected a Call, got {type(call).__name__}", path="call")
    chosen = key if key is not None else key_of_call(call.id) if call is not None else new_uid().hex()
    return Intent(name, kind, chosen, digest_of(name, args), args, rule, call=call.id if call else None, about=about)


def verdicts_of(
    guards: Iterable[Guard], intent: Intent, actor: str
) -> tuple[list[dict[str, str]], Refuse | RequireApproval | None]:
    """Ask the guards about an intent. Gives every verdict, those that pass included, and the one that counts.

    A refusal ends the asking. Raises Invalid for a guard that returns no verdict.
    """
    notes: list[dict[str, str]] = []
    deciding: Refuse | RequireApproval | None = None
    for guard in guards:
        verdict = guard(intent, actor)
        name = getattr(guard, "__name__", type(guard).__name__)
        if verdict is None:
            notes.append({"guard": name, "said": "pass"})
        elif isinstance(verdict, Refuse):
            notes.append({"guard": name, "said": "refuse", "why": text_of(verdict.reason)})
            return notes, verdict
        elif isinstance(verdict, RequireApproval):
            notes.append({"guard": name, "said": "approval", "why": text_of(verdict.question)})
            deciding = deciding or verdict
        else:
            raise Invalid(
                f"the guard {name} returned {verdict!r}", path="guard", hint="return None, Refuse or RequireApproval"
            )
    return notes, deciding
