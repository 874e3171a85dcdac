"""Acting: carries an effect from its intent to its end, in a session or in a run: plans, sends, and settles doubt. Keeps P2-P4.

Generators without colour, as in `sending`. Callers: the handles and the driving of runs, each through a shell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import iscoroutinefunction
from typing import Any

import msgspec

from perdure.effects import approvals, ledger, settling
from perdure.effects.batch import BatchCall, next_free
from perdure.effects.commands import CallFunction, Pause, Read, Steps, Write, write
from perdure.effects.composed import answering, for_call
from perdure.effects.intents import guarded, key_of_call
from perdure.effects.ledger import Intent, Outcome, error_of
from perdure.effects.outcomes import backoff_seconds, gone_silent, in_doubt, kept, outcome_of
from perdure.effects.sending import NextCall, Sending
from perdure.effects.settling import Action, Advice
from perdure.effects.tool import Refuse, RequireApproval, Tool
from perdure.errors import Conflict, Failed, InDoubt, Stale
from perdure.model.crash_points import reach
from perdure.model.instants import SECOND_US
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
from perdure.planes.reading.durations import Duration, store_now
from perdure.planes.recovery import presence
from perdure.stores.revocable import RevocableVerb

PATIENCE_SECONDS = 600.0  # the longest that is waited in place for what was sent to arrive
PROBE_SECONDS = 60.0  # for a probe whose tool has no deadline
FORGOTTEN = EffectError(
    settling.RESTORED, "its store was restored or lost since; what came after the backup or the envelope is not known"
)
STRAYED = EffectError(
    settling.STRAYED,
    "its store was restored or lost, and the run has found things out anew: it may have done this otherwise before",
)


class Acting(Sending):
    """Acts on one stream: plans effects, sends them, and settles doubt by the rule of their tool."""

    __slots__ = ()

    # -- what is meant ---------------------------------------------------------------------------------------------------------

    def guarded(self, tool: Tool | None, intent: Intent, approve: str | None) -> tuple[Intent, Refuse | str | None]:
        """Ask the guards of the store and of the tool. Gives the intent with their verdicts noted, and what must come before it
        is sent: a refusal, a question to a person, or nothing.
        """
        guards = (*self._here.guards, *(tool.guards if tool else ()))
        if not guards:
            return intent, approve
        said, verdict = guarded(guards, intent, self._actor)
        intent = msgspec.structs.replace(intent, notes={"guards": said})
        if isinstance(verdict, RequireApproval):
            return intent, approve or verdict.question
        return intent, verdict or approve

    def guarded_call(self, tool: Tool, intent: Intent) -> tuple[Intent, Refuse | str | None]:
        """`guarded`, for a call that a model made. A guard that raises refuses the call: the model's answer is paid for, and is
        kept.
        """
        try:
            return self.guarded(tool, intent, None)
        except Exception as error:  # noqa: BLE001 - whatever it raises, it did not let the call pass
            return intent, Refuse(f"a guard failed: {error_of(error)}")

    def act(
        self, tool: Tool, intent: Intent, asked: Refuse | str | None, within: Duration | None
    ) -> Steps[EffectRecord]:
        """Carry out an effect in a session, once. asked: what must come first, as `guarded` gives it. Gives the effect, settled.

        Raises Waiting while a person has not answered, InDoubt when only a person or a later time can settle it.
        """
        try:
            if asked is None:
                record, mine = yield from self.dispatch(tool, intent)
            else:
                planned = yield from self.plan_asked(intent, asked, within)
                record, mine = yield from self.dispatch_permitted(tool, planned)
            return (yield from self.conclude(tool, record, mine=mine))
        finally:
            self.unannounce()

    def plan(self, intent: Intent) -> Steps[EffectRecord]:
        """Plan an effect, or give the one that stands under its key."""
        return self.move("plan", for_call(ledger.plan), intent, self.sender.epoch)

    def plan_asked(
        self, intent: Intent, asked: Refuse | str | None, within: Duration | None = None
    ) -> Steps[EffectRecord]:
        """Plan an effect, and in the same commit record what must come before it is sent."""
        return self.move("plan", approvals.plan, intent, self.sender.epoch, asked, within)

    def begin_all(self, batch: Sequence[BatchCall], verb: Callable[..., Any], *args: Any) -> Steps[dict[str, Answer]]:
        """Plan a batch in one commit, and dispatch its first call in it if that can be sent at once.

        verb, args: of the commit, as `effects.batch` has them. Gives the answers that are known by then, by the ids of their
        calls.
        """
        first = next_free(batch, 0)
        if first is not None and not self._try_slot(first.sends):
            first = None

        def begin(*about: Any) -> Any:  # asked in the transaction: it has seen whether the run is cancelled
            return verb(*about, first=first is not None and self.may_begin)

        first_sent = lambda found: next((record for record, mine in found[0] if mine), None)  # noqa: E731 - named
        begins = RevocableVerb(begin, ledger.take_back, first_sent)
        self._here.liveness.begin()
        if first is not None and first.intent is not None:
            self.announce(first.intent.key)
        try:
            if first is not None:
                reach("effect.dispatch.before")
            reach("effect.plan.before")
            # A model's answer is paid for: it is kept.
            planned, told = yield Write(begins, (*args, batch, self.sender), keep=True)
            reach("effect.plan.after")
            for meant, (record, mine) in zip((each for each in batch if each.intent), planned, strict=True):
                meant.record, meant.mine = record, mine
            if first is not None:
                reach("effect.dispatch.after")
        except BaseException as error:
            if first is not None and first.intent is not None:
                first.mine = False
                yield from self._take_back(error, begins)
            raise
        finally:
            if first is not None and not first.mine:
                self.unannounce()
                self._give_slot(first.sends)
        return told

    def withdraw(self, record: EffectRecord, why: str, by: str) -> Steps[EffectRecord]:
        """Withdraw a planned effect."""
        return self.move("withdraw", answering(ledger.withdraw), record.seq, EffectError("Refused", why), by)

    # -- to its end ------------------------------------------------------------------------------------------------------------

    def conclude(
        self, tool: Tool | None, record: EffectRecord, *, mine: bool, then: NextCall | None = None
    ) -> Steps[EffectRecord]:
        """Carry an effect on until it is settled. mine: this caller dispatched it, and so must send it.

        then: gives the next call of a batch. It is dispatched in the commit that ends this effect, if it can be sent at once.
        Raises InDoubt when only a person, or a later time, can settle it. A run that is to end begins no planned effect.
        """
        raised: BaseException | None = None
        while mine or not record.settled:
            if mine:
                assert tool is not None
                (record, raised), mine = (yield from self._send(tool, record, then)), False
            elif record.state is EffectState.UNDOING:
                return record
            elif record.state is EffectState.IN_DOUBT:
                try:
                    record, mine = yield from self._settle(tool, record)
                except InDoubt as doubt:
                    raise doubt from raised  # nothing keeps where the tool raised it
            elif record.epoch != self.sender.epoch or record.state is EffectState.DISPATCHED:
                record = yield from self._find_out(record)
            else:
                assert tool is not None
                self._going()
                record, mine = yield from self.dispatch_permitted(tool, record)
        return record

    def looked_at(self, record: EffectRecord) -> Steps[EffectRecord]:
        """The effect as it stands now. One whose sender is gone is put in doubt first."""
        is_open = record.state in (EffectState.PLANNED, EffectState.DISPATCHED)
        if not self._here.acts:
            return record  # over a network: the server looks
        if not is_open or (record.state is EffectState.PLANNED and record.epoch == self.sender.epoch):
            return record
        if presence.server_of(record.holder or "") == self._here.holder and record.epoch == self.sender.epoch:
            return record  # by this very store: its user, or its client, is at it
        try:
            return (yield from self._find_out(record))
        except Conflict:
            return record

    # -- doubt -----------------------------------------------------------------------------------------------------------------

    def _find_out(self, record: EffectRecord) -> Steps[EffectRecord]:
        """Put an effect in doubt whose sender is no longer at it. Raises Conflict while the sender is.

        The sender of a run may live and yet have lost the run: the holder of the lease does not wait for it.
        """
        here, holder = self._here, record.holder or ""
        # Announcements first: an attempt begins before its announcement ends.
        names = (record.key, record.seq, *([] if record.call is None else [key_of_call(record.call)]))
        announced = here.in_flight.is_announced(self._stream.id, *names)
        sending = announced or here.in_flight.has_attempt(self._stream.id, record.seq, record.attempt)
        dead = here.liveness.is_dead(holder) or (holder == here.holder and self._in_run and not sending)
        elsewhere = holder != here.holder and not dead
        if record.epoch != here.epoch:
            said = FORGOTTEN
        elif not self._in_run and (sending or (elsewhere and (yield Read(presence.is_alive, (holder,))))):
            raise Conflict(
                f"effect {record.id} is being sent by {holder}", path="effect", state="dispatched", holder=holder
            )
        else:
            said = gone_silent(dead=dead, held=here.liveness.is_held(holder))
        return (yield from self._doubt(record, said, quiet=dead, epoch=here.epoch))

    def _settle(self, tool: Tool | None, record: EffectRecord) -> Steps[tuple[EffectRecord, bool]]:
        """Do what the rule of the tool says about doubt. Gives the effect, and whether it is to be sent again now."""
        now_us = yield Read(store_now)
        advice = settling.advise(record, now_us, can_probe=tool is not None and tool.probe is not None)
        if advice.action is Action.AGAIN and tool is not None:
            return (yield from self._again(tool, record))
        if advice.action is Action.PROBE and tool is not None:
            return (yield from self._probe(tool, record)), False
        if advice.action is Action.FAIL:
            return (yield from self._give_up(record, advice)), False
        raise in_doubt(record, advice)

    def _again(self, tool: Tool, record: EffectRecord) -> Steps[tuple[EffectRecord, bool]]:
        """Dispatch the next attempt. Gives the effect as it stands if another caller settled it meanwhile."""
        if record.error is not None and record.error.code not in settling.MISHAPS:
            yield Pause(backoff_seconds(tool.backoff, record.failures))
        try:
            return (yield from self.dispatch_again(tool, record))
        except Stale:
            raise
        except Conflict:
            return (yield Read(ledger.effect, (self._stream, record.seq))), False

    def _give_up(self, record: EffectRecord, advice: Advice) -> Steps[EffectRecord]:
        error = record.error or EffectError("Failed", advice.reason)
        outcome = Outcome(error=error, by=advice.reason, doubtful=record.kind is ToolKind.IDEMPOTENT)
        return self.move("fail", answering(ledger.fail), record.seq, record.attempt, outcome)

    def _probe(self, tool: Tool, record: EffectRecord) -> Steps[EffectRecord]:
        """Ask the other side, and record its answer. A sender that is proved dead by now is recorded as quiet first."""
        record = yield from self._quieted(record)
        asked_us = yield Read(store_now)
        verdict = yield from self.ask_probe(tool, record)
        return (yield from self.judge_probe(record, verdict, asked_us))

    def judge_probe(self, record: EffectRecord, verdict: Verdict, asked_us: int) -> Steps[EffectRecord]:
        """Record the answer of the other side. asked_us: the time at which it was asked. Raises InDoubt if that settles nothing
        yet.
        """
        if isinstance(verdict, Happened):
            outcome = Outcome(kept(verdict.result), by="probe")
            return (yield from self.move("commit", answering(ledger.commit), record.seq, record.attempt, outcome))
        if isinstance(verdict, Declined):
            outcome = Outcome(error=EffectError("Declined", verdict.reason), by="probe")
            return (yield from self.move("fail", answering(ledger.fail), record.seq, record.attempt, outcome))
        if not isinstance(verdict, Absent):
            reason = getattr(verdict, "reason", "") or "the probe cannot tell"
            raise in_doubt(record, settling.look_again(record, asked_us, reason))
        return (yield from self._absent(record, settling.after_absent(record, asked_us)))

    def _absent(self, record: EffectRecord, advice: Advice) -> Steps[EffectRecord]:
        if advice.action is Action.WAIT:
            yield from self._wait_until(record, advice)
            return record
        if advice.action is Action.FAIL:
            return (yield from self._give_up(record, advice))
        if advice.action is not Action.AGAIN:
            raise in_doubt(record, advice)
        outcome = Outcome(error=EffectError("Absent", advice.reason), by="probe")
        return (yield from self.move("absent", ledger.absent, record.seq, record.attempt, outcome))

    def landed(self, record: EffectRecord) -> Steps[Advice | None]:
        """None when nothing of an effect can arrive at the other side any more; else how long to wait, and why.

        An effect that happened has arrived; but an attempt before the one that did may still be under way here.
        """
        given_up = record.state is EffectState.FAILED
        if given_up:
            record = yield from self._quieted(record)
        now_us = yield Read(store_now)
        if self._here.in_flight.has_attempt(self._stream.id, record.seq, record.attempt):
            return settling.look_again(record, now_us, "its caller may still send it")
        return settling.until_landed(record, now_us) if given_up else None

    def _quieted(self, record: EffectRecord) -> Steps[EffectRecord]:
        """The effect; recorded as quiet, if its sender is proved dead by now."""
        if record.quiet_at is not None or not self._here.liveness.is_dead(record.holder or ""):
            return record
        said = record.error or EffectError(settling.DIED, settling.HAS_DIED)
        return (yield from self._doubt(record, said, quiet=True))

    def ask_probe(self, tool: Tool, record: EffectRecord) -> Steps[Verdict]:
        """Call the probe of a tool. A probe that raises, or returns no verdict, gives Unknown."""
        probe = tool.probe
        assert probe is not None
        seconds = PROBE_SECONDS if tool.rule.timeout is None else tool.rule.timeout / SECOND_US
        asked = CallFunction(
            lambda: tool.call(probe, record.args, key=record.sent_key), iscoroutinefunction(probe), seconds
        )
        came = yield asked
        if isinstance(came.error, Exception):
            return Unknown(f"the probe failed: {type(came.error).__name__}: {came.error}")
        if came.error is not None:
            raise came.error
        if isinstance(came.result, (Happened, Absent, Unknown, Declined)):
            return came.result
        return Unknown(f"the probe returned {type(came.result).__name__}, not Happened, Absent or Unknown")

    def _wait_until(self, record: EffectRecord, advice: Advice) -> Steps[None]:
        assert advice.until_us is not None
        left = (advice.until_us - (yield Read(store_now))) / SECOND_US
        if self._in_run or left > PATIENCE_SECONDS or not self._here.clock_moves:
            raise in_doubt(record, advice)  # a run rests meanwhile, and nobody holds it
        yield Pause(max(left, 0.001), watched=False)


class Settling(Acting):
    """Settles one effect that is in doubt, and never waits in place: what must wait is left."""

    __slots__ = ()

    def settle(self, tool: Tool | None, record: EffectRecord) -> Steps[EffectRecord]:
        """Bring an effect out of doubt by its rule. One that did not happen is planned again and not sent: the next caller that
        acts with its key sends it. Raises InDoubt when a person or a later time must settle it. Gives it as it is while its
        sender lives.
        """
        record = yield from self.looked_at(record)
        while record.state is EffectState.IN_DOUBT:
            record, mine = yield from self._settle(tool, record)
            if mine and tool is not None:
                record, _ = yield from self._send(tool, record)
        return record

    def _wait_until(self, record: EffectRecord, advice: Advice) -> Steps[None]:
        raise in_doubt(record, advice)


class AskingModel(Acting):
    """Asks a model. That changes nothing in the outside world, so a question that failed or was cut off may be asked anew."""

    __slots__ = ("_raised",)

    def ask(self, tool: Tool, intent: Intent) -> Steps[Any]:
        """The answer that is recorded under the key of the intent, or a new one. Raises what the tool raises in this call."""
        self._raised: BaseException | None = None
        planned_anew = False
        while self._raised is None:
            try:
                meant, asked = self.guarded(tool, intent, None)
                return outcome_of((yield from self.act(tool, meant, asked, None)))
            except (Failed, InDoubt):
                if self._raised is None and (planned_anew or not (yield write(ledger.plan_anew, intent.key))):
                    raise
                planned_anew = True
        raise self._raised

    def _send(
        self, tool: Tool, record: EffectRecord, then: NextCall | None = None
    ) -> Steps[tuple[EffectRecord, BaseException | None]]:
        record, self._raised = yield from super()._send(tool, record, then)
        return record, self._raised
