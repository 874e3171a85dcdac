"""Acting: carries an effect from its intent to its end, in a session or in a run. The one place that calls tools (P2).

It knows where it writes: a session's stream, or a run's under its lease. Every arrow of the ledger has a crash point
before and after it, `effect.<arrow>.before|after`, and so has the call itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from perdure.effects import ledger, settling
from perdure.effects.answers import answering, arriving, for_call
from perdure.effects.ledger import Intent, Outcome, Sender, error_of
from perdure.effects.settling import Action, Advice
from perdure.effects.tool import Guard, Refuse, RequireApproval, Tool
from perdure.errors import Conflict, Error, Failed, InDoubt, Invalid, Stale, Unavailable
from perdure.handles.callers import AsyncCaller
from perdure.handles.invoking import AsyncInvoker, Overdue, Prepared
from perdure.handles.isolating import AsyncIsolator
from perdure.log.change import Stream
from perdure.model.instants import SECOND_US, system_clock
from perdure.model.points import reach
from perdure.model.records.effects import (
    Absent,
    Declined,
    EffectError,
    EffectRecord,
    EffectState,
    Happened,
    Unknown,
    Verdict,
)
from perdure.model.values import to_plain
from perdure.planes import presence
from perdure.planes.spans import store_now
from perdure.stores.core import Core

log = logging.getLogger("perdure.effects")

PATIENCE_SECONDS = 600.0  # the longest that is waited in place for what was sent to arrive
LATE = "a late answer"
Write = Callable[..., Any]


class AsyncActing:
    """Acts on one stream. `write` runs a verb there: plainly for a session, fenced for a run.

    `check` is asked right before a tool is called: whether this caller may still send.
    """

    __slots__ = ("_caller", "_check", "_invoker", "_stream", "_token", "_write")

    def __init__(
        self, caller: AsyncCaller, stream: Stream, write: Write, *, check: Write | None = None, token: int = 0
    ) -> None:
        self._caller = caller
        self._stream = stream
        self._write = write
        self._check = check
        self._token = token
        self._invoker = AsyncInvoker(caller.core.living)

    @property
    def sender(self) -> Sender:
        """Who dispatches here."""
        core = self._caller.core
        return Sender(core.holder, core.epoch)

    async def move(self, arrow: str, verb: Callable[..., Any], *args: Any) -> Any:
        """Follow one arrow of the ledger, between its two crash points."""
        reach(f"effect.{arrow}.before")
        result = await self._write(verb, *args)
        reach(f"effect.{arrow}.after")
        return result

    def guarded(self, tool: Tool, intent: Intent, approve: str | None) -> tuple[Intent, Refuse | str | None]:
        """What the guards of the store and of the tool say: the intent with their verdicts, and what must come first."""
        guards = (*self._caller.core.guards, *tool.guards)
        if not guards:
            return intent, approve
        said, verdict = guarded(guards, intent, self._caller.actor)
        intent = msgspec.structs.replace(intent, notes={"guards": said})
        if isinstance(verdict, RequireApproval):
            return intent, approve or verdict.question
        return intent, verdict or approve

    # -- from intent to end ------------------------------------------------------------------------------------------------

    async def plan(self, intent: Intent) -> EffectRecord:
        """Write down what is meant, or find what stands under its key."""
        return await self.move("plan", for_call, ledger.plan, intent, self.sender.epoch)

    async def withdraw(self, record: EffectRecord, why: str, by: str) -> EffectRecord:
        """What is planned shall not happen."""
        return await self.move("withdraw", answering, ledger.withdraw, record.seq, EffectError("Refused", why), by)

    async def looked_at(self, record: EffectRecord) -> EffectRecord:
        """The effect as it stands: in doubt, if who was to carry it out is gone."""
        is_open = record.state in (EffectState.PLANNED, EffectState.DISPATCHED)
        if not is_open or (record.state is EffectState.PLANNED and record.epoch == self.sender.epoch):
            return record
        if record.holder == self._caller.core.holder and record.epoch == self.sender.epoch:
            return record  # by this very store: its user is at it
        try:
            return await self._find_out(record)
        except Conflict:
            return record

    async def dispatch(self, intent: Intent) -> tuple[EffectRecord, bool]:
        """Make the intent durable; whether it was this call that did."""
        self._caller.core.living.begin()
        return await self.move("dispatch", for_call, ledger.dispatch, intent, self.sender)

    async def dispatch_new(self, intent: Intent) -> EffectRecord:
        """The same for what is known to be new."""
        self._caller.core.living.begin()
        return await self.move("dispatch", ledger.dispatch_new, intent, self.sender)

    async def conclude(self, tool: Tool | None, record: EffectRecord, *, mine: bool) -> EffectRecord:
        """Carry an effect on until it is settled. mine: it was dispatched by this call and is to be sent.

        InDoubt when only a person, or a later time, can settle it.
        """
        while mine or not record.settled:
            if mine:
                assert tool is not None
                record, mine = await self._send(tool, record), False
            elif record.state is EffectState.UNDOING:
                return record
            elif record.state is EffectState.IN_DOUBT:
                record, mine = await self._settle(tool, record)
            elif record.epoch != self.sender.epoch or record.state is EffectState.DISPATCHED:
                record = await self._find_out(record)
            else:
                record, mine = await self.move("dispatch", ledger.dispatch_planned, record.seq, self.sender), True
        return record

    async def _send(self, tool: Tool, record: EffectRecord) -> EffectRecord:
        """Call the tool, and record what became of it."""
        flying = (self._stream.id, record.seq)
        self._caller.core.flying.add(flying)
        try:
            await self._check_lease(record)
            reach("effect.call.before")
            try:
                result = await self._call(tool, record)
            except BaseException as error:  # noqa: BLE001 - whatever a tool raises is judged by its declaration
                return await self._went_wrong(tool, record, error)
            reach("effect.call.after")
            return await self._happened(tool, record, result)
        finally:
            self._caller.core.flying.discard(flying)

    async def _check_lease(self, record: EffectRecord) -> None:
        """The lease once more, right before the call. If it is lost, nothing was sent: that is said without it."""
        if self._check is None:
            return
        try:
            await self._check()
        except Stale:
            outcome = Outcome(error=EffectError("Stale", "the lease was lost before it was sent"), by="its sender")
            await self._caller.write(arriving, self._stream, ledger.absent, record.seq, record.attempt, outcome)
            raise

    async def _call(self, tool: Tool, record: EffectRecord) -> Any:
        handed = {"key": record.handed, "token": self._token}
        if tool.isolate:
            return await AsyncIsolator(self._caller.core.living).call(tool, record.args, handed)
        call = Prepared(lambda: tool.call(tool.fn, record.args, **handed), is_async=tool.is_async)
        if tool.rule.timeout is None:
            return await self._invoker.call(call, self._late(tool, record))
        return await self._invoker.call_within(call, tool.rule.timeout / SECOND_US, self._late(tool, record))

    def _late(self, tool: Tool, record: EffectRecord) -> Callable[[Any, BaseException | None], None]:
        """What a call does that comes back after it was left behind: it settles its own doubt, if nothing else has."""
        core, caller, stream = self._caller.core, self._caller, self._stream

        def tell(result: Any, error: BaseException | None) -> None:
            said = _said_late(tool, result, error)
            try:
                core.write(arriving, stream, said[0], record.seq, record.attempt, *said[1:], actor=caller.actor,
                           tenant=caller.tenant)  # fmt: skip
            except Error as lost:  # the store was closed meanwhile: the doubt stays
                log.warning("what became of effect %s came too late to be recorded: %s", record.id, lost)

        return tell

    async def _happened(self, tool: Tool, record: EffectRecord, result: Any) -> EffectRecord:
        try:
            return await self.move("commit", answering, ledger.commit_own, record, Outcome(result))
        except Stale:
            await self._say_late(record, _said_late(tool, result, None))
            raise
        except Invalid as error:  # it happened, and its result cannot be kept: it must not happen again
            kept = Outcome(_kept(result))
            await self.move("commit", answering, ledger.commit, record.seq, record.attempt, kept)
            raise Invalid(
                f"{record.tool} happened, but its result cannot be kept: {error.message}",
                path=error.path,
                hint=error.hint,
            ) from error

    async def _went_wrong(self, tool: Tool, record: EffectRecord, error: BaseException) -> EffectRecord:
        """What a tool raised, recorded; without the lease too, if that was lost meanwhile."""
        try:
            return await self._judged(tool, record, error)
        except Stale:
            await self._say_late(record, _said_late(tool, None, error))
            raise

    async def _say_late(self, record: EffectRecord, said: tuple[Any, ...]) -> None:
        """The run is somebody else's by now; what became of the call is a fact all the same."""
        verb, *about = said
        await self._caller.write(arriving, self._stream, verb, record.seq, record.attempt, *about)

    async def _judged(self, tool: Tool, record: EffectRecord, error: BaseException) -> EffectRecord:
        """A clear no is a failure; Unavailable says that nothing was sent; anything else is doubt (docs/decisions/0006)."""
        if isinstance(error, (Failed, *tool.fails)):
            outcome = Outcome(error=error_of(error))
            return await self.move("fail", answering, ledger.fail, record.seq, record.attempt, outcome)
        if isinstance(error, Unavailable):
            return await self._not_sent(tool, record, error)
        said = EffectError(settling.OVERDUE, str(error)) if isinstance(error, Overdue) else error_of(error)
        if not isinstance(error, Exception):
            said = EffectError(settling.INTERRUPTED, type(error).__name__)
        doubted = await self.move("doubt", _doubt, record.seq, record.attempt, said, _is_quiet(error))
        if not isinstance(error, Exception):
            raise error
        return doubted

    async def _not_sent(self, tool: Tool, record: EffectRecord, error: Unavailable) -> EffectRecord:
        """It did not happen, and may be tried again as often as the tool allows."""
        outcome = Outcome(error=error_of(error), by="its tool")
        if record.attempt > tool.rule.retries:
            return await self.move("fail", answering, ledger.fail, record.seq, record.attempt, outcome)
        planned = await self.move("absent", ledger.absent, record.seq, record.attempt, outcome)
        await self._caller.pause(backoff_seconds(tool.backoff, record.attempt))
        return planned

    # -- doubt ---------------------------------------------------------------------------------------------------------------

    async def _find_out(self, record: EffectRecord) -> EffectRecord:
        """Somebody dispatched it: is he still at it? If not, it is in doubt. Conflict while he is.

        In a run he may live and yet have lost it: who has the lease now does not wait for him.
        """
        core, holder = self._caller.core, record.holder or ""
        sending = (self._stream.id, record.seq) in core.flying
        dead = core.living.is_dead(holder) or (holder == core.holder and self._check is not None and not sending)
        if record.epoch != core.epoch:
            said = EffectError(
                settling.RESTORED, "the store was restored since; what came after the backup is not known"
            )
        elif self._check is None and (sending or await self._is_at_work(holder, dead=dead)):
            raise Conflict(
                f"effect {record.id} is being sent by {holder}", path="effect", state="dispatched", holder=holder
            )
        else:
            said = EffectError(settling.DIED, "who sent it has died" if dead else "who sent it gives no sign of life")
        return await self.move("doubt", _doubt, record.seq, record.attempt, said, dead, core.epoch)

    async def _is_at_work(self, holder: str, *, dead: bool) -> bool:
        """Whether another store that dispatched something in a session may still be carrying it out."""
        return holder != self._caller.core.holder and not dead and await self._caller.read(presence.is_alive, holder)

    async def _settle(self, tool: Tool | None, record: EffectRecord) -> tuple[EffectRecord, bool]:
        """Do what the tool's rule says. Returns the effect, and whether it is to be sent again now."""
        now_us = await self._caller.read(store_now)
        advice = settling.advise(record, now_us, can_probe=tool is not None and tool.probe is not None)
        if advice.action is Action.AGAIN and tool is not None:
            return await self._again(tool, record)
        if advice.action is Action.PROBE and tool is not None:
            return await self._probe(tool, record)
        if advice.action is Action.FAIL:
            return await self._give_up(record, advice), False
        raise in_doubt(record, advice)

    async def _again(self, tool: Tool, record: EffectRecord) -> tuple[EffectRecord, bool]:
        """The next attempt; if somebody else settled it meanwhile, that."""
        if record.error is not None and record.error.code not in settling.MISHAPS:
            await self._caller.pause(backoff_seconds(tool.backoff, record.attempt))
        try:
            return await self.move("again", ledger.dispatch_again, record.seq, record.attempt, self.sender), True
        except Stale:
            raise
        except Conflict:
            return await self._caller.read(ledger.effect, self._stream, record.seq), False

    async def _give_up(self, record: EffectRecord, advice: Advice) -> EffectRecord:
        error = record.error or EffectError("Failed", advice.reason)
        outcome = Outcome(error=error, by=advice.reason)
        return await self.move("fail", answering, ledger.fail, record.seq, record.attempt, outcome)

    async def _probe(self, tool: Tool, record: EffectRecord) -> tuple[EffectRecord, bool]:
        record = await self._quieted(record)
        asked_us = await self._caller.read(store_now)
        verdict = await self.ask_probe(tool, record)
        if isinstance(verdict, Happened):
            outcome = Outcome(verdict.result, by="probe")
            return await self.move("commit", answering, ledger.commit, record.seq, record.attempt, outcome), False
        if isinstance(verdict, Declined):
            outcome = Outcome(error=EffectError("Declined", verdict.reason), by="probe")
            return await self.move("fail", answering, ledger.fail, record.seq, record.attempt, outcome), False
        if not isinstance(verdict, Absent):
            reason = getattr(verdict, "reason", "") or "the probe cannot tell"
            raise in_doubt(record, Advice(Action.PERSON, reason))
        return await self._absent(record, settling.after_absent(record, asked_us)), False

    async def _absent(self, record: EffectRecord, advice: Advice) -> EffectRecord:
        if advice.action is Action.WAIT:
            await self._wait_until(record, advice)
            return record
        if advice.action is Action.FAIL:
            return await self._give_up(record, advice)
        if advice.action is not Action.AGAIN:
            raise in_doubt(record, advice)
        outcome = Outcome(error=EffectError("Absent", advice.reason), by="probe")
        return await self.move("absent", ledger.absent, record.seq, record.attempt, outcome)

    async def _quieted(self, record: EffectRecord) -> EffectRecord:
        """The effect with `quiet_at`, if its caller is proved dead by now."""
        if record.quiet_at is not None or not self._caller.core.living.is_dead(record.holder or ""):
            return record
        said = record.error or EffectError(settling.DIED, "who sent it has died")
        return await self.move("doubt", _doubt, record.seq, record.attempt, said, True)  # noqa: FBT003 - proved

    async def ask_probe(self, tool: Tool, record: EffectRecord) -> Verdict:
        """What the other side says. Whatever a probe raises, and any answer that is none, is Unknown."""
        assert tool.probe is not None
        probe = tool.probe
        seconds = (tool.rule.timeout or 60 * SECOND_US) / SECOND_US
        is_async = is_coroutine(probe)
        call = Prepared(lambda: tool.call(probe, record.args, key=record.handed), is_async=is_async)
        try:
            verdict = await self._invoker.call_within(call, seconds)
        except Exception as error:  # noqa: BLE001 - a probe that fails has told nothing
            return Unknown(f"the probe failed: {type(error).__name__}: {error}")
        if isinstance(verdict, (Happened, Absent, Unknown, Declined)):
            return verdict
        return Unknown(f"the probe returned {type(verdict).__name__}, not Happened, Absent or Unknown")

    async def _wait_until(self, record: EffectRecord, advice: Advice) -> None:
        assert advice.until_us is not None
        left = (advice.until_us - await self._caller.read(store_now)) / SECOND_US
        if self._check is not None or left > PATIENCE_SECONDS or not moves_by_itself(self._caller.core):
            raise in_doubt(record, advice)  # a run rests meanwhile, and nobody holds it
        await self._caller.pause(max(left, 0.001))


def moves_by_itself(core: Core) -> bool:
    """Whether waiting helps: a clock that was passed in stands still meanwhile."""
    return core.clocks.now is system_clock


def _said_late(tool: Tool, result: Any, error: BaseException | None) -> tuple[Any, ...]:
    """The verb for what came of a call when nobody waited for it any more, with its arguments."""
    if error is None:
        return ledger.commit, Outcome(_kept(result), by=LATE)
    if isinstance(error, (Failed, *tool.fails)):
        return ledger.fail, Outcome(error=error_of(error), by=LATE)
    if isinstance(error, Unavailable):
        return ledger.absent, Outcome(error=error_of(error), by=LATE)
    return _doubt, error_of(error), _is_quiet(error)


def _is_quiet(error: BaseException) -> bool:
    """Whether a call that raised this can no longer send. It is over, unless the error says otherwise (`Overdue`)."""
    return getattr(error, "quiet", True)


def _kept(result: Any) -> Any:
    """What is kept of a result: itself, or what it was, if it cannot be kept. It happened, and must not happen again."""
    try:
        to_plain(result, "result")
    except Invalid:
        return {"unstorable": type(result).__name__}
    return result


def _doubt(
    tx: Any, stream: Stream, seq: int, attempt: int, said: EffectError, quiet: bool, epoch: int | None = None
) -> EffectRecord:
    return ledger.doubt(tx, stream, seq, attempt, said, quiet=quiet, epoch=epoch)


def is_coroutine(fn: Any) -> bool:
    """Whether calling it gives something to await."""
    from inspect import iscoroutinefunction  # noqa: PLC0415 - rarely asked

    return iscoroutinefunction(fn)


def backoff_seconds(first: float, attempt: int) -> float:
    """How long to wait before the next attempt: doubled each time, at most a minute."""
    return min(first * 2 ** max(attempt - 1, 0), 60.0)


def in_doubt(record: EffectRecord, advice: Advice) -> InDoubt:
    """The error that says what is in doubt, why nothing more is done by itself, and how a person settles it."""
    why = f" ({record.error.code}: {record.error.message})" if record.error else ""
    return InDoubt(
        f"it is not known whether {record.tool} happened{why}: {advice.reason}", path=record.id,
        hint=settling.ways_out(record), effect=record.id, action=advice.action.value, until=advice.until_us,
    )  # fmt: skip


def outcome_of(record: EffectRecord) -> Any:
    """The result of a settled effect. Failed when it did not happen, or was undone."""
    if record.state is EffectState.COMMITTED:
        return record.result
    error = record.error or EffectError(record.state.value, f"{record.tool} is {record.state}")
    raise Failed(error.message or f"{record.tool} is {record.state}", code=error.code, path=record.id, effect=record.id)


def guarded(
    guards: Iterable[Guard], intent: Intent, actor: str
) -> tuple[list[dict[str, str]], Refuse | RequireApproval | None]:
    """What the guards say of a planned effect: every verdict, also those that pass, and the one that counts."""
    said: list[dict[str, str]] = []
    deciding: Refuse | RequireApproval | None = None
    for guard in guards:
        verdict = guard(intent, actor)
        name = getattr(guard, "__name__", type(guard).__name__)
        if verdict is None:
            said.append({"guard": name, "said": "pass"})
        elif isinstance(verdict, Refuse):
            said.append({"guard": name, "said": "refuse", "why": verdict.reason})
            return said, verdict
        elif isinstance(verdict, RequireApproval):
            said.append({"guard": name, "said": "approval", "why": verdict.question})
            deciding = deciding or verdict
        else:
            raise Invalid(
                f"the guard {name} returned {verdict!r}", path="guard", hint="return None, Refuse or RequireApproval"
            )
    return said, deciding
