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
from typing import Any

from perdure.effects.ledger import error_of
from perdure.effects.meaning import named_args
from perdure.effects.tool import digest_of_parts
from perdure.errors import Invalid, Refused, TimedOut
from perdure.handles.atomic import Atomic, run_atomic_step
from perdure.handles.sync.outward import Outward
from perdure.model.functions import plain
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
        """The state of the last checkpoint; None if there is none. What came before it is not done again."""
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

    def step(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function that changes nothing outside, and keep what it gives: on replay it is not called again.

        One commit. It may run again after a crash that came before its result was kept. Whatever it raises comes as Failed
        with the exception's name as its `code`, now and at every replay; it is kept when the program goes on after it.
        Raises Refused for a tool that is not `read`, Invalid for what cannot be kept.
        """
        return self._step(self._driving.known(fn), fn, args, kwargs, {})

    def model(self, fn: Callable[..., Any], /, *args: Any, pins: Mapping[str, Any] | None = None, **kwargs: Any) -> Any:
        """A step that calls a model: its input is kept by reference, with its pins and what its answer says of its `usage`.

        `store.run(…).input_of(step)` reads it back. Messages that grow cost what they grow by. A call that failed keeps the
        digest of its input alone.
        """
        return self._step(self._driving.known(fn), fn, args, kwargs, {"model": named_args(pins, "pins")})

    def atomic(self, fn: Callable[[Atomic], Any]) -> Any:
        """Several verbs on sessions and scopes, as `store.atomic`, in the very commit that records them as a step of this run.

        So they land exactly once: `run.atomic(lambda tx: tx.session("a").say("user", "x").seq)`. What it returns is kept:
        plain data, of what a handle gives its `.seq`, `.id` or `.value`. Raises Failed for anything else: nothing is written.
        """
        name = check_name(getattr(fn, "__name__", "atomic"), "step")
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

    def start(self, agent: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Child:
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

    def call(self, agent: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Start another run and wait for its result."""
        child = self.start(agent, *args, **kwargs)
        return child.result()

    # -- checkpoints and versions ----------------------------------------------------------------------------------------------

    def checkpoint(self, state: Any, *, now: bool = False) -> bool:
        """Offer a state to go on from: `run.restored` after a crash, and nothing before it is looked at again.

        It is saved when the agent's policy says so, or always if it has none, or `now`. Returns whether it was. Only between
        the branches of a run, outside its sagas, and when none of its effects and children is open: a policy then waits for
        another offer, any other is Refused.
        """
        driving = self._driving
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
        return course.told_of(self.id, self._run._met(self._wait), self._wait.place)
