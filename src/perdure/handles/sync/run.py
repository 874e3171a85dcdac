# Generated from handles/aio/run.py by tools/unasync.py: edit that one.
"""What an agent's function gets: the run. Everything that it does through it is recorded at its place, and done once.

Each verb first looks into the journal at its place: what is recorded there is returned, and the first thing that is not is done
and recorded. See docs/decisions/0007.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Concatenate, Generic, overload

from perdure.effects.ledger import error_of
from perdure.effects.meaning import named_args
from perdure.effects.tool import digest_of_parts
from perdure.errors import Invalid, Refused, TimedOut
from perdure.handles.atomic import Atomic, run_atomic_step
from perdure.handles.sync.outward import Outward
from perdure.model.functions import Coro, P, R, R_co, plain
from perdure.model.instants import duration_us, to_datetime
from perdure.model.limits import check_name
from perdure.model.records.runs import RunRecord, WaitKind, WaitRecord, WaitState
from perdure.model.values import digest
from perdure.planes import checkpoints, runs, steps, waits
from perdure.planes.spans import Duration
from perdure.runtime import course
from perdure.runtime.agent import Policy, as_agent
from perdure.runtime.journal import Known
from perdure.runtime.pausing import TROUBLES

NOW = Known("run.now", is_async=False)


class Run(Outward):
    """A run, as its agent sees it. Deterministic code goes between its verbs; whatever is not goes into a step."""

    __slots__ = ()

    @property
    def record(self) -> RunRecord:
        """How it stood when it was taken."""
        return self._driving.record

    @property
    def restored(self) -> Any:
        """The state of the last checkpoint; None if there is none. An agent that makes checkpoints looks here first.

        What came before the checkpoint is not done again, because the agent does not do it again: it begins from this state.
        """
        return self._driving.restored

    @property
    def token(self) -> int:
        """The fencing token of this lease: pass it on to what must be protected from an earlier one."""
        return self._driving.lease.token

    @property
    def replaying(self) -> bool:
        """Whether things that were recorded are still ahead."""
        return self._driving.replaying

    # -- steps -----------------------------------------------------------------------------------------------------------------

    @overload
    def step(
        self, fn: Callable[..., Coro[R]], /, *args: Any, timeout: Duration | None, retries: int | None = None, **kwargs:
        Any,
    ) -> R: ...  # fmt: skip
    @overload
    def step(
        self, fn: Callable[..., R], /, *args: Any, timeout: Duration | None, retries: int | None = None, **kwargs: Any
    ) -> R: ...
    @overload
    def step(self, fn: Callable[..., Coro[R]], /, *args: Any, retries: int | None, **kwargs: Any) -> R: ...
    @overload
    def step(self, fn: Callable[..., R], /, *args: Any, retries: int | None, **kwargs: Any) -> R: ...
    @overload
    def step(self, fn: Callable[P, Coro[R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def step(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def step(
        self,
        fn: Callable[..., Any],
        /,
        *args: Any,
        timeout: Duration | None = None,
        retries: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call a function that changes nothing outside, and keep what it gives: on replay it is not called again.

        One commit. It may run again after a crash that came before its result was kept. Whatever it raises comes as Failed
        with the exception's name as its `code`, now and at every replay; it is kept when the program goes on after it.
        Raises Refused for a tool that is not `read`, Invalid for what cannot be kept.

        timeout: of one attempt; Failed with the code `Overdue` after it. A coroutine is cancelled then, a sync function is left
        behind in its thread and what it gives is dropped. retries: how often it is tried again, with pauses that grow, unless it
        raised Failed; attempts are not recorded. Both default to what a `read` tool declares.
        """
        return self._step(self._known(fn, timeout, retries), fn, args, kwargs, {})

    @overload
    def model(
        self, fn: Callable[..., Coro[R]], /, *args: Any, pins: Mapping[str, Any] | None, timeout: Duration | None =
        None, retries: int | None = None, **kwargs: Any,
    ) -> R: ...  # fmt: skip
    @overload
    def model(
        self, fn: Callable[..., R], /, *args: Any, pins: Mapping[str, Any] | None, timeout: Duration | None = None,
        retries: int | None = None, **kwargs: Any,
    ) -> R: ...  # fmt: skip
    @overload
    def model(
        self, fn: Callable[..., Coro[R]], /, *args: Any, timeout: Duration | None, retries: int | None = None, **kwargs:
        Any,
    ) -> R: ...  # fmt: skip
    @overload
    def model(
        self, fn: Callable[..., R], /, *args: Any, timeout: Duration | None, retries: int | None = None, **kwargs: Any
    ) -> R: ...
    @overload
    def model(self, fn: Callable[..., Coro[R]], /, *args: Any, retries: int | None, **kwargs: Any) -> R: ...
    @overload
    def model(self, fn: Callable[..., R], /, *args: Any, retries: int | None, **kwargs: Any) -> R: ...
    @overload
    def model(self, fn: Callable[P, Coro[R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def model(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def model(
        self,
        fn: Callable[..., Any],
        /,
        *args: Any,
        pins: Mapping[str, Any] | None = None,
        timeout: Duration | None = None,
        retries: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """A step that calls a model: its input is kept by reference, with its pins and what its answer says of its `usage`.

        `store.run(…).input_of(step)` reads it back. Messages that grow cost what they grow by. A call that failed keeps the
        digest of its input alone. timeout, retries: as for `step`.
        """
        known = self._known(fn, timeout, retries)
        return self._step(known, fn, args, kwargs, {"model": named_args(pins, "pins")})

    def atomic(self, fn: Callable[[Atomic], R]) -> R:
        """Several verbs on sessions and scopes, as `store.atomic`, in the very commit that records them as a step of this run.

        So they land exactly once: `run.atomic(lambda tx: tx.session("a").say("user", "x").seq)`. What it returns is kept:
        plain data, of what a handle gives its `.seq`, `.id` or `.value`. Raises Failed for anything else: nothing is written.
        """
        name = check_name(getattr(fn, "__name__", "atomic"), "step")
        if self._driving.unread:
            self._driving.check_unread(f"atomic {name}")
        place, found = self._arrive("step", name, "")
        driving = self._driving
        driving.steps += 1
        if found is not None:
            return course.replayed(found)
        self._check_real(f"write to sessions ({name})")
        try:
            done = driving.write(run_atomic_step, plain(fn, "fn"), driving.caller, place, name)
        except TROUBLES:
            raise
        except Exception as error:
            said = error_of(error)
            driving.keep_error(steps.document(place, name, "", None, said, {}))
            raise course.failed_step(place, name, said) from error
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
        # Which draws what the other run drew: or it would go another way before the place.
        what_if = self.record.what_if
        uid = self._driving.stream.uid if what_if is None else bytes.fromhex(what_if.uid)
        return hashlib.sha256(b"perdure run random\0" + uid + place.encode()).digest()

    # -- waiting ---------------------------------------------------------------------------------------------------------------

    def ask(
        self,
        question: str,
        *,
        choices: list[str] | tuple[str, ...] | None = None,
        timeout: Duration | None = None,
        default: Any = ...,
        detail: Any = None,
    ) -> Any:
        """Ask a person, and wait for the answer for as long as it takes, restarts and deploys included.

        After `timeout`: the default, or TimedOut if there is none.
        """
        given = None if default is ... else default
        doc = waits.ask_document(question, choices, given, detail)
        if choices and timeout is not None and given is not None and given not in choices:
            raise Invalid(f"{given!r} is none of the choices", path="default")
        mark = digest(doc, "ask").hex()
        found = self._ended(self._opened(WaitKind.ASK, "", doc, mark, timeout))
        if found.state is WaitState.EXPIRED and default is ...:
            raise TimedOut(f"nobody answered {question!r} in time", path="ask")
        return found.answer

    def sleep(self, duration: Duration) -> None:
        """Wait for some time, on the store's clock; the run is not held meanwhile."""
        duration_us(duration, "duration")  # None would be for ever: nobody could wake it
        self._met(self._opened(WaitKind.SLEEP, "", {}, digest(str(duration), "sleep").hex(), duration))

    def wait(self, name: str, *, timeout: Duration | None = None, default: Any = ...) -> Any:
        """Wait for a signal of this name; its payload is returned. After `timeout`: the default, or TimedOut if there is none."""
        check_name(name, "signal")
        place, found = self._arrive("signal", name, mark := digest(["signal", name], "wait").hex())
        driving = self._driving
        alone = self._here() is driving.trunk  # a branch may be stopped because another one got its signal
        if found is None:
            begin = waits.open_and_take if alone else waits.open_for_signal
            found = driving.write(begin, name, place, timeout, mark)
        if found.state is WaitState.OPEN:
            taken = driving.write(waits.take_signal, found.seq, name) if alone else driving.take_signal(found.seq, name)
            found = taken or found
        answer = self._met(found)
        if found.state is WaitState.MET:
            return answer
        if default is ...:
            raise TimedOut(f"no signal {name!r} came in time", path="signal")
        return default

    @overload
    def start(
        self, agent: Callable[Concatenate[Any, P], Coro[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Child[R]: ...
    @overload
    def start(self, agent: Callable[Concatenate[Any, P], R], /, *args: P.args, **kwargs: P.kwargs) -> Child[R]: ...
    def start(self, agent: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Child[Any]:
        """Start another run of one's own: begun once, whatever crashes. `result` waits for it."""
        made = as_agent(agent)
        made.check(args, kwargs)
        mark = digest_of_parts(agent=made.name, args=list(args), kwargs=kwargs)
        place, found = self._arrive("child", made.name, mark)
        if found is None:
            self._check_real(f"start {made.name}")
            key = f"{self.id}:{place}"
            wanted = runs.Wanted(
                made.name, list(args), kwargs, key, self.record.session, self.id, made.program, made.timeout
            )
            epoch = self._driving.caller.core.epoch
            found = self._driving.write(waits.start_child, wanted, epoch, place, mark)
        return Child(self, found)

    @overload
    def call(self, agent: Callable[Concatenate[Any, P], Coro[R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def call(self, agent: Callable[Concatenate[Any, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def call(self, agent: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Start another run and wait for its result."""
        child = self.start(agent, *args, **kwargs)
        return child.result()

    # -- checkpoints and versions ----------------------------------------------------------------------------------------------

    def checkpoint(self, state: Any, *, now: bool = False) -> bool:
        """Offer a state to go on from: `run.restored` after a crash, and nothing before it is looked at again.

        It is saved when the agent's policy says so, or always if it has none, or `now`. Returns whether it was. Only between
        the branches of a run, outside its sagas, and when none of its effects and children is open: a policy then waits for
        another offer, any other is Refused. So is an agent that did not read `run.restored` before it did anything but steps:
        after a crash it would repeat what came before the checkpoint.
        """
        driving = self._driving
        driving.hold_up()
        if driving.unread or driving.read_late:
            raise course.saves_unread("" if driving.unread else driving.read_late)
        if driving.sagas:
            raise Refused("a checkpoint would lose sight of what a saga may have to undo", path="checkpoint",
                          hint="do it before or after the saga")  # fmt: skip
        if self._here() is not driving.trunk or driving.has_branches:
            raise Refused("a branch cannot cut the run", path="checkpoint", hint="do it after gathering the branches")
        policy, replaying = driving.agent.policy, driving.replaying
        elapsed_us = 0 if replaying else driving.caller.core.clocks.now() - driving.cut_at_us
        if not (now or policy.is_due(steps=driving.steps, elapsed_us=elapsed_us, effects=driving.effects)):
            return False
        frozen = checkpoints.freeze(state)  # at a replay too: what was refused then is refused again
        if replaying:
            return False
        driving.check_going()
        self._undo_left()
        by_policy = not now and policy != Policy()
        if by_policy and driving.read(course.left_open, driving.stream, driving.cut_seq):
            return False
        prepared = driving.read(checkpoints.prepare, frozen)
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
            driving.patches[place] = recorded or not driving.replaying
            if driving.patches[place] and not recorded:
                driving.write(steps.done, steps.document(place, "run.patched", "", None, None, {}))
        return driving.patches[place]

    def branch(self, name: str) -> Run:
        """A line of work of its own, known by its name: for threads, and for what is done in no fixed order."""
        return Run(self._driving, self._here().named(name))


class Child(Generic[R_co]):
    """A run that this run started."""

    __slots__ = ("_run", "_wait")

    def __init__(self, run: Run, wait: WaitRecord) -> None:
        self._run = run
        self._wait = wait

    @property
    def id(self) -> str:
        """Its name in the store."""
        return self._wait.name

    def result(self) -> R_co:
        """What it gave; the parent waits for it. Failed when it failed, and when it was cancelled (`code` says so)."""
        return course.told_of(self.id, self._run._met(self._wait), self._wait.place)
