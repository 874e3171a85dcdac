# Generated from handles/aio/run.py by tools/unasync.py: edit that one.
"""The run, as the function of an agent gets it. Everything that the agent does through it is recorded at its place, and done
once.

Thin: each verb checks its arguments and runs a generator of `RunEngine` through the shell of the run. See docs/decisions/0007 and
0166.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Concatenate, Generic, Self, overload

from perdure.effects.step_functions import StepFunction
from perdure.effects.tool import as_tool
from perdure.errors import Invalid, TimedOut
from perdure.handles.atomic import Atomic, Done, run_atomic_step
from perdure.handles.run_facts import DrivenFacts
from perdure.model.functions import Coro, P, R, R_co, named_args, plain
from perdure.model.instants import to_datetime
from perdure.model.limits import check_name, check_question
from perdure.model.records.effects import Reply
from perdure.model.records.runs import WaitRecord, WaitState
from perdure.planes.execution import waits
from perdure.planes.reading.durations import Duration
from perdure.planes.subjects import named
from perdure.runtime import current_branch
from perdure.runtime.agent import as_agent
from perdure.runtime.journal import Branch, BranchPoint, child_result, effect_result
from perdure.runtime.run_engine import RunEngine
from perdure.runtime.shells import RunShell


class Run(DrivenFacts):
    """A run, as its agent sees it. Code between its verbs must do the same at every replay; everything else goes into a step."""

    __slots__ = ("_branch", "_engine", "_shell")

    def __init__(self, shell: RunShell, engine: RunEngine, branch: Branch) -> None:
        self._shell = shell
        self._engine = engine
        self._branch = branch

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
        """Call a function that changes nothing in the outside world, and keep its result: on replay it is not called again.

        One commit. The function may run again after a crash that came before its result was kept. An exception is raised as
        Failed with its name as `code`, now and at every replay; it is kept when the program continues after it.
        timeout: of one attempt; after it, Failed with the code `Overdue`. A coroutine is then cancelled; a sync function is
            left behind in its thread and its result is dropped.
        retries: how often it is tried again, with growing pauses, unless it raised Failed. Attempts are not recorded.

        Both default to the declaration of a `read` tool. Raises Refused for a tool that is not `read`, Invalid for a result
        that cannot be kept.
        """
        called = self._engine.step_function(fn, timeout, retries)
        return self._shell.run(self._engine.do_step(self._here(), called, args, kwargs, {}))

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
        """Call a model, as a step whose input is kept by reference, with its pins and the `usage` in its answer.

        `store.run(…).input_of(step)` reads the input back. Messages that grow cost only their growth. A call that failed keeps
        only the digest of its input.
        timeout, retries: as for `step`.
        """
        called, notes = self._engine.step_function(fn, timeout, retries), {"model": named_args(pins, "pins")}
        return self._shell.run(self._engine.do_step(self._here(), called, args, kwargs, notes))

    def atomic(self, fn: Callable[[Atomic], R]) -> R:
        """Write to sessions and scopes, as `store.atomic`, in the very commit that records it as a step of this run.

        So the writes land exactly once: `run.atomic(lambda tx: tx.session("a").say("user", "x").seq)`. The result is
        kept, and so must be plain data: return the `.seq`, `.id` or `.value` of a handle. Raises Failed for anything else;
        nothing is written then.
        """
        name = check_name(getattr(fn, "__name__", "atomic"), "step")
        about = (run_atomic_step, plain(fn, "fn"), self._shell.caller)
        done = self._shell.run(self._engine.do_atomic(self._here(), name, *about))
        if not isinstance(done, Done):
            return done  # as it was recorded
        done.held_back.tell()
        return done.result

    def now(self) -> datetime:
        """Return the time at which this place was first reached: the same at every replay."""
        clock = StepFunction(self._engine.core.clocks.now, "run.now", is_async=False)
        return to_datetime(self._shell.run(self._engine.do_step(self._here(), clock, (), {}, {})))

    # -- what is done outside ------------------------------------------------------------------------------------------------

    @overload
    def act(
        self, tool: Callable[..., Coro[R]], /, *args: Any, approve: str | None, approve_within: Duration | None = None,
        about: Iterable[str] = (), **kwargs: Any,
    ) -> R: ...  # fmt: skip
    @overload
    def act(
        self, tool: Callable[..., R], /, *args: Any, approve: str | None, approve_within: Duration | None = None,
        about: Iterable[str] = (), **kwargs: Any,
    ) -> R: ...  # fmt: skip
    @overload
    def act(self, tool: Callable[..., Coro[R]], /, *args: Any, about: Iterable[str], **kwargs: Any) -> R: ...
    @overload
    def act(self, tool: Callable[..., R], /, *args: Any, about: Iterable[str], **kwargs: Any) -> R: ...
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
        about: Iterable[str] = (),
        **kwargs: Any,
    ) -> Any:
        """Call an external system once, whatever crashes: save the intent, call the tool, save its result. Returns the result.

        Doubt is settled by the tool's rule (docs/tools.md); where that needs a person, the run waits.
        approve: ask a person this question first. The answer binds to this very call.
        approve_within: without an answer by then, the answer is no.
        about: subjects of the effect, besides those of the run.

        Raises Failed when it is known not to have happened.
        """
        found = as_tool(tool)
        found.check_free(approve=approve, approve_within=approve_within, about=about or None)
        if approve is not None:
            check_question(approve, "approve")
        arguments = found.bind(args, kwargs)
        acting = self._engine.do_effect(self._here(), found, arguments, approve, approve_within, named(about))
        return effect_result(self._shell.run(acting))

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
        """Call a model as `model` does, and carry out the calls in its answer, in order and each once.

        The answer has `calls`: a list of `Call`, or of mappings with id, tool and args. It lands with all of them planned, and
        each result with the next dispatch: N effects take N + 1 commits. A call that fails, is refused, or fits no tool has an
        error for its answer, and the others continue. Tools that only read are steps.
        timeout, retries: of the model's call, as for `step`.

        Raises Invalid if `calls` is no such list, or a call has no id of its own; nothing is sent then.
        """
        model, noted = self._engine.step_function(fn, timeout, retries), named_args(pins, "pins")
        responding = self._engine.run_model_batch(self._here(), model, args, kwargs, tools, noted)
        return self._shell.run(responding)

    def saga(self) -> Saga:
        """Undo everything inside, newest first, if the block fails or is cancelled: `with run.saga(): …`.

        The block covers the effects of this line of work, and of those that begin inside it. A line of work that began before
        is not covered.
        """
        return Saga(self)

    def undo(self) -> list[str]:
        """Undo what this line of work, and those that left it, did since the last checkpoint, newest first. Returns what was
        undone.

        Each undo is an effect of its own; effects without an undo are left. Effects in doubt are waited for, and an attempt
        that was given up has its time to arrive. Raises Parked when an undo fails: its effect stays `undoing`.
        """
        here = self._here()
        return self._shell.run(self._engine.undo_effects_since(here, BranchPoint(here.path), sys.exception()))

    # -- waiting ---------------------------------------------------------------------------------------------------------------

    def ask(
        self,
        question: str,
        *,
        choices: list[str] | tuple[str, ...] | None = None,
        timeout: Duration | None = None,
        default: Any = ...,
        detail: Any = None,
        about: Iterable[str] = (),
    ) -> Any:
        """Ask a person, and wait for the answer as long as it takes, restarts and deploys included. Returns the answer.

        timeout: after it, the default is returned, or TimedOut raised if there is none.
        about: subjects of the question and its answer.
        """
        given = None if default is ... else default
        doc = waits.ask_document(question, choices, given, detail)
        if choices and timeout is not None and given is not None and given not in choices:
            raise Invalid(f"{given!r} is none of the choices", path="default")
        found = self._shell.run(self._engine.ask_person(self._here(), doc, timeout, named(about)))
        if found.state is WaitState.EXPIRED and default is ...:
            raise TimedOut(f"nobody answered {question!r} in time", path="ask")
        return found.answer

    def sleep(self, duration: Duration) -> None:
        """Wait for some time, on the store's clock. No process holds the run meanwhile."""
        self._shell.run(self._engine.sleep(self._here(), duration))

    def wait(self, name: str, *, timeout: Duration | None = None, default: Any = ...) -> Any:
        """Wait for a signal of this name, and return its payload. After `timeout`: the default, or TimedOut if there is none."""
        check_name(name, "signal")
        return self._shell.run(self._engine.wait_for_signal(self._here(), name, timeout, default))

    @overload
    def start(
        self, agent: Callable[Concatenate[Any, P], Coro[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Child[R]: ...
    @overload
    def start(self, agent: Callable[Concatenate[Any, P], R], /, *args: P.args, **kwargs: P.kwargs) -> Child[R]: ...
    @overload
    def start(self, agent: Callable[..., Coro[R]], /, *args: Any, about: Iterable[str], **kwargs: Any) -> Child[R]: ...
    @overload
    def start(self, agent: Callable[..., R], /, *args: Any, about: Iterable[str], **kwargs: Any) -> Child[R]: ...
    def start(self, agent: Callable[..., Any], /, *args: Any, about: Iterable[str] = (), **kwargs: Any) -> Child[Any]:
        """Start another run as a child of this one. It begins once, whatever crashes; `result` waits for it.

        about: subjects of the child, besides those of this run.
        """
        made = as_agent(agent)
        made.check(args, kwargs, about=about or None)
        starting = self._engine.start_child(self._here(), made, args, kwargs, named(about))
        return Child(self, self._shell.run(starting))

    @overload
    def call(self, agent: Callable[Concatenate[Any, P], Coro[R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def call(self, agent: Callable[Concatenate[Any, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def call(self, agent: Callable[..., Coro[R]], /, *args: Any, about: Iterable[str], **kwargs: Any) -> R: ...
    @overload
    def call(self, agent: Callable[..., R], /, *args: Any, about: Iterable[str], **kwargs: Any) -> R: ...
    def call(self, agent: Callable[..., Any], /, *args: Any, about: Iterable[str] = (), **kwargs: Any) -> Any:
        """Start another run and wait for its result. about: as for `start`."""
        child = self.start(agent, *args, about=about, **kwargs)
        return child.result()

    # -- checkpoints and versions ----------------------------------------------------------------------------------------------

    def add_subjects(self, *subjects: str) -> tuple[str, ...]:
        """Say that the whole run, everything in it and the runs that it started are about these persons or things.

        Returns all of its subjects. Idempotent, and so safe at every replay.
        """
        return self._shell.run(self._engine.add_subjects(named(subjects)))

    def checkpoint(self, state: Any, *, now: bool = False, about: Iterable[str] = ()) -> bool:
        """Offer a state to continue from. After a crash it is `run.restored`, and nothing before it is replayed.

        It is saved when the agent's policy says so, always if there is no policy, or with `now`. Returns whether it was saved.
        It can be saved only between the branches of a run, outside its sagas, and when none of its effects and children is
        open: a policy then waits for the next offer, and any other offer is Refused. An agent that acted before it read
        `run.restored` is Refused too: after a crash it would repeat what came before the checkpoint. Steps alone may come
        first.
        about: its subjects, besides those of everything in the run.
        """
        return self._shell.run(self._engine.save_checkpoint(self._here(), state, now=now, about=named(about)))

    def patched(self, name: str) -> bool:
        """Whether this run takes the new way: True for runs that reach this place for the first time, False for those that were
        past it.

        Lets a changed program continue old runs: `if run.patched("v2"): … else: …`.
        """
        return self._shell.run(self._engine.is_patched(name))

    def branch(self, name: str) -> Run:
        """Return a line of work of its own, identified by its name: for threads, and for work in no fixed order."""
        return Run(self._shell, self._engine, self._here().named(name))

    def _here(self) -> Branch:
        """The branch that this code is in. Refused inside a step or a tool of the run."""
        current_branch.refuse_inside()
        return self._branch


class Saga:
    """A block whose effects are undone if it does not come to its end."""

    __slots__ = ("_branch", "_mark", "_run")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._branch = run._branch
        self._mark = BranchPoint()

    def __enter__(self) -> Self:
        engine = self._run._engine
        self._branch = self._run._here()
        self._mark = self._branch.mark(engine.replay.cut)
        self._branch.sagas = (*self._branch.sagas, f"{self._mark.path}/{self._mark.ordinal}")
        engine.sagas.open += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run = self._run
        self._branch.sagas = self._branch.sagas[:-1]
        leaving = run._engine.leave_saga(self._branch, self._mark, error)
        run._shell.run(leaving)


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
        """Return its result; the parent waits for it. Raises Failed when it failed or was cancelled (`code` says which)."""
        run = self._run
        ended = run._shell.run(run._engine.wait_until_over(run._here(), self._wait))
        return child_result(self.id, ended.answer, self._wait.place)
