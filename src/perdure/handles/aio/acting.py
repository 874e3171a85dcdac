"""Acting: carries an effect from its intent to its end, in a session or in a run: plans, sends, and settles doubt. Keeps P2-P4.

It knows where it writes: a session's stream, or a run's under its lease.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import iscoroutinefunction
from typing import Any

import msgspec

from perdure.effects import ledger, settling
from perdure.effects.answers import answering, for_call
from perdure.effects.batch import Meant, next_free, nothing_next
from perdure.effects.judging import in_doubt, kept
from perdure.effects.ledger import Intent, Outcome, error_of
from perdure.effects.meaning import guarded
from perdure.effects.settling import Action, Advice
from perdure.effects.tool import Refuse, RequireApproval, Tool
from perdure.errors import Conflict, InDoubt, Stale
from perdure.handles.aio.sending import AsyncSending, Then
from perdure.handles.invoking import Prepared
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
    ToolKind,
    Unknown,
    Verdict,
)
from perdure.planes import presence
from perdure.planes.spans import store_now

PATIENCE_SECONDS = 600.0  # the longest that is waited in place for what was sent to arrive
FORGOTTEN = EffectError(
    settling.RESTORED, "its store was restored or lost since; what came after the backup or the envelope is not known"
)
STRAYED = EffectError(
    settling.STRAYED,
    "its store was restored or lost, and the run has found things out anew: it may have done this otherwise before",
)


class AsyncActing(AsyncSending):
    """Acts on one stream: plans, sends, and settles doubt by the tool's rule."""

    __slots__ = ()

    def guarded(self, tool: Tool | None, intent: Intent, approve: str | None) -> tuple[Intent, Refuse | str | None]:
        """What the guards of the store and of the tool say: the intent with their verdicts, and what must come first."""
        guards = (*self._caller.core.guards, *(tool.guards if tool else ()))
        if not guards:
            return intent, approve
        said, verdict = guarded(guards, intent, self._caller.actor)
        intent = msgspec.structs.replace(intent, notes={"guards": said})
        if isinstance(verdict, RequireApproval):
            return intent, approve or verdict.question
        return intent, verdict or approve

    def guarded_call(self, tool: Tool, intent: Intent) -> tuple[Intent, Refuse | str | None]:
        """`guarded`, for a model's call: a guard that fails refuses it. What the model answered is paid for, and kept."""
        try:
            return self.guarded(tool, intent, None)
        except Exception as error:  # noqa: BLE001 - whatever it raises, it did not let the call pass
            return intent, Refuse(f"a guard failed: {error_of(error)}")

    async def begin_all(self, batch: Sequence[Meant], verb: Callable[..., Any], *args: Any) -> dict[str, Answer]:
        """Plan a batch with its verb (see `effects.batch`), and dispatch what can be sent at once; gives what it is told."""
        first = next_free(batch, 0)
        if first is not None and not self._try_slot(first.sends):
            first = None

        def begin(*about: Any) -> Any:  # asked in the transaction: it has seen whether the run is cancelled
            return verb(*about, first=first is not None and self.may_begin)

        self._caller.core.living.begin()
        try:
            if first is not None:
                reach("effect.dispatch.before")
            planned, told = await self.move("plan", begin, *args, batch, self.sender)
            for meant, (record, mine) in zip((each for each in batch if each.intent), planned, strict=True):
                meant.record, meant.mine = record, mine
            if first is not None:
                reach("effect.dispatch.after")
        except BaseException as error:
            if first is not None and first.intent is not None:
                first.mine = False
                await self._take_back(error, first.intent)
            raise
        finally:
            if first is not None and not first.mine:
                self._give_slot(first.sends)
        return told

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

    async def conclude(
        self, tool: Tool | None, record: EffectRecord, *, mine: bool, then: Then = nothing_next
    ) -> EffectRecord:
        """Carry an effect on until it is settled. mine: it was dispatched by this call and is to be sent.

        then: gives what a batch does next; it is dispatched in the commit that ends this one, if it can be sent at once.
        InDoubt when only a person, or a later time, can settle it. What is only planned is not begun in a run that is to end.
        """
        raised: BaseException | None = None
        while mine or not record.settled:
            if mine:
                assert tool is not None
                (record, raised), mine = await self._send(tool, record, then), False
            elif record.state is EffectState.UNDOING:
                return record
            elif record.state is EffectState.IN_DOUBT:
                record, mine = await self._settled(tool, record, raised)
            elif record.epoch != self.sender.epoch or record.state is EffectState.DISPATCHED:
                record = await self._find_out(record)
            else:
                assert tool is not None
                self._going()
                record, mine = await self.dispatch_permitted(tool, record)
        return record

    # -- doubt -----------------------------------------------------------------------------------------------------------------

    async def _find_out(self, record: EffectRecord) -> EffectRecord:
        """Somebody dispatched it: is he still at it? If not, it is in doubt. Conflict while he is.

        In a run he may live and yet have lost it: who has the lease now does not wait for him.
        """
        core, holder = self._caller.core, record.holder or ""
        sending = core.flights.has_attempt(self._stream.id, record.seq, record.attempt)
        dead = core.living.is_dead(holder) or (holder == core.holder and self._check is not None and not sending)
        if record.epoch != core.epoch:
            said = FORGOTTEN
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

    async def _settled(
        self, tool: Tool | None, record: EffectRecord, raised: BaseException | None
    ) -> tuple[EffectRecord, bool]:
        """`_settle`; what its tool raised is shown with the doubt that it left: nothing keeps where that was."""
        try:
            return await self._settle(tool, record)
        except InDoubt as doubt:
            raise doubt from raised

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
            await self._pause(tool, record)
        try:
            return await self.dispatch_again(tool, record)
        except Stale:
            raise
        except Conflict:
            return await self._caller.read(ledger.effect, self._stream, record.seq), False

    async def _give_up(self, record: EffectRecord, advice: Advice) -> EffectRecord:
        error = record.error or EffectError("Failed", advice.reason)
        outcome = Outcome(error=error, by=advice.reason, doubtful=record.kind is ToolKind.IDEMPOTENT)
        return await self.move("fail", answering, ledger.fail, record.seq, record.attempt, outcome)

    async def _probe(self, tool: Tool, record: EffectRecord) -> tuple[EffectRecord, bool]:
        record = await self._quieted(record)
        asked_us = await self._caller.read(store_now)
        verdict = await self.ask_probe(tool, record)
        if isinstance(verdict, Happened):
            outcome = Outcome(kept(verdict.result), by="probe")
            return await self.move("commit", answering, ledger.commit, record.seq, record.attempt, outcome), False
        if isinstance(verdict, Declined):
            outcome = Outcome(error=EffectError("Declined", verdict.reason), by="probe")
            return await self.move("fail", answering, ledger.fail, record.seq, record.attempt, outcome), False
        if not isinstance(verdict, Absent):
            reason = getattr(verdict, "reason", "") or "the probe cannot tell"
            raise in_doubt(record, settling.look_again(record, asked_us, reason))
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

    async def landed(self, record: EffectRecord) -> Advice | None:
        """None when nothing of an effect can arrive outside any more; else how long to wait, and why.

        What happened has arrived; but an attempt before the one that did may still be under way here.
        """
        given_up = record.state is EffectState.FAILED
        if given_up:
            record = await self._quieted(record)
        now_us = await self._caller.read(store_now)
        if self._caller.core.flights.has_attempt(self._stream.id, record.seq, record.attempt):
            return settling.look_again(record, now_us, "its caller may still send it")
        return settling.until_landed(record, now_us) if given_up else None

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
            verdict = await self._invoker.call_within(call, seconds, self._staying)
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
