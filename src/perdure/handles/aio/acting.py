"""Acting: carries an effect from its intent to its end, in a session or in a run. The one place that calls tools (P2).

It knows where it writes: a session's stream, or a run's under its lease. Every arrow of the ledger has a crash point
before and after it, `effect.<arrow>.before|after`, and so has the call itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from inspect import iscoroutinefunction
from typing import Any

import msgspec

from perdure.effects import ledger, settling
from perdure.effects.answers import answering, arriving, followed_by, for_call
from perdure.effects.batch import Meant, next_free, nothing_next
from perdure.effects.judging import backoff_seconds, in_doubt, is_quiet, kept, said_late
from perdure.effects.ledger import Intent, Outcome, Sender, error_of
from perdure.effects.meaning import guarded
from perdure.effects.settling import Action, Advice
from perdure.effects.tool import Refuse, RequireApproval, Tool
from perdure.errors import Conflict, Error, Failed, Invalid, Stale, Unavailable
from perdure.handles.callers import AsyncCaller
from perdure.handles.invoking import AsyncInvoker, Overdue, Prepared
from perdure.handles.isolating import AsyncIsolator
from perdure.log.change import Stream
from perdure.model.instants import SECOND_US
from perdure.model.points import reach
from perdure.model.records.effects import (
    Absent,
    Answer,
    Declined,
    EffectError,
    EffectRecord,
    EffectState,
    Happened,
    Unknown,
    Verdict,
)
from perdure.planes import presence
from perdure.planes.spans import store_now

log = logging.getLogger("perdure.effects")

PATIENCE_SECONDS = 600.0  # the longest that is waited in place for what was sent to arrive
Write = Callable[..., Any]
Then = Callable[[], "Meant | None"]


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

    async def begin_all(self, batch: Sequence[Meant], verb: Callable[..., Any], *args: Any) -> dict[str, Answer]:
        """Plan a batch with its verb (see `effects.batch`), and dispatch what can be sent at once; gives what it is told."""
        first = next_free(batch, 0)
        if first is not None and not self._try_slot(first.sends):
            first = None
        self._caller.core.living.begin()
        try:
            if first is not None:
                reach("effect.dispatch.before")
            begin = partial(verb, first=first is not None)
            planned, told = await self.move("plan", begin, *args, batch, self.sender)
            for meant, (record, mine) in zip((each for each in batch if each.intent), planned, strict=True):
                meant.record, meant.mine = record, mine
            if first is not None:
                reach("effect.dispatch.after")
        finally:
            if first is not None and not first.mine:
                self._give_slot(first.sends)
        return told

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

    async def dispatch(self, tool: Tool, intent: Intent) -> tuple[EffectRecord, bool]:
        """Make the intent durable; whether it was this call that did, so that it must be sent."""
        record, mine = await self._announce(tool, "dispatch", for_call, ledger.dispatch, intent)
        if not mine:
            self._give_slot(tool)
        return record, mine

    async def dispatch_new(self, tool: Tool, intent: Intent) -> EffectRecord:
        """The same for what is known to be new."""
        return await self._announce(tool, "dispatch", ledger.dispatch_new, intent)

    async def _announce(self, tool: Tool, arrow: str, verb: Callable[..., Any], *args: Any) -> Any:
        """Follow an arrow to `dispatched`, with a slot of the tool, which `_send` gives back. Who waits for one sends nothing."""
        await self._take_slot(tool)
        self._caller.core.living.begin()
        try:
            return await self.move(arrow, verb, *args, self.sender)
        except BaseException:
            self._give_slot(tool)
            raise

    async def conclude(
        self, tool: Tool | None, record: EffectRecord, *, mine: bool, then: Then = nothing_next
    ) -> EffectRecord:
        """Carry an effect on until it is settled. mine: it was dispatched by this call and is to be sent.

        then: gives what a batch does next; it is dispatched in the commit that ends this one, if it can be sent at once.
        InDoubt when only a person, or a later time, can settle it.
        """
        while mine or not record.settled:
            if mine:
                assert tool is not None
                record, mine = await self._send(tool, record, then), False
            elif record.state is EffectState.UNDOING:
                return record
            elif record.state is EffectState.IN_DOUBT:
                record, mine = await self._settle(tool, record)
            elif record.epoch != self.sender.epoch or record.state is EffectState.DISPATCHED:
                record = await self._find_out(record)
            else:
                assert tool is not None
                record, mine = await self._announce(tool, "dispatch", ledger.dispatch_planned, record.seq), True
        return record

    async def _send(self, tool: Tool, record: EffectRecord, then: Then = nothing_next) -> EffectRecord:
        """Call the tool, and record what became of it."""
        flying = (self._stream.id, record.seq)
        self._caller.core.flying.add(flying)
        try:
            try:
                await self._check_lease(record)
                reach("effect.call.before")
            except BaseException:
                self._give_slot(tool)
                raise
            try:
                result = await self._call(tool, record)
            except BaseException as error:  # noqa: BLE001 - whatever a tool raises is judged by its declaration
                return await self._went_wrong(tool, record, error, then)
            reach("effect.call.after")
            return await self._happened(tool, record, result, then)
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
        try:
            if tool.isolate:
                return await AsyncIsolator(self._caller.core.living).call(tool, record.args, handed)
            call = Prepared(lambda: tool.call(tool.fn, record.args, **handed), is_async=tool.is_async)
            if tool.rule.timeout is None:
                return await self._invoker.call(call, self._late(tool, record))
            return await self._invoker.call_within(call, tool.rule.timeout / SECOND_US, self._late(tool, record))
        finally:
            self._give_slot(tool)

    # -- slots ---------------------------------------------------------------------------------------------------------------

    async def _take_slot(self, tool: Tool) -> None:
        """Wait until the tool may be called once more, if it has a limit."""
        if tool.limit is None:
            return
        slots = self._caller.core.slots
        future = slots.take(tool.name, tool.limit)
        try:
            await self._caller.until(future)
        except BaseException:
            slots.leave(tool.name, future)
            raise

    def _try_slot(self, tool: Tool) -> bool:
        return tool.limit is None or self._caller.core.slots.try_take(tool.name, tool.limit)

    def _give_slot(self, tool: Tool) -> None:
        if tool.limit is not None:
            self._caller.core.slots.give_back(tool.name)

    # -- what became of it -----------------------------------------------------------------------------------------------------

    async def _end(self, then: Then, arrow: str, verb: Callable[..., Any], *args: Any) -> EffectRecord:
        """Follow an arrow that ends an effect; what comes next is dispatched in the same commit, if it can be sent at once."""
        following = then()
        if following is None or following.record is None or not self._try_slot(following.sends):
            return await self.move(arrow, answering, verb, *args)
        try:
            reach("effect.dispatch.before")
            about = (following.record.seq, self.sender, then, verb, *args)
            record, following.record = await self.move(arrow, followed_by, *about)
            following.mine = True
            reach("effect.dispatch.after")
        except BaseException as error:
            following.mine = False
            self._give_slot(following.sends)
            if isinstance(error, Conflict) and not isinstance(
                error, Stale
            ):  # the next one has moved: that is looked at then
                return await self.move(arrow, answering, verb, *args)
            raise
        return record

    def _late(self, tool: Tool, record: EffectRecord) -> Callable[[Any, BaseException | None], None]:
        """What a call does that comes back after it was left behind: it settles its own doubt, if nothing else has."""
        core, caller, stream = self._caller.core, self._caller, self._stream

        def tell(result: Any, error: BaseException | None) -> None:
            said = said_late(tool, result, error)
            try:
                core.write(arriving, stream, said[0], record.seq, record.attempt, *said[1:], actor=caller.actor,
                           tenant=caller.tenant)  # fmt: skip
            except Error as lost:  # the store was closed meanwhile: the doubt stays
                log.warning("what became of effect %s came too late to be recorded: %s", record.id, lost)

        return tell

    async def _happened(self, tool: Tool, record: EffectRecord, result: Any, then: Then) -> EffectRecord:
        try:
            return await self._end(then, "commit", ledger.commit_own, record, Outcome(result))
        except Stale:
            await self._say_late(record, said_late(tool, result, None))
            raise
        except Invalid as error:  # it happened, and its result cannot be kept: it must not happen again
            outcome = Outcome(kept(result))
            await self.move("commit", answering, ledger.commit, record.seq, record.attempt, outcome)
            raise Invalid(
                f"{record.tool} happened, but its result cannot be kept: {error.message}",
                path=error.path,
                hint=error.hint,
            ) from error

    async def _went_wrong(self, tool: Tool, record: EffectRecord, error: BaseException, then: Then) -> EffectRecord:
        """What a tool raised, recorded; without the lease too, if that was lost meanwhile."""
        try:
            return await self._judged(tool, record, error, then)
        except Stale:
            await self._say_late(record, said_late(tool, None, error))
            raise

    async def _say_late(self, record: EffectRecord, said: tuple[Any, ...]) -> None:
        """The run is somebody else's by now; what became of the call is a fact all the same."""
        verb, *about = said
        await self._caller.write(arriving, self._stream, verb, record.seq, record.attempt, *about)

    async def _judged(self, tool: Tool, record: EffectRecord, error: BaseException, then: Then) -> EffectRecord:
        """A clear no is a failure; Unavailable says that nothing was sent; anything else is doubt (docs/decisions/0006)."""
        if isinstance(error, (Failed, *tool.fails)):
            outcome = Outcome(error=error_of(error))
            return await self._end(then, "fail", ledger.fail, record.seq, record.attempt, outcome)
        if isinstance(error, Unavailable):
            return await self._not_sent(tool, record, error)
        said = EffectError(settling.OVERDUE, str(error)) if isinstance(error, Overdue) else error_of(error)
        if not isinstance(error, Exception):
            said = EffectError(settling.INTERRUPTED, type(error).__name__)
        doubted = await self._doubt(record, said, quiet=is_quiet(error))
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

    async def _doubt(
        self, record: EffectRecord, said: EffectError, *, quiet: bool, epoch: int | None = None
    ) -> EffectRecord:
        return await self.move(
            "doubt", partial(ledger.doubt, quiet=quiet, epoch=epoch), record.seq, record.attempt, said
        )

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
        return await self._doubt(record, said, quiet=dead, epoch=core.epoch)

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
            return await self._announce(tool, "again", ledger.dispatch_again, record.seq, record.attempt), True
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
        return await self._doubt(record, said, quiet=True)

    async def ask_probe(self, tool: Tool, record: EffectRecord) -> Verdict:
        """What the other side says. Whatever a probe raises, and any answer that is none, is Unknown."""
        assert tool.probe is not None
        probe = tool.probe
        seconds = (tool.rule.timeout or 60 * SECOND_US) / SECOND_US
        call = Prepared(lambda: tool.call(probe, record.args, key=record.handed), is_async=iscoroutinefunction(probe))
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
        if self._check is not None or left > PATIENCE_SECONDS or not self._caller.core.clock_moves:
            raise in_doubt(record, advice)  # a run rests meanwhile, and nobody holds it
        await self._caller.pause(max(left, 0.001))
