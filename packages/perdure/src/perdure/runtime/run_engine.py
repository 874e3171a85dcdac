"""The engine of runs: whatever a program may ask for, as one class. A recorded thing is given again, a new one done and recorded.

    do_step · do_effect · run_model_batch         what it calls: functions, the outside world, a model with its batch of calls
    ask_person · wait_for_signal · sleep · start_child   what it waits for; the run rests meanwhile, and nobody holds it
    save_checkpoint · is_patched · do_atomic · add_subjects
    leave_saga · undo_effects_since · undo_left_sagas · settle_open_effects

Each verb takes the next place of the branch that the program is in, and first looks into the journal there (docs/decisions/0007).
They are generators that yield commands, written once for sync and async: a shell carries them out (`effects.commands`). Callers:
`Run`, `driver`, and the verbs of remote workers. Keeps P2-P4, P8, P13.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from perdure.effects import commits, ledger
from perdure.effects.batch import BatchCall, calls_in, match_calls, next_free, tools_by_name
from perdure.effects.commands import Consult, Pause, Read, Steps, StopBranches, Work, Write, write
from perdure.effects.commits import Precondition
from perdure.effects.effect_engine import FORGOTTEN, STRAYED, NextCall
from perdure.effects.ledger import Intent, error_of
from perdure.effects.settling import Action
from perdure.effects.step_functions import StepFunction, call_with_retries
from perdure.effects.tool import DECLARED, Refuse, Tool, digest_of, digest_of_parts
from perdure.errors import Changed, Error, Failed, Imported, InDoubt, Invalid, Parked, Refused, TimedOut, Unavailable
from perdure.log.change import Stream
from perdure.model.instants import duration_us
from perdure.model.lazily import lazily
from perdure.model.limits import check_name
from perdure.model.records.effects import EffectError, EffectRecord, EffectState, Reply, ToolKind, text_of
from perdure.model.records.runs import StepRecord, WaitKind, WaitRecord, WaitState
from perdure.model.usage import usage_of
from perdure.model.values import digest
from perdure.planes import subjects
from perdure.planes.execution import leases, model_inputs, runs, steps, waits
from perdure.planes.reading.durations import Duration
from perdure.planes.recovery import checkpoints
from perdure.runtime.agent import Agent, Policy
from perdure.runtime.branch_waits import hold_back, is_held, wait_for_cancellation, wait_for_turn, wait_until_idle
from perdure.runtime.journal import (
    AFTERWARDS,
    UNKEPT,
    UNSTORABLE,
    Branch,
    BranchPoint,
    BranchSpan,
    LeftSaga,
    effect_result,
    may_have_happened,
    reads_otherwise,
    shape_of,
    step_failed,
    step_result,
    undo_args,
    unkept_error,
    unkept_notes,
    value_read_again,
)
from perdure.runtime.run_state import BEGIN_FROM_STATE, RunState
from perdure.runtime.stopping import TROUBLES, Suspended, is_end
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

if TYPE_CHECKING:
    from perdure.runtime import workspace
else:
    (workspace,) = lazily("perdure.runtime", "workspace")

log = logging.getLogger("perdure.run")

DOUBT, LANDING = "doubt", "landing"  # a run's reason to wait: somebody must say, or a sent call must have had its time
REFUSALS_MAX = 1000  # verbs that a program tries after it was told to end; a thousand branches are told one by one
REFUSED_SECONDS = 1.0  # the time that each further verb of such a program takes
UNDER_WAY = (EffectState.DISPATCHED, EffectState.IN_DOUBT)


class RunEngine(RunState):
    """The verbs that the program of one driven run may ask for, over the state that its branches share."""

    __slots__ = ("end_without_program",)

    # Records why a run ends whose program does not; the driver sets it.
    end_without_program: Callable[[BaseException], Steps[object]]

    # -- a place, and what is recorded there ---------------------------------------------------------------------------------

    def next_record(
        self, branch: Branch, kind: str, name: str, digest: str, arguments: Any = None
    ) -> Steps[tuple[str, Any]]:
        """Take the next place: gives the place and its record, None if there is none. Raises when the run must end and the thing
        would be new, and Changed when something else is recorded there.
        """
        if self.hold.refusals:
            yield from self.slow_down()
        place, record = self.take_place(branch, kind, name, digest, arguments)
        if self.replay.journal.interrupted:
            yield from wait_for_cancellation(self, place, kind, name, digest)
        if record is None:
            self.hold.check_may_continue()
        return place, record

    def take_place(
        self, branch: Branch, kind: str, name: str, digest: str, arguments: Any, sagas: tuple[str, ...] | None = None
    ) -> tuple[str, Any]:
        """`next_record`, for a program that was not told to end, without looking whether it must."""
        replay = self.replay
        if replay.unread and kind != "step":
            self.check_unread(f"{kind} {name}".rstrip())
        if branch.interrupted and not self.hold.shielded:
            self.hold.check_may_continue()
            raise _continues_interrupted(branch.interrupted)
        place = branch.next_place(replay.cut)
        try:
            return place, replay.journal.record_at(place, kind, name, digest, arguments, sagas)
        except Changed as changed:
            self.hold.stop(changed)  # nothing more is done, whatever the program makes of it
            raise

    def slow_down(self) -> Steps[None]:
        """Slow a program down that does not end though it was told to, and tried more than a thousand verbs since. Its run comes
        to rest without it, and each further verb takes a second. Nothing happens to any other program.
        """
        hold = self.hold
        if hold.refusals <= REFUSALS_MAX:
            return
        if not hold.lease.forsaken:
            hold.lease.forsaken = True
            stopped = hold.stop(_does_not_end(self.stream.name, str(hold.ending)))
            log.warning("its program was told to end %d times, and does not", hold.refusals, extra=self.about)
            with suppress(Error):
                yield from self.end_without_program(stopped)
            self.heartbeat.release(self.stream.uid)
        yield Pause(REFUSED_SECONDS, watched=False)

    # -- steps ---------------------------------------------------------------------------------------------------------------

    def do_step(
        self, branch: Branch, function: StepFunction, args: tuple[Any, ...], kwargs: dict[str, Any], notes: dict[str, Any],
        keep: Callable[[tuple[Any, ...], Any], Steps[None]] | None = None,
    ) -> Steps[Any]:  # fmt: skip
        """Call a function that changes nothing in the outside world, and record its result; at a replay give the recorded one.

        notes: for a model, whose input is kept too. keep: records the step together with more. Raises Failed for what the
        function raised, and Invalid for a result that cannot be kept.
        """
        name, digest = function.name, digest_of_parts(args=list(args), kwargs=kwargs)
        hold, replay = self.hold, self.replay
        if hold.refusals or replay.journal.interrupted:
            place, record = yield from self.next_record(branch, "step", name, digest, (args, kwargs))
        else:  # mostly, and a generator less
            place, record = self.take_place(branch, "step", name, digest, (args, kwargs))
        replay.steps += 1
        if record is not None:
            brief = record.gave is not None
            return (yield from self._read_again(function, args, kwargs, record)) if brief else step_result(record)
        hold.check_may_continue()
        frozen = (yield from self._freeze_input(branch, place, name, digest, args, kwargs)) if notes else None
        shape = shape_of(args, kwargs) if (args or kwargs) and not notes else ""
        value: Any = None
        self.activity.begin()
        began_us = self.core.clocks.now()
        try:
            if function.retries:
                came = yield from call_with_retries(function, args, kwargs, hold.check_may_continue)
            else:
                seconds, check = function.timeout_seconds, hold.check_may_continue
                came = yield Consult(function.fn, kwargs, function.is_async, seconds, args, check)
            if came.error is not None:
                self._fail_step(came.error, place, name, digest, notes, shape)
            value = came.result
            noted = notes | {"usage": usage_of(value)} if notes else notes
            took_us = self.core.clocks.now() - began_us
            doc = steps.document(
                place, name, digest, value, None, noted, brief=function.brief, shape=shape, took_us=took_us
            )
            model_input = None if frozen is None else (yield Read(model_inputs.prepare, (self.stream, frozen)))
            if keep is None:
                yield Write(steps.done, (doc, model_input), keep=True)
            else:
                yield from keep((doc, model_input), value)
            return value
        except Invalid as error:
            yield from self._refuse_value(error, value, function, place, digest, shape)
        except Exception:
            raise
        except BaseException as error:
            self.note_interrupted(error, place, "step", name, digest)
            raise
        finally:
            self.activity.busy -= 1

    def _freeze_input(
        self, branch: Branch, place: str, name: str, digest: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Steps[Any]:
        """The input of a model, as it is kept, once the model may be paid for."""
        yield from hold_back(self, branch, place, "step", name, digest)
        return model_inputs.freeze(args, kwargs)

    def _fail_step(
        self, error: BaseException, place: str, name: str, digest: str, notes: dict[str, Any], shape: str
    ) -> NoReturn:
        """Raise Failed with what the function of a step raised.

        The failure is recorded with the next thing that the program does. A run that ends by it records nothing, and can try it
        again.
        """
        if not isinstance(error, Exception) or isinstance(error, Imported):  # a person decides; then it is called anew
            raise error
        cause = error_of(error)
        self.hold.unrecorded_steps.append(steps.document(place, name, digest, None, cause, notes, shape=shape))
        raise step_failed(place, name, cause) from error

    def _refuse_value(
        self, error: Invalid, value: Any, function: StepFunction, place: str, digest: str, shape: str
    ) -> Steps[NoReturn]:
        """Record that the result of a step cannot be kept, and raise that. The program gets the same error at a replay."""
        notes = unkept_notes(error, value, brief=function.brief)
        cause = EffectError(UNSTORABLE, text_of(error))
        doc = steps.document(place, function.name, digest, None, cause, notes, shape=shape)
        yield Write(steps.done, (doc,), keep=True)
        raise unkept_error(notes[UNKEPT], place) from error

    def _read_again(
        self, function: StepFunction, args: tuple[Any, ...], kwargs: dict[str, Any], record: StepRecord
    ) -> Steps[Any]:
        """Call a function again of whose result only the digest is kept. Raises Parked if the result differs; the run stops, even
        if its program catches that.
        """
        self.activity.begin()
        try:
            came = yield from call_with_retries(function, args, kwargs, self.hold.check_not_leaving)
        finally:
            self.activity.busy -= 1
        error = came.error
        if error is None:
            try:
                return value_read_again(record, came.result)
            except Exception as differs:  # noqa: BLE001 - whatever is wrong with it, it cannot be repeated
                error = differs
        if not isinstance(error, Exception):
            raise error
        if isinstance(error, Parked):
            self.hold.stop(error)
            raise error
        parked = reads_otherwise(record, f"an error: {error_of(error)}")
        self.hold.stop(parked)
        raise parked from error

    # -- effects -------------------------------------------------------------------------------------------------------------

    def do_effect(
        self, branch: Branch, tool: Tool, args: dict[str, Any], question: str | None = None, within: Duration | None = None,
        about: tuple[str, ...] = (), undoes: EffectRecord | None = None,
    ) -> Steps[EffectRecord]:  # fmt: skip
        """Call an external system once, even if the process dies in the middle. Gives the effect, settled, whatever became of it;
        its result is `journal.effect_result`. question: to a person, who must approve first, within some time.
        """
        if self.hold.refusals:
            yield from self.slow_down()
        if tool.kind is ToolKind.READ:
            raise Refused(f"{tool.name} only reads", path="tool", hint=f"run.step({tool.name}, …)")
        intent, record = self._intend(branch, tool, args, about, undoes=undoes is not None)
        if record is None:
            self.hold.check_may_continue()
            if self.replay.journal.unreached:
                yield from self._hold_back_effect(branch, intent)
        effect: EffectRecord | Intent
        if record is not None and (undoes is not None or record.state is not EffectState.PLANNED):
            effect = record
        elif undoes is not None:
            self.check_real(f"undo {undoes.tool}")
            effect = yield from self.effects.move("undo", ledger.begin_undo, undoes.seq, intent, self.core.epoch)
        else:
            if self.record.what_if is not None:
                question = " ".join(filter(None, (self._what_if_question(), question))) or None
            intent, precondition = self.effects.ask_guards(tool, intent, question)
            if record is not None and not self._is_new(record):
                effect = yield from self._ask_about_old_plan(branch, record, precondition, within)
            else:
                effect = yield from self._meet_precondition(branch, record or intent, precondition, within)
        return (yield from self.finish_effect(branch, tool, effect))

    def _intend(
        self, branch: Branch, tool: Tool, args: dict[str, Any], about: tuple[str, ...] = (), *, undoes: bool = False
    ) -> tuple[Intent, EffectRecord | None]:
        """The intent of an effect at the next place of the program, and the effect that is recorded there, if any."""
        name, digest = tool.name, digest_of(tool.name, args)
        sagas = None if undoes else branch.sagas
        place, record = self.take_place(branch, "effect", name, digest, args, sagas)
        self.sagas.tools[name] = tool
        key = self.effect_key(place, name, digest)
        return Intent(name, tool.kind, key, digest, args, tool.rule, place=place, about=about, sagas=sagas), record

    def effect_key(self, place: str, name: str, digest: str) -> str:
        """The key of an effect: made of the run, the place, the tool and the arguments, so that it is the same in every drive."""
        return hashlib.sha256(f"{self.stream.uid.hex()} {place} {name} {digest}".encode()).hexdigest()[:32]

    def _hold_back_effect(self, branch: Branch, intent: Intent) -> Steps[None]:
        return hold_back(self, branch, intent.place or "", "effect", intent.tool, intent.digest)

    def _what_if_question(self) -> str | None:
        """The question to a person before any external call of a what-if run that may not act; None for any other run."""
        what_if = self.record.what_if
        if what_if is None or what_if.acts:
            return None
        return f"This run only supposes another result in run {what_if.run}: shall it really do this?"

    def _is_new(self, record: EffectRecord | None) -> bool:
        """Whether an effect is new, or planned in this epoch: nothing of it has been sent, as far as is known."""
        return record is None or (record.state is EffectState.PLANNED and record.epoch == self.core.epoch)

    def _ask_about_old_plan(
        self, branch: Branch, planned: EffectRecord, precondition: Precondition, within: Duration | None = None
    ) -> Steps[EffectRecord]:
        """An effect that was planned before a restore, and may have been sent since. If a person is to be asked, the answer comes
        first: the rule of its tool might send again what nobody has approved of.
        """
        if not isinstance(precondition, str):
            return planned
        return (yield from self._ask_approval(branch, planned, precondition, within))

    def _meet_precondition(
        self, branch: Branch, effect: EffectRecord | Intent, precondition: Precondition, within: Duration | None = None
    ) -> Steps[EffectRecord | Intent]:
        """The intent, or the planned effect, once a guard or a person has spoken: withdrawn after a no, and in doubt if a restore
        may have forgotten that it was sent.
        """
        if precondition is not None:
            if isinstance(effect, Intent):
                effect = yield from self.effects.plan_effect(effect)
            if isinstance(precondition, Refuse):
                return (yield from self.effects.withdraw_effect(effect, precondition.reason, "a guard"))
            effect = yield from self._ask_approval(branch, effect, precondition, within)
        known_seq = self.hold.lease.known_seq
        return effect if known_seq is None else (yield from self._doubt_if_forgotten(effect, known_seq))

    def _ask_approval(
        self, branch: Branch, record: EffectRecord, question: str, within: Duration | None
    ) -> Steps[EffectRecord]:
        """Ask a person about an effect; the run waits meanwhile. Gives it as it is after a yes, else withdrawn or in doubt."""
        wait = yield write(commits.ask_approval, record, question, within)
        approval = yield from self.wait_until_over(branch, wait)
        if commits.is_approved(approval, record):
            return record
        return (yield from self.effects.move("withdraw", commits.refuse, record, approval, self.core.epoch))

    def _doubt_if_forgotten(self, effect: EffectRecord | Intent, known_seq: int) -> Steps[EffectRecord | Intent]:
        """An effect that may be sent now, after a restore: in doubt, if its tool can be asked or is unsafe, because it may have
        been sent and forgotten. Its sender in what was lost is taken to be gone: a restore presumes it.
        """
        if not self._maybe_forgotten(effect):
            return effect
        if isinstance(effect, EffectRecord) and effect.state is not EffectState.PLANNED:
            return effect
        strayed = yield Read(leases.has_strayed, (self.stream, known_seq))
        if effect.kind is ToolKind.KEYED and not strayed:  # its key finds it out
            return effect
        record = (yield from self.effects.plan_effect(effect)) if isinstance(effect, Intent) else effect
        cause = STRAYED if strayed else FORGOTTEN
        return (yield from self.effects.move("doubt", ledger.doubt, record.seq, record.attempt, cause, quiet=True))

    def _maybe_forgotten(self, effect: EffectRecord | Intent) -> bool:
        """Whether a restore may have forgotten that it was sent, and sending it twice does harm. A person who has said since then
        that it did not happen is not asked again.
        """
        settled = isinstance(effect, EffectRecord) and effect.settled_by is not None
        return self.hold.lease.known_seq is not None and effect.kind is not ToolKind.IDEMPOTENT and not settled

    def finish_effect(
        self, branch: Branch, tool: Tool | None, effect: EffectRecord | Intent, *, must_send: bool = False,
        then: NextCall | None = None,
    ) -> Steps[EffectRecord]:  # fmt: skip
        """Carry an effect to its end. The run waits while only a person, or a later time, can settle it."""
        hold, place = self.hold, effect.place or ""
        if self.replay.journal.interrupted and not hold.shielded:
            yield from wait_for_cancellation(self, place, "effect", effect.tool, effect.digest)
        self.activity.begin()
        try:
            record = effect
            if isinstance(record, Intent):
                assert tool is not None
                record, must_send = yield from self.effects.dispatch_effect(tool, record)
            record = yield from self.effects.carry_to_end(tool, record, must_send=must_send, then=then)
        except InDoubt as error:
            doubt = error
        except Unavailable as trouble:  # of the store: what tools raise is judged before
            raise hold.stop_for_trouble(trouble) from None
        except Exception:
            raise
        except BaseException as error:
            self.note_interrupted(error, place, "effect", effect.tool, effect.digest)
            branch.interrupted = place
            raise
        else:
            self.sagas.reached.add(record.seq)
            self.replay.effects += 1
            return record
        finally:
            self.activity.busy -= 1
        reason = LANDING if doubt.facts["action"] == Action.WAIT else DOUBT
        yield from self.suspend_run(reason, doubt.facts.get("until"))
        raise doubt

    # -- a model's batch -----------------------------------------------------------------------------------------------------

    def run_model_batch(
        self, branch: Branch, model: StepFunction, args: tuple[Any, ...], kwargs: dict[str, Any],
        tools: Iterable[Callable[..., Any]], pins: Mapping[str, Any],
    ) -> Steps[Reply]:  # fmt: skip
        """Call a model, and carry out the calls that its answer makes, in order and each once."""
        batch: list[BatchCall] = []
        # Before the model is paid for: what is wrong with them would cost its answer.
        declared = tools_by_name(tools).values()

        def keep(step: tuple[Any, ...], value: Any) -> Steps[None]:
            batch.extend(self._match_calls(branch, value, declared))
            new = [call.intent for call in batch if call.intent is not None]
            held = any(call.intent and not call.record and self._is_effect_held(branch, call.intent) for call in batch)
            if new and not held:
                yield from self.effects.begin_batch(batch, commits.keep_step_and_plan_batch, step)
            else:
                yield Write(steps.done, step)

        value = yield from self.do_step(branch, model, args, kwargs, {"model": pins}, keep)
        batch = batch or self._match_calls(branch, value, declared)
        for at, call in enumerate(batch):
            if call.answer is None and call.reads:
                yield from self._read_for_call(branch, call)
            elif call.answer is None:
                then = lambda at=at: next_free(batch, at + 1) if self.effects.dispatcher().may_begin else None  # noqa: E731
                yield from self._carry_out_call(branch, call, then)
        return Reply(value, [call.answer for call in batch if call.answer is not None])

    def _match_calls(self, branch: Branch, value: Any, tools: Collection[Callable[..., Any]]) -> list[BatchCall]:
        """Match a model's calls with their tools: each effect at its place, as it is recorded or as it is intended, and the
        verdicts of the guards.
        """
        batch = match_calls(calls_in(value), tools)
        for call in batch:
            if call.answer is None and not call.reads:
                intent, call.record = self._intend(branch, call.sends, call.args)
                call.maybe_forgotten = self._maybe_forgotten(intent)
                if call.record is None or call.record.state is EffectState.PLANNED:
                    intent, precondition = self.effects.ask_guards_about_call(call.sends, intent)
                    call.precondition = precondition or self._what_if_question()
                    call.intent = intent if self._is_new(call.record) else None
        return batch

    def _is_effect_held(self, branch: Branch, intent: Intent) -> bool:
        return is_held(self, branch, intent.place or "", "effect", intent.tool, intent.digest)

    def _read_for_call(self, branch: Branch, call: BatchCall) -> Steps[None]:
        """A call of a tool that only reads is a step."""
        try:
            function = self.step_function(call.sends)._replace(fn=call.sends.named)
            call.answer_with((yield from self.do_step(branch, function, (), dict(call.args), {})))
        except (Failed, Invalid) as error:
            call.answer_with_error(error_of(error))

    def _carry_out_call(self, branch: Branch, call: BatchCall, then: NextCall) -> Steps[None]:
        effect: EffectRecord | Intent | None = call.record
        if call.intent is not None and not call.must_send:
            self.hold.check_may_continue()
            if call.record is None:
                yield from self._hold_back_effect(branch, call.intent)
            effect = yield from self._meet_precondition(branch, call.record or call.intent, call.precondition)
        assert effect is not None
        if call.intent is None and isinstance(effect, EffectRecord) and effect.state is EffectState.PLANNED:
            effect = yield from self._ask_about_old_plan(branch, effect, call.precondition)
        call.record = yield from self.finish_effect(branch, call.sends, effect, must_send=call.must_send, then=then)
        call.settle(effect_result)

    # -- waiting -------------------------------------------------------------------------------------------------------------

    def ask_person(
        self, branch: Branch, doc: dict[str, Any], timeout: Duration | None, about: tuple[str, ...] = ()
    ) -> Steps[WaitRecord]:
        """Ask a person; gives the wait when it is over: answered, or expired. doc: `waits.ask_document`."""
        return self._wait_for_one(branch, WaitKind.ASK, doc, digest(doc, "ask").hex(), timeout, about)

    def sleep(self, branch: Branch, duration: Duration) -> Steps[WaitRecord]:
        """Wait for some time, on the store's clock."""
        duration_us(duration, "duration")  # None would be for ever: nobody could wake it
        return self._wait_for_one(branch, WaitKind.SLEEP, {}, digest(str(duration), "sleep").hex(), duration)

    def _wait_for_one(
        self, branch: Branch, kind: WaitKind, doc: dict[str, Any], mark: str, timeout: Duration | None,
        about: tuple[str, ...] = (),
    ) -> Steps[WaitRecord]:  # fmt: skip
        place, wait = yield from self.next_record(branch, kind.value, "", mark, doc.get("question"))
        if wait is None:
            yield from hold_back(self, branch, place, kind.value, "", mark)
            wait = yield write(
                waits.open_wait, kind, place=place, name="", doc=doc, timeout=timeout, mark=mark, about=about
            )
        return (yield from self.wait_until_over(branch, wait))

    def wait_until_over(self, branch: Branch, wait: WaitRecord) -> Steps[WaitRecord]:
        """Give a wait when it is over: met, or expired. The run is suspended until then. Raises Failed for one that was
        withdrawn.
        """
        if wait.state is not WaitState.OPEN and branch is not self.trunk and self.agent.is_async:
            yield from self._wait_for_replay(branch, wait)
        if wait.state is WaitState.OPEN and (yield Read(waits.is_over, (wait,))):
            wait = yield write(waits.expire_if_over, wait.seq)
        if wait.state is WaitState.OPEN:
            self.activity.awaited.add(wait.seq)
            self.hold.check_may_continue()
            yield from self.suspend_run(wait.kind.value)
        if wait.state is WaitState.WITHDRAWN:
            self.hold.check_may_continue()
            raise Failed(f"{wait.id} was withdrawn", code="Withdrawn", path=wait.id)
        return wait

    def _wait_for_replay(self, branch: Branch, wait: WaitRecord) -> Steps[None]:
        """Hold an answer back that came after the run had gone past this branch, until the replay has come as far again.

        By then the program has stopped the branches that lost a race, as it did before.
        """
        replay, journal = self.replay, self.replay.journal
        if journal.continued_before(wait, branch):
            yield from wait_for_turn(self, lambda: replay.is_replaying and journal.continued_before(wait, branch))

    def suspend_run(self, reason: str, wake_us: int | None = None) -> Steps[None]:
        """Stop the run once no other branch of it is at work. It is driven anew when what it waits for has come. Raises
        Suspended.
        """
        if self.agent.is_async:
            yield from wait_until_idle(self)
        raise self.hold.stop(Suspended(reason, wake_us))

    def wait_for_signal(self, branch: Branch, name: str, timeout: Duration | None, default: Any) -> Steps[Any]:
        """Wait for a signal of this name; its payload, or the default after `timeout`, or TimedOut if there is none."""
        wait = yield from self.await_signal(branch, name, timeout)
        if wait.state is WaitState.MET:
            return wait.answer
        if default is ...:
            raise TimedOut(f"no signal {name!r} came in time", path="signal")
        return default

    def await_signal(self, branch: Branch, name: str, timeout: Duration | None) -> Steps[WaitRecord]:
        """Wait for a signal of this name; gives the wait when it is over: met, or expired."""
        mark = digest(["signal", name], "wait").hex()
        place, wait = yield from self.next_record(branch, "signal", name, mark)
        alone = branch is self.trunk  # a branch may be stopped because another one got its signal
        if wait is None:
            yield from hold_back(self, branch, place, "signal", name, mark)
            begin = waits.open_and_take if alone else waits.open_for_signal
            wait = yield write(begin, name, place, timeout, mark)
        if wait.state is WaitState.OPEN:
            wait = (yield from self._take_signal(wait.seq, name, alone=alone)) or wait
        return (yield from self.wait_until_over(branch, wait))

    def _take_signal(self, seq: int, name: str, *, alone: bool) -> Steps[WaitRecord | None]:
        """Let an open wait take the oldest signal of its name; None if there is none.

        Branches take signals one after the other: one that lost a race, and is stopped, takes none with it.
        """
        if alone:
            return (yield write(waits.take_signal, seq, name))
        if not (yield Read(waits.has_signal, (self.stream, name))):
            return None
        taking = self._take_signal_unless_stopped(seq, name)
        if not self.agent.is_async:
            return (yield from taking)
        return (yield from wait_for_turn(self, lambda: self.replay.is_replaying, taking))

    def _take_signal_unless_stopped(self, seq: int, name: str) -> Steps[WaitRecord | None]:
        if self.agent.is_async and self.hold.stopped is not None:
            raise self.hold.stopped
        return (yield write(waits.take_signal, seq, name))

    def start_child(
        self, branch: Branch, agent: Agent, args: tuple[Any, ...], kwargs: dict[str, Any], about: tuple[str, ...] = ()
    ) -> Steps[WaitRecord]:
        """Start another run of one's own: begun once, whatever crashes. Gives the wait for its end."""
        mark = digest_of_parts(agent=agent.name, args=list(args), kwargs=kwargs)
        place, wait = yield from self.next_record(branch, "child", agent.name, mark)
        if wait is None:
            self.check_real(f"start {agent.name}")
            yield from hold_back(self, branch, place, "child", agent.name, mark)
            name, session = self.stream.name, self.record.session
            request = runs.RunRequest(
                agent=agent.name, args=list(args), kwargs=kwargs, key=f"{name}:{place}", session=session, parent=name,
                program=agent.program, timeout=agent.timeout, about=about, pins=agent.versions, on_change=agent.on_change,
            )  # fmt: skip
            wait = yield write(waits.start_child, request, self.core.epoch, place, mark)
        return wait

    # -- checkpoints, patches, subjects and atomic steps ---------------------------------------------------------------------

    def save_checkpoint(self, branch: Branch, state: Any, *, now: bool, about: tuple[str, ...] = ()) -> Steps[bool]:
        """Save a state to continue from, if the agent's policy says so, or `now`; gives whether it was."""
        yield from self.slow_down()
        replay = self.replay
        if replay.unread or replay.read_late:
            raise _saves_unread("" if replay.unread else replay.read_late)
        if self.sagas.open:
            raise Refused("a checkpoint would lose sight of what a saga may have to undo", path="checkpoint",
                          hint="do it before or after the saga")  # fmt: skip
        if branch is not self.trunk or self.has_branches:
            raise Refused("a branch cannot cut the run", path="checkpoint", hint="do it after gathering the branches")
        policy, is_replaying = self.agent.policy, replay.is_replaying
        elapsed_us = 0 if is_replaying else self.core.clocks.now() - replay.cut_at_us
        if not (now or policy.is_due(steps=replay.steps, elapsed_us=elapsed_us, effects=replay.effects)):
            return False
        frozen = checkpoints.freeze(state)  # at a replay too: what was refused then is refused again
        if is_replaying:
            return False
        self.hold.check_may_continue()
        yield from self.undo_left_sagas()
        by_policy = not now and policy != Policy()
        if by_policy and (yield Read(open_things, (self.stream, replay.cut_seq))):
            return False
        prepared = yield Read(checkpoints.prepare, (self.stream, frozen))
        notes = None
        if self.agent.workspace is not None:
            notes = {"workspace": msgspec.to_builtins((yield Work(workspace.look, (self.agent.workspace,))))}
        self.begin_cut(*(yield write(cut_run, prepared, replay.cut_seq, notes, about)))
        return True

    def add_subjects(self, about: tuple[str, ...]) -> Steps[tuple[str, ...]]:
        """Add subjects to the whole run. No step records it: saying it again at a replay changes nothing."""
        yield from self.slow_down()
        return (yield write(subjects.add_to_run, about))

    def is_patched(self, name: str) -> Steps[bool]:
        """Whether this run goes the new way: True for runs that reach this place anew, False for those that were past it."""
        replay = self.replay
        place = f"{replay.cut}/patch/{check_name(name, 'patch')}"
        if place not in replay.patches:
            recorded = replay.journal.record_at(place, "step", "run.patched", "") is not None
            replay.patches[place] = recorded or not replay.is_replaying
            if replay.patches[place] and not recorded:
                yield write(steps.done, steps.document(place, "run.patched", "", None, None, {}))
        return replay.patches[place]

    def do_atomic(self, branch: Branch, name: str, verb: Callable[..., Any], *about: Any) -> Steps[Any]:
        """Run a verb that writes to other streams, in the commit that records it as a step. Gives the recorded result, or that of
        the verb. verb: takes `about`, the place and the name.
        """
        if self.replay.unread:
            self.check_unread(f"atomic {name}")
        place, record = yield from self.next_record(branch, "step", name, "")
        self.replay.steps += 1
        if record is not None:
            return step_result(record)
        self.check_real(f"write to sessions ({name})")
        yield from hold_back(self, branch, place, "step", name, "")
        try:
            return (yield write(verb, *about, place, name))
        except TROUBLES:
            raise
        except Exception as error:
            cause = error_of(error)
            self.hold.unrecorded_steps.append(steps.document(place, name, "", None, cause, {}))
            raise step_failed(place, name, cause) from error

    # -- sagas: effects are undone, newest first, each by an effect of its own ---------------------------------------------------

    def leave_saga(self, branch: Branch, mark: BranchPoint, error: BaseException | None) -> Steps[None]:
        """Leave a saga. Its effects are undone if it did not come to its end: now, or before the run ends if it was stopped."""
        self.sagas.open -= 1
        if error is None or self.hold.stopped is not None:  # the run has not come to its end here
            return
        if isinstance(error, Exception) or is_end(error):
            yield from self.undo_effects_since(branch, mark, error)
        else:  # by a sister's failure, or because all stops: that is known when the run ends
            self.sagas.left.append(LeftSaga(branch, mark, branch.mark(self.replay.cut)))

    def undo_effects_since(
        self, branch: Branch, mark: BranchPoint, why: BaseException | None
    ) -> Steps[list[str]]:  # fmt: skip
        """Undo the effects of a branch since a mark, and of the branches that left it, newest first. Gives the ids of those that
        were undone. why: the error that they are undone for.
        """
        span = BranchSpan(mark, branch.mark(self.replay.cut))
        self.hold.shielded += 1
        try:
            yield from self.stop_branches(mark)
            return (yield from self._undo_in(branch, [span], why))
        finally:
            self.hold.shielded -= 1

    def undo_left_sagas(self, why: BaseException | None = None) -> Steps[None]:
        """Undo the sagas that were left behind when their branches were stopped; the run itself is about to end, or to be cut.

        In a branch of its own, so that places do not depend on how far each had come; what an earlier drive began to undo
        there is undone to its end.
        """
        spans = [saga.span(self.replay.cut) for saga in self.sagas.left]
        begun = self.replay.journal.undone_from(AFTERWARDS)
        if not spans and not begun:
            return
        self.hold.shielded += 1
        try:
            yield from self._undo_in(self.afterwards, spans, why, begun)
        finally:
            self.hold.shielded -= 1
        self.sagas.left.clear()

    def settle_open_effects(self, *, completes: bool) -> Steps[None]:
        """Settle interrupted effects that were sent, by the rules of their tools, before the run ends: nobody would look at them
        again.

        The run waits if only a person, or a later time, can settle one. Planned effects are withdrawn if the run completes.
        """
        if not (self.activity.interrupted or self.replay.journal.unsettled):
            return
        self.hold.shielded += 1
        try:
            for record in (yield from self._effects(open_only=True)):
                if record.state in UNDER_WAY:
                    yield from self.finish_effect(self.trunk, self._tool_of(record), record)
                elif completes and record.state is EffectState.PLANNED and record.epoch == self.core.epoch:
                    yield from self.effects.withdraw_effect(record, "the run ended before it was sent", "the run")
        finally:
            self.hold.shielded -= 1

    def stop_branches(self, since: BranchPoint = BranchPoint()) -> Steps[None]:  # noqa: B008 - a tuple
        """Stop the branches that began since a mark. The ledger has all that they were doing."""
        self.activity.stopping_branches += 1
        try:
            yield StopBranches(self.trunk.tasks_since(since))
        finally:
            self.activity.stopping_branches -= 1

    def _undo_in(
        self, branch: Branch, spans: list[BranchSpan], why: BaseException | None, begun: Iterable[int] = ()
    ) -> Steps[list[str]]:
        undone: list[str] = []
        yield from self._settle_effects_in(branch, spans)
        effects = yield from self._effects()
        for record in self.sagas.effects_to_undo(effects, spans, {*begun}):
            if record.rule.undo and may_have_happened(record):
                yield from self._undo(branch, record)
                self.sagas.undone[record.seq] = why
                undone.append(record.id)
        return undone

    def _settle_effects_in(self, branch: Branch, spans: list[BranchSpan]) -> Steps[None]:
        """Settle interrupted effects in spans before anything is undone: a sent call may have happened."""
        for record in (yield from self._effects(open_only=True)):
            place = record.place if record.undoes is None else None
            is_inside = place is not None and any(span.holds(place) for span in spans)
            if is_inside and record.state in UNDER_WAY:
                tool = self._tool_of(record)
                if tool is not None:
                    yield from self.finish_effect(branch, tool, record)
                elif record.rule.undo:
                    raise self._cannot_undo(record, "its tool is not known here", "import it, then `perdure resume`")

    def _undo(self, branch: Branch, record: EffectRecord) -> Steps[None]:
        """Undo one effect. The run waits while its call may be under way: one that arrives after its undo would stay."""
        tool = self._tool_of(record)
        if tool is None or tool.undo is None:
            why = f"its undo, {record.rule.undo}, is not known here"
            raise self._cannot_undo(record, why, "import it, then `perdure resume`")
        if record.state not in (EffectState.UNDOING, EffectState.UNDONE):
            under_way = yield from self.effects.advice_until_landed(record)
            if under_way is not None:
                yield from self.suspend_run(LANDING, under_way.until_us)
        try:
            undo = yield from self.do_effect(branch, tool.undo, undo_args(tool.undo, record), undoes=record)
            effect_result(undo)
        except Failed as error:
            hint = (
                "mend what failed, then `perdure unpark` the run, which tries the undo again; or undo it by hand and "
                "`perdure cancel` the run, twice if it is parked once more: that ends it as it is"
            )
            raise self._cannot_undo(record, error.message, hint, **error.facts) from error

    def _cannot_undo(self, record: EffectRecord, why: str, hint: str, **facts: Any) -> Parked:
        parked = Parked(f"{record.tool} could not be undone: {why}", path=record.id, hint=hint, **facts)
        self.hold.park(parked)
        return parked

    def _effects(self, *, open_only: bool = False) -> Steps[list[EffectRecord]]:
        """The effects of the run since its last cut."""
        filters = {"after": self.replay.cut_seq, "open_only": open_only}
        return (yield Read(ledger.all_effects, (self.stream,), filters))

    def _tool_of(self, record: EffectRecord) -> Tool | None:
        """The tool of an effect, which may not have been reached in this drive."""
        return self.sagas.tools.get(record.tool) or DECLARED.get(record.tool)


# -- the commit of a checkpoint --------------------------------------------------------------------------------------------------


def cut_run(
    tx: Tx, stream: Stream, prepared: checkpoints.Prepared, since: int, notes: dict[str, Any] | None,
    about: tuple[str, ...] = (),
) -> tuple[int, int]:  # fmt: skip
    """Save a state and begin the journal anew: the number of the cut, and its event. Refused while anything is open.

    Only between branches: an ask, a sleep or a signal that is still open was waited for in one that was stopped (it lost a
    race), and is withdrawn in the same commit.
    """
    if in_the_way := open_things(tx, stream, since):
        hint = (
            "settle and await it first; or give the agent a policy (checkpoint=…), which then waits for a better moment"
        )
        raise Refused(f"a checkpoint would lose sight of {in_the_way}", path="checkpoint", hint=hint)
    for wait in waits.waiting(tx, stream):
        waits.withdraw(tx, stream, wait.seq, "a checkpoint")
    checkpoints.save(tx, stream, prepared, about=about)
    return runs.cut(tx, stream, notes), tx.seq(stream)


def open_things(reads: Reads, stream: Stream, since: int) -> str:
    """The obstacle to cutting a run, for people; empty if there is none. Another drive may differ: a child ends at any time."""
    if ledger.effects(reads, stream, after=since, open_only=True, limit=1).whole():
        return "effects that are not settled"
    kinds = (WaitKind.CHILD, WaitKind.APPROVAL)
    return "an open wait of the run" if any(wait.kind in kinds for wait in waits.waiting(reads, stream)) else ""


# -- errors of programs ----------------------------------------------------------------------------------------------------------


def _saves_unread(first: str) -> Refused:
    """The error of a checkpoint in a program that does not begin from it. first: what it did before it looked."""
    late = f"reads run.restored only after {first}" if first else "never reads run.restored"
    return Refused(
        f"this agent saves a state, but {late}: after a crash it would repeat what it did before the checkpoint",
        path="checkpoint", hint=f"{BEGIN_FROM_STATE}, then run.checkpoint(state) again and again",
    )  # fmt: skip


def _does_not_end(run: str, ending: str) -> Parked:
    """The error of a program that catches every signal to end, and continues."""
    return Parked(
        f"{ending}, and its program does not end: it catches that and tries again", path=f"run {run}",
        reason="does not end",
        hint="let it catch Exception at most (no bare `except:`, no `except BaseException`), deploy it, then `perdure resume` "
        "the run: it undoes what there is to undo; or `perdure cancel` it once more, which ends it as it is",
    )  # fmt: skip


def _continues_interrupted(place: str) -> Refused:
    """The error of a program that continues in a branch in which an effect was stopped: the effect may happen all the same."""
    return Refused(
        f"its work at {place} was cancelled in the middle (by asyncio.timeout?), and may happen all the same", path=place,
        hint="a deadline belongs to the tool (timeout=) or to the wait; what may be stopped belongs in a task of its own",
    )  # fmt: skip
