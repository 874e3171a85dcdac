"""The branch of a run that the running code is in: the trunk, a task of an async program, or none inside a step or a tool.

`gather` and `TaskGroup` make tasks, and a task factory numbers those that are made inside a run. Inside steps and tools there is
no branch: they are not run on replay, so what they start must not count. Sync agents name their branches. A run keeps the
numbering that `run.started` says (docs/decisions/0141). Callers: the shells, what calls users' functions, and the handles.
Keeps P13.
"""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from perdure.errors import Failed, Refused
from perdure.runtime import log_context
from perdure.runtime.journal import Branch

if TYPE_CHECKING:
    import asyncio

MAKES_A_TASK = sys.version_info < (3, 12)  # whether this Python's `wait_for` does
FirstRecords = Callable[[str, str], tuple[float, float]]  # `Journal.first_records`

# None: inside a step or tool.
_current: contextvars.ContextVar[Branch | None] = contextvars.ContextVar("perdure_branch")


def current(trunk: Branch) -> Branch:
    """The branch that this code is in. Refused inside a step or a tool of the run, and in tasks from elsewhere."""
    branch = _current.get(None)
    if branch is None or branch.trunk is not trunk:
        raise _no_branch_here()
    return branch if branch.wait_for_branches is None else branch.wait_for_branches.branch_here(branch)


def lines_here(branch: Branch) -> frozenset[str]:
    """The lines of work that stop while this code waits in a verb of a branch: that branch, and the one of the running task if
    that uses a named one.
    """
    running = _current.get(None)
    return frozenset({branch.path}) if running is None else frozenset({branch.path, running.path})


def refuse_inside() -> None:
    """Refuse to use a run inside one of its own steps and tools: for code that may be in any thread."""
    if _current.get(...) is None:
        raise _no_branch_here()


def is_inside_a_step() -> bool:
    """Whether this code is in a step or a tool of a run: in no branch of it."""
    return _current.get(...) is None


def _no_branch_here() -> Refused:
    return Refused(
        "a run is used only by its agent, not inside its steps and tools", path="run",
        hint="do it in the agent's function, before or after the step",
    )  # fmt: skip


@contextmanager
def in_branch(branch: Branch | None) -> Iterator[None]:
    """Be in a branch; None: in no branch at all."""
    token = enter(branch)
    try:
        yield
    finally:
        leave(token)


enter = _current.set  # the two halves of it, for where a step costs microseconds
leave = _current.reset


def numbering_factory(before: Callable[..., Any] | None) -> Callable[..., Any]:
    """A task factory that gives each task made inside a run a branch of its own; other tasks are made as before."""

    def factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        from asyncio import Task  # noqa: PLC0415 - only async agents pay for asyncio

        branch = _current.get(None)
        if branch is None:
            return Task(coro, loop=loop, **options) if before is None else before(loop, coro, **options)
        if _is_as_completed():
            coro.close()
            raise _unordered()
        old_numbering = branch.wait_for_branches
        branch = branch if old_numbering is None else old_numbering.branch_here(branch)
        in_place = _is_wait_for(sys._getframe(1)) and not (old_numbering and old_numbering.makes_branch(branch))
        task_branch = branch if in_place else branch.child()
        context = options.pop("context", None) or contextvars.copy_context()
        context.run(_current.set, task_branch)
        options["context"] = context
        coro = _failed_if_exited(coro) if branch.driven_by_worker else coro
        task = Task(coro, loop=loop, **options) if before is None else before(loop, coro, **options)
        if in_place:
            branch.track_part(task)
        else:
            branch.track(task, task_branch.path)
        log_context.note(task)
        return task

    factory.numbers_branches = True  # type: ignore[attr-defined]
    return factory


MAKES_TASKS = frozenset({"create_task", "ensure_future", "_ensure_future"})


def _is_wait_for(frame: FrameType | None) -> bool:
    """Whether it is asyncio.wait_for itself that makes a task, seen from what the task factory was called by."""
    while frame is not None and frame.f_code.co_name in MAKES_TASKS and _is_of_asyncio(frame):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_name == "wait_for" and _is_of_asyncio(frame)


def _is_of_asyncio(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("asyncio.")


def _is_as_completed() -> bool:
    """Whether it is asyncio.as_completed that makes a task of a bare coroutine: it puts them into a set first."""
    frame = sys._getframe(2)  # the caller of the factory
    while frame is not None and _is_of_asyncio(frame):
        if frame.f_code.co_qualname.startswith(("as_completed", "_AsCompletedIterator")):
            return True
        frame = frame.f_back
    return False


def _unordered() -> Refused:
    return Refused(
        "asyncio.as_completed begins bare coroutines in no fixed order: a replay would not know which is which", path="run",
        hint="make tasks of them first, in order: [asyncio.create_task(each) for each in …]; and do not act in the order in "
        "which they finish: asyncio.gather gives their results in yours",
    )  # fmt: skip


async def _failed_if_exited(coro: Any) -> Any:
    """Await a branch. A SystemExit of it becomes Failed: in a task it would end the event loop, and with it the worker."""
    try:
        return await coro
    except SystemExit as error:
        raise Failed(f"a branch of it exited with {error.code}", code="SystemExit", path="run") from error


def number_branches(loop: asyncio.AbstractEventLoop) -> None:
    """Let tasks of this event loop be numbered. Calling it again does nothing; tasks outside runs are not touched."""
    before = loop.get_task_factory()
    if not getattr(before, "numbers_branches", False):
        loop.set_task_factory(numbering_factory(before))


# -- runs whose record does not say how their branches are numbered --------------------------------------------------------------
#
# Python 3.11 makes a task of what `wait_for` waits for, and so did the run's numbering; later Pythons wait in place. Such a run
# keeps the numbering that its records show: whichever came first, the record in the next branch or the one at the next place.
# Where nothing is recorded it is that of the present Python. Newer runs count `wait_for` as a part of its caller's branch.


class WaitForBranches:
    """Which calls of `wait_for` are branches of their own, in one drive of a run."""

    __slots__ = ("_branches", "_first_records")

    def __init__(self, first_records: FirstRecords) -> None:
        self._first_records = first_records
        self._branches: dict[FrameType, Branch] = {}  # kept with its frame, which is known by its identity

    def makes_branch(self, branch: Branch) -> bool:
        """Whether the task that `wait_for` makes now is a branch. Later Pythons make one only to cancel it at once."""
        return not MAKES_A_TASK or self._is_branch(branch)

    def _is_branch(self, branch: Branch) -> bool:
        at_place, in_branch = self._first_records(*branch.following)
        return MAKES_A_TASK if at_place == in_branch else in_branch < at_place

    def branch_here(self, branch: Branch) -> Branch:
        """The branch of the running code: that of its task, or of a `wait_for` in it that has none of its own in this Python."""
        if MAKES_A_TASK:
            return branch
        for frame in reversed([*_calls_of_wait_for()]):
            if frame not in self._branches:
                self._branches[frame] = branch.child() if self._is_branch(branch) else branch
            branch = self._branches[frame]
        return branch


def _calls_of_wait_for() -> Iterator[FrameType]:
    """The calls of `wait_for` around the running code, in its task, the innermost first."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") != "asyncio.events":
        if _is_wait_for(frame) and frame.f_locals.get("timeout") is not None:
            yield frame
        frame = frame.f_back
