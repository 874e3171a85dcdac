# Generated from handles/aio/run.py by tools/unasync.py: edit that one.
"""What an agent's function gets: the run. Everything that it does through it is recorded at its place, and done once.

Each verb first looks into the journal at its place: what is recorded there is returned, and the first thing that is not is done
and recorded. See docs/decisions/0007.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from perdure.effects import ledger
from perdure.effects.batch import Meant, calls_in, keep_and_plan, mean, next_free, nothing_next
from perdure.effects.deciding import ask_approval, is_approved
from perdure.effects.ledger import Intent, error_of
from perdure.effects.tool import Refuse, Tool, as_tool, digest_of, digest_of_parts
from perdure.errors import Cancelled, Changed, Failed, InDoubt, Invalid, Parked, Refused, Stale, TimedOut
from perdure.handles.atomic import Atomic, run_atomic_step
from perdure.handles.sync.acting import Then
from perdure.model.functions import plain
from perdure.model.instants import to_datetime
from perdure.model.limits import check_name
from perdure.model.records.effects import EffectRecord, EffectState, Reply, ToolKind
from perdure.model.records.runs import RunRecord, WaitKind, WaitRecord, WaitState
from perdure.model.values import digest
from perdure.planes import checkpoints, runs, waits
from perdure.planes.spans import Duration
from perdure.runtime import course, places
from perdure.runtime.agent import as_agent
from perdure.runtime.journal import Known
from perdure.runtime.pausing import Suspended, found_in
from perdure.runtime.places import Branch

if TYPE_CHECKING:
    from perdure.handles.sync.driving import Driving

Approval: TypeAlias = "tuple[str | None, Duration | None]"  # what a person is asked first, and how long for an answer
NOW = Known("run.now", is_async=False)


class Run:
    """A run, as its agent sees it. Deterministic code goes between its verbs; whatever is not goes into a step."""

    __slots__ = ("_branch", "_driving")

    def __init__(self, driving: Driving, branch: Branch) -> None:
        self._driving = driving
        self._branch = branch

    @property
    def id(self) -> str:
        """Its name in the store."""
        return self._driving.stream.name

    @property
    def record(self) -> RunRecord:
        """How it stood when it was taken."""
        return self._driving.record

    @property
    def restored(self) -> Any:
        """The state of the last checkpoint; None if there is none. What came before it is not done again."""
        return self._driving.restored

    @property
    def token(self) -> int:
        """The fencing token of this lease: pass it on to what must be protected from an earlier one."""
        return self._driving.lease.token

    @property
    def replaying(self) -> bool:
        """Whether things that were recorded are still ahead."""
        return self._driving.journal.replaying

    # -- steps ---------------------------------------------------------------------------------------------------------------

    def step(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function that changes nothing outside, and keep what it gives: on replay it is not called again.

        One commit. It may run again after a crash that came before its result was kept. Whatever it raises comes as Failed
        with the exception's name as its `code`, now and at every replay; it is kept when the program goes on after it.
        Raises Refused for a tool that is not `read`, Invalid for what cannot be kept.
        """
        return self._step(self._driving.known(fn), fn, args, kwargs, {})

    def model(self, fn: Callable[..., Any], *args: Any, pins: Mapping[str, Any] | None = None, **kwargs: Any) -> Any:
        """A step that calls a model: its input is kept by reference, with its pins and its `usage`."""
        return self._step(self._driving.known(fn), fn, args, kwargs, {"model": dict(pins or {})})

    def respond(
        self,
        fn: Callable[..., Any],
        *args: Any,
        tools: Iterable[Callable[..., Any]],
        pins: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Reply:
        """Call a model as `model` does, and carry out the calls that its answer makes, in order and each once.

        Its answer has `calls`: a list of `Call`, or of mappings with id, tool and args. It lands with all of them planned, and
        each result with the next dispatch: N effects take N + 1 commits. A call that fails, is refused, or means nothing has
        an error for its answer, and the others go on. Tools that only read are steps.
        """
        batch: list[Meant] = []

        def keep(doc: dict[str, Any], value: Any) -> None:
            batch.extend(self._mean(value, tools))
            if any(meant.intent is not None for meant in batch):
                self._driving.acting.begin_all(batch, keep_and_plan, doc)
            else:
                self._driving.write(runs.step, doc)

        value = self._step(self._driving.known(fn), fn, args, kwargs, {"model": dict(pins or {})}, keep)
        batch = batch or self._mean(value, tools)
        for at, meant in enumerate(batch):
            if meant.answer is None:
                self._answer(meant, lambda at=at: next_free(batch, at + 1) if self._driving.going else None)
        return Reply(value, [meant.answer for meant in batch if meant.answer is not None])

    def _mean(self, value: Any, tools: Iterable[Callable[..., Any]]) -> list[Meant]:
        """What a model's calls mean here: each effect at its place, as it stands or as it is meant, and what the guards say."""
        batch = mean(calls_in(value), tools)
        for meant in batch:
            if meant.answer is None and not meant.reads:
                intent, meant.record = self._intend(meant.sends, meant.args)
                if self._is_new(meant.record):
                    meant.intent, meant.asked = self._driving.acting.guarded(meant.sends, intent, None)
        return batch

    def _answer(self, meant: Meant, then: Callable[[], Meant | None]) -> None:
        driving = self._driving
        if not meant.reads:
            found: EffectRecord | Intent | None = meant.record
            if meant.intent is not None and not meant.mine:
                driving.check_going()
                found = self._permitted(meant.record, meant.intent, meant.asked, None)
            assert found is not None
            meant.record = self._concluded(meant.sends, found, mine=meant.mine, then=then)
            meant.settle(course.given)
            return
        try:
            meant.gave(self._step(driving.known(meant.sends), meant.sends.named, (), meant.args, {}))
        except Failed as error:
            meant.failed(error_of(error))

    def _step(
        self,
        known: Known,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        notes: dict[str, Any],
        keep: Callable[[dict[str, Any], Any], Any] | None = None,
    ) -> Any:
        mark = digest_of_parts(args=list(args), kwargs=kwargs)
        place, found = self._arrive("step", known.name, mark)
        driving = self._driving
        driving.steps += 1
        if found is not None:
            return course.replayed(known.name, found.value, found.error)
        driving.begin()
        try:
            value = driving.invoker.read(fn, args, kwargs, is_async=known.is_async)
            if notes:
                notes = notes | {"usage": course.usage_of(value)}
        except Exception as error:
            said = error_of(error)
            driving.keep_error(runs.step_document(place, known.name, mark, None, said, notes))
            raise Failed(said.message, code=said.code, path=f"step {known.name}") from error
        finally:
            driving.busy -= 1
        doc = runs.step_document(place, known.name, mark, value, None, notes)
        (driving.write(runs.step, doc) if keep is None else keep(doc, value))
        return value

    def atomic(self, fn: Callable[[Atomic], Any]) -> Any:
        """Several verbs on sessions and scopes, as `store.atomic`, in the very commit that records them as a step of this run.

        So they land exactly once: `run.atomic(lambda tx: tx.session("a").say("user", "x"))`.
        """
        name = check_name(getattr(fn, "__name__", "atomic"), "step")
        place, found = self._arrive("step", name, "")
        driving = self._driving
        driving.steps += 1
        if found is not None:
            return course.replayed(name, found.value, found.error)
        done = driving.write(run_atomic_step, plain(fn, "fn"), driving.caller, place, name)
        done.held_back.tell()
        return done.result

    def now(self) -> datetime:
        """The time, as it was when this place was first reached."""
        return to_datetime(self._step(NOW, self._driving.caller.core.clocks.now, (), {}, {}))

    def uuid(self) -> uuid.UUID:
        """A UUID that belongs to this place: the same at every replay. Writes nothing."""
        return uuid.UUID(bytes=self._drawn()[:16], version=4)

    def random(self) -> float:
        """A number from 0 to 1 that belongs to this place: the same at every replay. Writes nothing."""
        return int.from_bytes(self._drawn()[:7]) / 2**56

    def _drawn(self) -> bytes:
        place = self._here().next_place(self._driving.cut)
        return hashlib.sha256(b"perdure run random\0" + self._driving.stream.uid + place.encode()).digest()

    # -- effects -------------------------------------------------------------------------------------------------------------

    def act(
        self,
        tool: Callable[..., Any],
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
        return self._act(found, found.bind(args, kwargs), (approve, approve_within))

    def _act(
        self, tool: Tool, args: dict[str, Any], approve: Approval = (None, None), undoes: EffectRecord | None = None
    ) -> Any:
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
        place, found = self._take("effect", tool.name, mark)
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
            return found or acting.move("undo", ledger.begin_undo, undoes.seq, intent, acting.sender.epoch)
        if found is not None and not self._is_new(found):
            return found
        intent, asked = acting.guarded(tool, intent, approve[0])
        return self._permitted(found, intent, asked, approve[1])

    def _is_new(self, found: EffectRecord | None) -> bool:
        """Whether nothing has been sent yet, as far as is known."""
        return found is None or (found.state is EffectState.PLANNED and found.epoch == self._driving.caller.core.epoch)

    def _permitted(
        self, found: EffectRecord | None, intent: Intent, asked: Refuse | str | None, within: Duration | None
    ) -> EffectRecord | Intent:
        """What is meant, as it stands when a guard or a person has said what there is to say: withdrawn, if that is no."""
        if asked is None:
            return found or intent
        planned = found or self._driving.acting.plan(intent)
        if isinstance(asked, Refuse):
            return self._driving.acting.withdraw(planned, asked.reason, "a guard")
        return self._approved(planned, asked, within)

    def _concluded(
        self, tool: Tool, found: EffectRecord | Intent, *, mine: bool = False, then: Then = nothing_next
    ) -> EffectRecord:
        """Carry it to its end; the run waits while only a person, or a later time, can settle it."""
        driving = self._driving
        driving.begin()
        try:
            record = driving.acting.dispatch_new(tool, found) if isinstance(found, Intent) else found
            record = driving.acting.conclude(tool, record, mine=mine or record is not found, then=then)
        except InDoubt as error:
            doubt = error
        else:
            driving.done[record.seq] = record
            driving.effects += 1
            return record
        finally:
            driving.busy -= 1
        self._suspend("doubt", doubt.facts.get("until"))
        raise doubt

    def _approved(self, record: EffectRecord, question: str, within: Duration | None) -> EffectRecord:
        """The effect if a person approved of it, withdrawn if not; the run waits while nobody has said."""
        approval = self._ended(self._driving.write(ask_approval, record, question, within))
        if is_approved(approval, record):
            return record
        return self._driving.acting.withdraw(record, f"{approval.met_by} did not approve", approval.met_by or "")

    def saga(self) -> Saga:
        """`with run.saga(): …`: if what is inside fails or is cancelled, what it did outside is undone, newest first."""
        return Saga(self)

    def undo(self, keep: frozenset[int] = frozenset()) -> list[str]:
        """Undo what this run did, newest first; each undo is an effect of its own. Returns what was undone.

        Effects without an undo are left, and those in `keep`. Doubt is waited for. Raises Parked when an undo fails: what it
        was to undo stays `undoing`.
        """
        driving, undone = self._driving, []
        branch = self._here().path
        driving.shielded += 1
        try:
            driving.end_branches(branch)
            self._settle_left(branch, keep)
            for record in driving.done_in(branch, keep):
                undo = driving.tools[record.tool].undo
                if undo is not None and course.may_have_happened(record):
                    self._undo(undo, record)
                    undone.append(record.id)
        finally:
            driving.shielded -= 1
        return undone

    def _settle_left(self, branch: str, keep: frozenset[int]) -> None:
        """What was interrupted in this branch, or below it, is settled before anything is undone."""
        driving = self._driving
        for record in driving.caller.read(ledger.effects, driving.stream, after=driving.cut_seq, open_only=True):
            mine = record.place is not None and places.is_below(record.place, branch) and record.undoes is None
            if (
                mine
                and record.seq not in keep
                and record.state is EffectState.IN_DOUBT
                and record.tool in driving.tools
            ):
                self._concluded(driving.tools[record.tool], record)

    def _undo(self, undo: Tool, record: EffectRecord) -> None:
        try:
            self._act(undo, course.undo_args(undo, record), undoes=record)
        except Failed as error:
            self._driving.stopped = Parked(
                f"{record.tool} could not be undone: {error.message}", path=record.id,
                hint="undo it by hand or mend what failed, then `perdure retry` the run", **error.facts,
            )  # fmt: skip
            raise self._driving.stopped from error
        self._driving.done.pop(record.seq, None)

    # -- waiting ---------------------------------------------------------------------------------------------------------------

    def ask(
        self,
        question: str,
        *,
        choices: list[str] | tuple[str, ...] | None = None,
        timeout: Duration | None = None,
        default: Any = None,
        detail: Any = None,
    ) -> Any:
        """Ask a person, and wait for the answer: days, restarts and deploys included. After `timeout`: the default."""
        doc = waits.ask_document(question, choices, default, detail)
        if choices and timeout is not None and default is not None and default not in choices:
            raise Invalid(f"{default!r} is none of the choices", path="default")
        mark = digest(doc, "ask").hex()
        return self._met(self._opened(WaitKind.ASK, "", doc, mark, timeout))

    def sleep(self, duration: Duration) -> None:
        """Wait for some time, on the store's clock; the run is not held meanwhile."""
        self._met(self._opened(WaitKind.SLEEP, "", {}, digest(str(duration), "sleep").hex(), duration))

    def wait(self, name: str, *, timeout: Duration | None = None, default: Any = ...) -> Any:
        """Wait for a signal of this name; its payload is returned. After `timeout`: the default, or TimedOut if there is none."""
        check_name(name, "signal")
        place, found = self._arrive("signal", name, mark := digest(["signal", name], "wait").hex())
        if found is None:
            found = self._driving.write(waits.open_and_take, name, place, timeout, mark)
        if found.state is WaitState.OPEN:
            found = self._driving.write(waits.take_signal, found.seq, name) or found
        answer = self._met(found)
        if found.state is WaitState.MET:
            return answer
        if default is ...:
            raise TimedOut(f"no signal {name!r} came in time", path="signal")
        return default

    def start(self, agent: Callable[..., Any], *args: Any, **kwargs: Any) -> Child:
        """Start another run of one's own: begun once, whatever crashes. `result` waits for it."""
        made = as_agent(agent)
        made.check(args, kwargs)
        mark = digest_of_parts(agent=made.name, args=list(args), kwargs=kwargs)
        place, found = self._arrive("child", made.name, mark)
        if found is None:
            key = f"{self.id}:{place}"
            wanted = runs.Wanted(
                made.name, list(args), kwargs, key, self.record.session, self.id, made.program, made.timeout
            )
            epoch = self._driving.caller.core.epoch
            found = self._driving.write(waits.start_child, wanted, epoch, place, mark)
        return Child(self, found)

    def call(self, agent: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Start another run and wait for its result."""
        child = self.start(agent, *args, **kwargs)
        return child.result()

    def _opened(
        self, kind: WaitKind, name: str, doc: dict[str, Any], mark: str, timeout: Duration | None
    ) -> WaitRecord:
        place, found = self._arrive(kind.value, name, mark)
        if found is not None:
            return found
        given = {"place": place, "name": name, "doc": doc, "timeout": timeout, "mark": mark}
        return self._driving.write(waits.open_wait, kind, **given)

    def _met(self, found: WaitRecord) -> Any:
        """What a wait gave; the run is suspended while it is open."""
        return (self._ended(found)).answer

    def _ended(self, found: WaitRecord) -> WaitRecord:
        """A wait that is over: met, or expired by now. The run is suspended while it is not."""
        driving = self._driving
        if found.state is WaitState.OPEN and driving.caller.read(waits.is_over, found):
            found = driving.write(waits.expire_if_over, found.seq)
        if found.state is WaitState.OPEN:
            driving.check_going()
            self._suspend(found.kind.value)
        if found.state is WaitState.WITHDRAWN:
            raise Cancelled(f"{found.id} was withdrawn", code="Withdrawn", path=found.id)
        return found

    def _suspend(self, reason: str, wake_us: int | None = None) -> None:
        """Wait until nothing else of this run goes on, then stop it: it is driven anew when what it waits for has come."""
        self._driving.stopped = self._driving.stopped or Suspended(reason, wake_us)
        raise self._driving.stopped

    # -- checkpoints and versions ------------------------------------------------------------------------------------------------

    def checkpoint(self, state: Any, *, now: bool = False) -> bool:
        """Offer a state to go on from: `run.restored` after a crash, and nothing before it is looked at again.

        It is saved when the agent's policy says so, or always if it has none, or `now`. Returns whether it was. Only between
        the branches of a run, and when none of its effects is open.
        """
        driving = self._driving
        if self._here() is not driving.trunk or driving.has_branches:
            raise Refused("a branch cannot cut the run", path="checkpoint", hint="do it after gathering the branches")
        elapsed_us = driving.caller.core.clocks.now() - driving.cut_at_us
        due = driving.agent.policy.is_due(steps=driving.steps, elapsed_us=elapsed_us, effects=driving.effects)
        if driving.journal.replaying or not (now or due):
            return False
        driving.check_going()
        prepared = driving.caller.read(checkpoints.prepare, checkpoints.freeze(state))
        driving.begin_cut(*driving.write(course.cut, prepared, driving.cut_seq, driving.noted()))
        return True

    def patched(self, name: str) -> bool:
        """Whether this run goes the new way: True for runs that reach this place anew, False for those that were past it.

        Lets a changed program go on with old runs: `if run.patched("v2"): … else: …`.
        """
        driving = self._driving
        place = f"{driving.cut}/patch/{check_name(name, 'patch')}"
        if place not in driving.patches:
            recorded = driving.journal.take(place, "step", "run.patched", "") is not None
            driving.patches[place] = recorded or not driving.journal.replaying
            if driving.patches[place] and not recorded:
                driving.write(runs.step, runs.step_document(place, "run.patched", "", None, None, {}))
        return driving.patches[place]

    # -- where ------------------------------------------------------------------------------------------------------------------

    def branch(self, name: str) -> Run:
        """A line of work of its own, known by its name: for threads, and for what is done in no fixed order."""
        return Run(self._driving, self._here().named(name))

    def _arrive(self, what: str, name: str, mark: str) -> tuple[str, Any]:
        """The place of what comes next, and what is recorded there. Nothing new is begun when the run must stop."""
        place, found = self._take(what, name, mark)
        if found is None:
            self._driving.check_going()
        return place, found

    def _take(self, what: str, name: str, mark: str) -> tuple[str, Any]:
        driving = self._driving
        place = self._here().next_place(driving.cut)
        try:
            return place, driving.journal.take(place, what, name, mark)
        except Changed as changed:
            driving.stopped = driving.stopped or changed  # whatever the program makes of it, nothing more is done
            raise

    def _here(self) -> Branch:
        places.refuse_inside()
        return self._branch

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r}, {self.record.agent!r})"


class Saga:
    """What is done inside is undone if it does not come to its end."""

    __slots__ = ("_before", "_run")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._before: frozenset[int] = frozenset()

    def __enter__(self) -> Self:
        self._before = frozenset(self._run._driving.done)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and found_in(error, (Stale, Parked)) is None:
            self._run.undo(self._before)


class Child:
    """A run that this run started."""

    __slots__ = ("_run", "_wait")

    def __init__(self, run: Run, wait: WaitRecord) -> None:
        self._run = run
        self._wait = wait

    @property
    def id(self) -> str:
        """Its name in the store."""
        return self._wait.name

    def result(self) -> Any:
        """What it gave; the parent waits for it. Failed when it failed, and when it was cancelled (`code` says so)."""
        said = self._run._met(self._wait)
        if "error" not in said:
            return said["result"]
        code, message = said["error"]
        raise Failed(message, code=code, path=f"run {self.id}")
