# Generated from handles/aio/outward.py by tools/unasync.py: edit that one.
"""What an agent does outside: effects at their places, a model's batch of them, sagas and undoing. Keeps P2-P4.

See docs/decisions/0006 and 0007. Callers: `run`.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeAlias, overload

from perdure.effects import ledger, permitting
from perdure.effects.acting import FORGOTTEN, STRAYED
from perdure.effects.batch import Meant, calls_in, keep_and_plan, mean, next_free, nothing_next, tools_by_name
from perdure.effects.deciding import ask_approval, is_approved
from perdure.effects.ledger import Intent, error_of
from perdure.effects.meaning import named_args
from perdure.effects.sending import Then
from perdure.effects.settling import Action
from perdure.effects.tool import DECLARED, Refuse, Tool, as_tool, digest_of
from perdure.errors import Failed, InDoubt, Invalid, Parked, Refused, Unavailable
from perdure.handles.sync.placed import Placed
from perdure.model.functions import Coro, P, R
from perdure.model.limits import check_question
from perdure.model.records.effects import EffectRecord, EffectState, Reply, ToolKind
from perdure.planes import known, steps
from perdure.planes.spans import Duration
from perdure.runtime import course
from perdure.runtime.pausing import is_end
from perdure.runtime.places import AFTERWARDS, Left, Mark, Span

DOUBT, LANDING = "doubt", "landing"  # what a run waits for: somebody who can say, or what was sent to have had its time
Approval: TypeAlias = "tuple[str | None, Duration | None]"  # what a person is asked first, and how long for an answer


class Outward(Placed):
    """What a program does outside: effects, a model's batch of them, and undoing."""

    __slots__ = ()

    @overload
    def act(
        self, tool: Callable[..., Coro[R]], /, *args: Any, approve: str | None, approve_within: Duration | None = None,
        **kwargs: Any,
    ) -> R: ...  # fmt: skip
    @overload
    def act(
        self, tool: Callable[..., R], /, *args: Any, approve: str | None, approve_within: Duration | None = None,
        **kwargs: Any,
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
        approve: str | None = None,
        approve_within: Duration | None = None,
        **kwargs: Any,
    ) -> Any:
        """Do something outside, once, whatever crashes: intent first, then the call, then its result.

        approve: ask a person first; the answer binds to this very call. approve_within: no answer by then is a no. Doubt is
        settled by the tool's rule; where that needs a person, the run waits. Raises Failed when it is known not to have
        happened.
        """
        found = as_tool(tool)
        found.check_free(approve=approve, approve_within=approve_within)
        if approve is not None:
            check_question(approve, "approve")
        return self._act(found, found.bind(args, kwargs), (approve, approve_within))

    def _act(
        self, tool: Tool, args: dict[str, Any], approve: Approval = (None, None), undoes: EffectRecord | None = None
    ) -> Any:
        if self._driving.refusals:
            self._driving.hold_up()
        if tool.kind is ToolKind.READ:
            raise Refused(f"{tool.name} only reads", path="tool", hint=f"run.step({tool.name}, …)")
        intent, found = self._intend(tool, args)
        if found is None:
            self._driving.check_going()
        found = self._allowed(tool, intent, found, approve, undoes)
        return course.given(self._concluded(tool, found))

    def _intend(self, tool: Tool, args: dict[str, Any]) -> tuple[Intent, EffectRecord | None]:
        """An effect at the place where the program is, and what is recorded there."""
        mark = digest_of(tool.name, args)
        place, found = self._take("effect", tool.name, mark, args)
        self._driving.tools[tool.name] = tool
        return Intent(tool.name, tool.kind, self._key(place, tool.name, mark), mark, args, tool.rule, place), found

    def _key(self, place: str, name: str, mark: str) -> str:
        """The key of an effect: of this run, this place, this tool and these arguments; the same whatever crashes."""
        return hashlib.sha256(f"{self._driving.stream.uid.hex()} {place} {name} {mark}".encode()).hexdigest()[:32]

    def _allowed(
        self, tool: Tool, intent: Intent, found: EffectRecord | None, approve: Approval, undoes: EffectRecord | None
    ) -> EffectRecord | Intent:
        """What is to be carried on: the effect as it stands, or the intent of a new one that nobody need be asked about."""
        acting = self._driving.acting
        if undoes is not None:
            if found is None:
                self._check_real(f"undo {undoes.tool}")
            beginning = acting.move("undo", ledger.begin_undo, undoes.seq, intent, acting.sender.epoch)
            return found or self._driving.shell.run(beginning)
        if found is not None and found.state is not EffectState.PLANNED:
            return found
        question = " ".join(filter(None, (self._asked_first, approve[0]))) or None
        intent, asked = acting.guarded(tool, intent, question)
        if found is not None and not self._is_new(found):
            return self._asked_before(found, asked, approve[1])
        return self._permitted(found, intent, asked, approve[1])

    def _asked_before(
        self, planned: EffectRecord, asked: Refuse | str | None, within: Duration | None = None
    ) -> EffectRecord:
        """What was planned before a restore may have been sent since. But if a person is to be asked, his word comes first: what
        its rule would send again, nobody may have approved of.
        """
        return self._approved(planned, asked, within) if isinstance(asked, str) else planned

    @property
    def _asked_first(self) -> str | None:
        """What a person is asked before anything is done outside: in a run that only supposes, whether it shall be done."""
        what_if = self._driving.record.what_if
        if what_if is None or what_if.acts:
            return None
        return f"This run only supposes another result in run {what_if.run}: shall it really do this?"

    def _is_new(self, found: EffectRecord | None) -> bool:
        """Whether nothing has been sent yet, as far as is known."""
        return found is None or (found.state is EffectState.PLANNED and found.epoch == self._driving.caller.core.epoch)

    def _permitted(
        self, found: EffectRecord | None, intent: Intent, asked: Refuse | str | None, within: Duration | None
    ) -> EffectRecord | Intent:
        """What is meant, as it stands when a guard or a person has said what there is to say: withdrawn, if that is no."""
        if asked is None:
            return self._unforgotten(found or intent)
        planned = found or self._driving.shell.run(self._driving.acting.plan(intent))
        if isinstance(asked, Refuse):
            return self._driving.shell.run(self._driving.acting.withdraw(planned, asked.reason, "a guard"))
        return self._unforgotten(self._approved(planned, asked, within))

    def _unforgotten(self, meant: EffectRecord | Intent) -> EffectRecord | Intent:
        """What may be sent now; after a restore, if its tool can be asked or is unsafe, in doubt: it may have been sent and
        forgotten. Who sent it in what was lost is taken to be gone: a restore presumes it.
        """
        driving = self._driving
        withdrawn = isinstance(meant, EffectRecord) and meant.state is not EffectState.PLANNED
        known_seq = driving.lease.known_seq
        if withdrawn or known_seq is None or not self._may_be_forgotten(meant):
            return meant
        strayed = driving.read(known.has_strayed, driving.stream, known_seq)
        if meant.kind is ToolKind.KEYED and not strayed:  # its key finds it out
            return meant
        record = driving.shell.run(driving.acting.plan(meant)) if isinstance(meant, Intent) else meant
        why = STRAYED if strayed else FORGOTTEN
        doubting = driving.acting.move("doubt", ledger.doubt, record.seq, record.attempt, why, quiet=True)
        return driving.shell.run(doubting)

    def _may_be_forgotten(self, meant: EffectRecord | Intent) -> bool:
        """Whether it may have been sent by what a restore forgot, and twice is not as good as once. Who has said since that it
        did not happen is not asked again.
        """
        asked_about = isinstance(meant, EffectRecord) and meant.settled_by is not None
        return self._driving.lease.known_seq is not None and meant.kind is not ToolKind.IDEMPOTENT and not asked_about

    def _concluded(
        self, tool: Tool | None, found: EffectRecord | Intent, *, mine: bool = False, then: Then = nothing_next
    ) -> EffectRecord:
        """Carry it to its end; the run waits while only a person, or a later time, can settle it."""
        driving = self._driving
        driving.begin()
        try:
            record = found if isinstance(found, EffectRecord) else self._dispatched(tool, found)
            concluding = driving.acting.conclude(tool, record, mine=mine or record is not found, then=then)
            record = driving.shell.run(concluding)
        except InDoubt as error:
            doubt = error
        except Unavailable as trouble:  # of the store: what tools raise is judged before
            raise driving.troubled(trouble) from None
        except Exception:
            raise
        except BaseException:
            driving.interrupted = True
            self._here().interrupted = found.place or ""
            raise
        else:
            driving.reached.add(record.seq)
            driving.effects += 1
            return record
        finally:
            driving.busy -= 1
        self._suspend(LANDING if doubt.facts["action"] == Action.WAIT else DOUBT, doubt.facts.get("until"))
        raise doubt

    def _dispatched(self, tool: Tool | None, intent: Intent) -> EffectRecord:
        assert tool is not None
        return self._driving.shell.run(self._driving.acting.dispatch_new(tool, intent))

    def _approved(self, record: EffectRecord, question: str, within: Duration | None) -> EffectRecord:
        """The effect if a person approved of it, withdrawn or in doubt if not; the run waits while nobody has said."""
        approval = self._ended(self._driving.write(ask_approval, record, question, within))
        if is_approved(approval, record):
            return record
        acting = self._driving.acting
        refusing = acting.move("withdraw", permitting.refuse, record, approval, acting.sender.epoch)
        return self._driving.shell.run(refusing)

    # -- a model's batch -----------------------------------------------------------------------------------------------------

    def respond(
        self,
        fn: Callable[..., Any],
        /,
        *args: Any,
        tools: Iterable[Callable[..., Any]],
        pins: Mapping[str, Any] | None = None,
        timeout: Duration | None = None,
        retries: int | None = None,
        **kwargs: Any,
    ) -> Reply:
        """Call a model as `model` does, and carry out the calls that its answer makes, in order and each once.

        Its answer has `calls`: a list of `Call`, or of mappings with id, tool and args. It lands with all of them planned, and
        each result with the next dispatch: N effects take N + 1 commits. A call that fails, is refused, or means nothing has
        an error for its answer, and the others go on. Tools that only read are steps. Invalid if `calls` is no such list, or a
        call has no id of its own: nothing is sent then. timeout, retries: of the model's call, as for `step`.
        """
        batch: list[Meant] = []
        # Before the model is paid for: what is wrong with them would cost its answer.
        tools = tools_by_name(tools).values()

        def keep(step: tuple[Any, ...], value: Any) -> None:
            batch.extend(self._mean(value, tools))
            if any(meant.intent is not None for meant in batch):
                self._driving.shell.run(self._driving.acting.begin_all(batch, keep_and_plan, step))
            else:
                self._driving.write(steps.done, *step)

        known = self._known(fn, timeout, retries)
        value = self._step(known, fn, args, kwargs, {"model": named_args(pins, "pins")}, keep)
        batch = batch or self._mean(value, tools)
        acting = self._driving.acting
        for at, meant in enumerate(batch):
            if meant.answer is None:
                self._answer(meant, lambda at=at: next_free(batch, at + 1) if acting.may_begin else None)
        return Reply(value, [meant.answer for meant in batch if meant.answer is not None])

    def _mean(self, value: Any, tools: Iterable[Callable[..., Any]]) -> list[Meant]:
        """What a model's calls mean here: each effect at its place, as it stands or as it is meant, and what the guards say."""
        batch = mean(calls_in(value), tools)
        for meant in batch:
            if meant.answer is None and not meant.reads:
                intent, meant.record = self._intend(meant.sends, meant.args)
                meant.wary = self._may_be_forgotten(intent)
                if meant.record is None or meant.record.state is EffectState.PLANNED:
                    intent, asked = self._driving.acting.guarded_call(meant.sends, intent)
                    meant.asked = asked or self._asked_first
                    meant.intent = intent if self._is_new(meant.record) else None
        return batch

    def _answer(self, meant: Meant, then: Callable[[], Meant | None]) -> None:
        driving = self._driving
        if not meant.reads:
            found: EffectRecord | Intent | None = meant.record
            if meant.intent is not None and not meant.mine:
                driving.check_going()
                found = self._permitted(meant.record, meant.intent, meant.asked, None)
            assert found is not None
            if meant.intent is None and isinstance(found, EffectRecord) and found.state is EffectState.PLANNED:
                found = self._asked_before(found, meant.asked)
            meant.record = self._concluded(meant.sends, found, mine=meant.mine, then=then)
            meant.settle(course.given)
            return
        try:
            meant.gave(self._step(driving.known(meant.sends), meant.sends.named, (), meant.args, {}))
        except (Failed, Invalid) as error:
            meant.failed(error_of(error))

    # -- undoing -------------------------------------------------------------------------------------------------------------

    def saga(self) -> Saga:
        """`with run.saga(): …`: if what is inside fails or is cancelled, what it did outside is undone, newest first.

        Inside is what is done in this line of work, and in those that begin there; one that was begun before is not.
        """
        return Saga(self)

    def undo(self) -> list[str]:
        """Undo what this line of work did since the last checkpoint, and those that left it, newest first. Returns what was.

        Each undo is an effect of its own; effects without one are left. Doubt is waited for, and what was given up has its
        time to arrive. Raises Parked when an undo fails: what it was to undo stays `undoing`.
        """
        return self._undo_since(Mark(self._here().path))

    def _undo_since(self, mark: Mark) -> list[str]:
        driving = self._driving
        span = Span(mark, self._here().mark(driving.cut))
        driving.shielded += 1
        try:
            driving.end_branches(mark)
            return self._undo_in([span])
        finally:
            driving.shielded -= 1

    def _undo_left(self) -> None:
        """Undo the sagas that were left behind when their branches were stopped; the run itself is about to end, or to be cut.

        In a branch of its own, so that places do not depend on how far each had come; what an earlier drive began to undo
        there is undone to its end.
        """
        driving = self._driving
        spans = [each.span(driving.cut) for each in driving.left]
        begun = driving.journal.undoes_in(AFTERWARDS)
        if not spans and not begun:
            return
        driving.shielded += 1
        try:
            type(self)(driving, driving.afterwards)._undo_in(spans, begun)
        finally:
            driving.shielded -= 1
        driving.left.clear()

    def _settle_open(self, *, completes: bool) -> None:
        """Settle what was interrupted and sent, by its tool's rule: the run is about to end, and nobody would look at it again.

        The run waits if only a person, or a later time, can settle it. What was only planned is withdrawn if the run completes.
        """
        driving = self._driving
        if not (driving.interrupted or driving.journal.unsettled):
            return
        driving.shielded += 1
        try:
            for record in driving.read(ledger.all_effects, driving.stream, after=driving.cut_seq, open_only=True):
                if record.state in (EffectState.DISPATCHED, EffectState.IN_DOUBT):
                    self._concluded(driving.tools.get(record.tool) or DECLARED.get(record.tool), record)
                elif completes and record.state is EffectState.PLANNED and self._is_new(record):
                    withdrawing = driving.acting.withdraw(record, "the run ended before it was sent", "the run")
                    driving.shell.run(withdrawing)
        finally:
            driving.shielded -= 1

    def _undo_in(self, spans: list[Span], begun: Iterable[int] = ()) -> list[str]:
        driving, undone, why = self._driving, [], sys.exception()
        self._settle_left(spans)
        effects = driving.read(ledger.all_effects, driving.stream, after=driving.cut_seq)
        for record in driving.done_in(effects, spans, {*begun}):
            if record.rule.undo and course.may_have_happened(record):
                self._undo(self._undo_of(record), record)
                driving.undone[record.seq] = why
                undone.append(record.id)
        return undone

    def _undo_of(self, record: EffectRecord) -> Tool:
        """The tool that undoes an effect; its own may not have been reached in this drive."""
        tool = self._driving.tools.get(record.tool) or DECLARED.get(record.tool)
        if tool is not None and tool.undo is not None:
            return tool.undo
        raise self._parked(
            record, f"its undo, {record.rule.undo}, is not known here", "import it, then `perdure resume`"
        )

    def _parked(self, record: EffectRecord, why: str, hint: str, **facts: Any) -> Parked:
        self._driving.stopped = Parked(f"{record.tool} could not be undone: {why}", path=record.id, hint=hint, **facts)
        return self._driving.stopped

    def _settle_left(self, spans: list[Span]) -> None:
        """What was interrupted in spans is settled before anything is undone: what was sent may have happened."""
        driving = self._driving
        for record in driving.read(ledger.all_effects, driving.stream, after=driving.cut_seq, open_only=True):
            place = record.place if record.undoes is None else None
            mine = place is not None and any(span.holds(place) for span in spans)
            if mine and record.state in (EffectState.DISPATCHED, EffectState.IN_DOUBT):
                tool = driving.tools.get(record.tool) or DECLARED.get(record.tool)
                if tool is not None:
                    self._concluded(tool, record)
                elif record.rule.undo:
                    raise self._parked(record, "its tool is not known here", "import it, then `perdure resume`")

    def _undo(self, undo: Tool, record: EffectRecord) -> None:
        self._wait_for_landing(record)
        try:
            self._act(undo, course.undo_args(undo, record), undoes=record)
        except Failed as error:
            hint = "mend what failed, then `perdure unpark` the run, which tries the undo again; or undo it by hand and `perdure "
            hint += "cancel` the run, twice if it is parked once more: that ends it as it is"
            raise self._parked(record, error.message, hint, **error.facts) from error

    def _wait_for_landing(self, record: EffectRecord) -> None:
        """What arrives after its undo would stay for ever: the run waits while something of it may still be under way."""
        if record.state in (EffectState.UNDOING, EffectState.UNDONE):
            return
        under_way = self._driving.shell.run(self._driving.acting.landed(record))
        if under_way is not None:
            self._suspend(LANDING, under_way.until_us)


class Saga:
    """What is done inside is undone if it does not come to its end."""

    __slots__ = ("_branch", "_mark", "_run")

    def __init__(self, run: Outward) -> None:
        self._run = run
        self._branch = run._branch
        self._mark = Mark()

    def __enter__(self) -> Self:
        driving = self._run._driving
        self._branch = self._run._here()
        self._mark = self._branch.mark(driving.cut)
        driving.sagas += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        driving = self._run._driving
        driving.sagas -= 1
        if error is None or driving.stopped is not None:  # the run has not come to its end here
            return
        if isinstance(error, Exception) or is_end(error):
            self._run._undo_since(self._mark)
        else:  # by a sister's failure, or because all stops: that is known when the run ends
            driving.left.append(Left(self._branch, self._mark, self._branch.mark(driving.cut)))
