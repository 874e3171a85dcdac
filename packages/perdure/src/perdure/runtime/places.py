"""Places: where in a run something stands, the same at every replay (docs/decisions/0007).

A place is (cut, branch, ordinal). A branch is known by the order in which it was created: `gather` and `TaskGroup` make tasks,
and a task factory numbers those that are made inside a run. Inside steps and tools there is no branch: they are not run on
replay, so what they start must not count. Sync agents name their branches. A run keeps the numbering that `run.started` says
(docs/decisions/0141). Callers: the driving of runs.
"""

from __future__ import annotations

import contextvars
import re
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.effects.commands import Ending
from perdure.errors import Failed, Refused
from perdure.model.limits import check_name
from perdure.runtime import log_context
from perdure.runtime.stopping import Leaving, Suspended

if TYPE_CHECKING:
    import asyncio

    from perdure.runtime.wait_for_branches import Wraps

AFTERWARDS = "left"  # the branch of what is undone of sagas that were left behind: the same however far each had come

# None: inside a step or tool.
_current: contextvars.ContextVar[Branch | None] = contextvars.ContextVar("perdure_branch")


class Branch:
    """One line of work in a run: it counts what is done in it, and the branches that leave it."""

    __slots__ = (
        "_children",
        "_cut",
        "_named",
        "_ordinal",
        "begun",
        "ended",
        "hired",
        "interrupted",
        "parts",
        "path",
        "sagas",
        "tasks",
        "trunk",
        "unfinished",
        "wraps",
    )

    def __init__(self, path: str = "", trunk: Branch | None = None, *, hired: bool = False) -> None:
        self.path = path
        self.trunk = trunk or self
        self.hired = hired if trunk is None else trunk.hired  # a worker drives the run
        self.interrupted = ""  # the place of a verb that was stopped in the middle: a replay would give what it gives
        self._ordinal = 0
        self._children = 0
        self._named: set[str] = set()
        self.sagas: tuple[str, ...] = ()  # those that its work is in, as its records say it, the outermost first
        # Of a run whose record does not say how branches are numbered: whether `wait_for` makes one (see `wait_for_branches`).
        self.wraps: Wraps | None = None if trunk is None else trunk.wraps
        # Of the whole run, each with its branch:
        self.tasks: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary() if trunk is None else trunk.tasks
        # Those that are no branch of their own: `asyncio.wait_for` makes one in some Pythons.
        self.parts: weakref.WeakSet[Any] = weakref.WeakSet() if trunk is None else trunk.parts
        self._cut: int | None = None  # in which it counts
        self.begun: set[str] = set() if trunk is None else trunk.begun  # branches of the whole run, in this drive
        # Of the whole run: branches whose tasks have not come to their own end, because they are at work or were cancelled.
        self.unfinished: set[str] = set() if trunk is None else trunk.unfinished
        self.ended: set[str] = set() if trunk is None else trunk.ended  # likewise: those that came to their own end

    def next_place(self, cut: int) -> str:
        """The place of what is done next. After a cut it counts from the beginning."""
        if cut != self._cut:
            self._count_in(cut)
        self._ordinal += 1
        return f"{cut}/{self.path}/{self._ordinal}"

    def _count_in(self, cut: int) -> None:
        if self._cut is not None and cut != self._cut:
            self.restart()
        self._cut = cut

    def mark(self, cut: int) -> BranchPoint:
        """The present point of the branch. Effects and branches after it can be told from those before."""
        self._count_in(cut)
        return BranchPoint(self.path, self._ordinal, self._children, frozenset(self._named))

    def child(self) -> Branch:
        """The next branch that leaves this one."""
        self._children += 1
        return self._begin(f"{self.path}.{self._children}" if self.path else str(self._children))

    def named(self, name: str) -> Branch:
        """A branch that is known by its name. Refused when it was taken before: two lines of work need two names."""
        check_name(name, "branch")
        if name in self._named:
            raise Refused(f"the branch {name!r} was begun already", path="branch", hint="give each branch its own name")
        self._named.add(name)
        return self._begin(f"{self.path}.{name!r}")

    def _begin(self, path: str) -> Branch:
        self.begun.add(path)
        branch = Branch(path, self.trunk)
        branch.sagas = self.sagas
        return branch

    @property
    def following(self) -> tuple[str, str]:
        """The place and the branch that are next here."""
        number = str(self._children + 1)
        return f"{self._cut or 0}/{self.path}/{self._ordinal + 1}", f"{self.path}.{number}" if self.path else number

    def tasks_since(self, mark: BranchPoint) -> list[Any]:
        """The tasks of the branches that left a branch of this run since it was marked."""
        return [task for task, branch in self.tasks.items() if mark.was_begun_after(branch)]

    def track(self, task: asyncio.Task[Any], path: str) -> None:
        """A task of this run is a branch of it. It is finished when it ends by itself."""
        self.tasks[task] = path
        self.unfinished.add(path)
        task.add_done_callback(lambda done: self._ended(done, path))

    def track_part(self, task: asyncio.Task[Any]) -> None:
        """A task of this run is a part of this branch: it is stopped with it, and its end is not that of the branch."""
        self.tasks[task] = self.path
        self.parts.add(task)

    def note_ends(self) -> None:
        """Note the ends of branches of which asyncio tells in its next turn only."""
        for task, path in [*self.tasks.items()]:
            if path in self.unfinished and task.done() and task not in self.parts:
                self._ended(task, path)

    def _ended(self, done: asyncio.Task[Any], path: str) -> None:
        if done.cancelled() or done.cancelling():  # or it caught that, and ended
            return
        self.unfinished.discard(path)
        self.ended.add(path)
        if isinstance(getattr(done, "_exception", None), (Ending, Leaving, Suspended)):
            done.exception()  # the run's pause or end is no error that the program left unseen: asyncio would print it as one

    def restart(self) -> None:
        """Count from the beginning: after a cut."""
        self._ordinal = self._children = 0
        self._cut = None
        self._named.clear()
        if self.trunk is self:
            self.begun.clear()
            self.ended.clear()


class BranchPoint(NamedTuple):
    """A point in a branch. It is the same at every replay, whatever had finished by then."""

    path: str = ""
    ordinal: int = 0
    children: int = 0
    named: frozenset[str] = frozenset()

    def is_before(self, place: str) -> bool:
        """Whether a place came after this point: in this branch, or in one that left it since."""
        branch, _, ordinal = place.partition("/")[2].rpartition("/")
        return int(ordinal) > self.ordinal if branch == self.path else self.was_begun_after(branch)

    def was_begun_after(self, branch: str) -> bool:
        """Whether a branch left this one after this point."""
        if branch == self.path or not _is_within(branch, self.path):
            return False
        rest = branch[len(self.path) :].removeprefix(".")
        number = rest.partition(".")[0]
        if number.isdecimal():
            return int(number) > self.children
        return not any(rest == repr(name) or rest.startswith(f"{name!r}.") for name in self.named)


class BranchSpan(NamedTuple):
    """The work of a branch between two points, with the branches that left it between them."""

    since: BranchPoint
    upto: BranchPoint | None  # None: the branch ended there

    def holds(self, place: str) -> bool:
        """Whether a place is in it."""
        return self.since.is_before(place) and (self.upto is None or not self.upto.is_before(place))

    def ends(self, place: str) -> bool:
        """Whether everything in the branch of a place belongs to this span, because the branch ends with it. A named branch does
        not.
        """
        return branch_of(place)[len(self.since.path) :].removeprefix(".")[:1] not in ("'", '"')


class LeftSaga(NamedTuple):
    """A saga that was left before its end, without an error of its own: mostly its branch was stopped as another failed."""

    branch: Branch
    since: BranchPoint
    upto: BranchPoint

    def span(self, cut: int) -> BranchSpan:
        """The span of its effects. A branch that was stopped may have come further in an earlier drive: all of that belongs to
        it.
        """
        stopped = self.branch.path in self.branch.unfinished and self.branch.mark(cut) == self.upto
        return BranchSpan(self.since, None if stopped else self.upto)


def branch_of(place: str) -> str:
    """The path of the branch that a place is in."""
    return place.partition("/")[2].rpartition("/")[0]


def is_named(place: str) -> bool:
    """Whether a place is in a branch that the program named, or in one that left it."""
    return "'" in branch_of(place) or '"' in branch_of(place)


def branch_name(path: str) -> str:
    """A branch as people read it: `main`, `2`, `2.1`, or the name that the program gave it."""
    return re.sub(r"(^|\.)(['\"])(.*?)\2(?=\.|$)", r"\1\3", path).removeprefix(".") or "main"


def is_below(place: str, path: str) -> bool:
    """Whether a place is in a branch, or in one that left it."""
    return _is_within(branch_of(place), path)


def left_by(path: str) -> list[str]:
    """The lines of work that a branch has left, the trunk first. Some of them may be none: a name may hold what parts them."""
    return ["", *(path[:at] for at, letter in enumerate(path) if letter == "." and at)]


def begun_part(path: str, begun: set[str]) -> str:
    """The line of work that a branch is in, or would leave: itself, or the nearest one above it that was begun."""
    return next((line for line in (path, *reversed(left_by(path))) if line in begun or not line), "")


def is_line_of(line: str, path: str) -> bool:
    """Whether a branch is this line of work, or has left it."""
    return _is_within(path, line)


def _is_within(branch: str, path: str) -> bool:
    return not path or branch == path or branch.startswith(f"{path}.")


def current(trunk: Branch) -> Branch:
    """The branch that this code is in. Refused inside a step or a tool of the run, and in tasks from elsewhere."""
    found = _current.get(None)
    if found is None or found.trunk is not trunk:
        raise _not_here()
    return found if found.wraps is None else found.wraps.branch_here(found)


def lines_here(branch: Branch) -> frozenset[str]:
    """The lines of work that stop while this code waits in a verb of a branch: that branch, and the one of the running task if
    that uses a named one.
    """
    found = _current.get(None)
    return frozenset({branch.path}) if found is None else frozenset({branch.path, found.path})


def refuse_inside() -> None:
    """Refuse to use a run inside one of its own steps and tools: for code that may be in any thread."""
    if is_inside_a_step():
        raise _not_here()


def is_inside_a_step() -> bool:
    """Whether this code is in a step or a tool of a run: in no branch of it."""
    return _current.get(...) is None


def _not_here() -> Refused:
    return Refused(
        "a run is used only by its agent, not inside its steps and tools", path="run",
        hint="do it in the agent's function, before or after the step",
    )  # fmt: skip


@contextmanager
def standing_in(branch: Branch | None) -> Iterator[None]:
    """Be in a branch; None: in no branch at all."""
    token = enter(branch)
    try:
        yield
    finally:
        leave(token)


enter = _current.set  # the two halves of it, for where a step costs microseconds
leave = _current.reset


def numbering(before: Callable[..., Any] | None) -> Callable[..., Any]:
    """A task factory that gives each task made inside a run a branch of its own; other tasks are made as before."""

    def factory(loop: asyncio.AbstractEventLoop, coro: Any, **given: Any) -> Any:
        from asyncio import Task  # noqa: PLC0415 - only async agents pay for asyncio

        branch = _current.get(None)
        if branch is None:
            return Task(coro, loop=loop, **given) if before is None else before(loop, coro, **given)
        if _in_no_order():
            coro.close()
            raise _by_chance()
        branch = branch if branch.wraps is None else branch.wraps.branch_here(branch)
        in_place = is_wait_for(sys._getframe(1)) and not (branch.wraps and branch.wraps.makes_branch(branch))
        made = branch if in_place else branch.child()
        context = given.pop("context", None) or contextvars.copy_context()
        context.run(_current.set, made)
        given["context"] = context
        coro = _held_back(coro) if branch.hired else coro
        task = Task(coro, loop=loop, **given) if before is None else before(loop, coro, **given)
        if in_place:
            branch.track_part(task)
        else:
            branch.track(task, made.path)
        log_context.note(task)
        return task

    factory.numbers_branches = True  # type: ignore[attr-defined]
    return factory


MAKES_TASKS = frozenset({"create_task", "ensure_future", "_ensure_future"})


def is_wait_for(frame: FrameType | None) -> bool:
    """Whether it is asyncio.wait_for itself that makes a task, seen from what the task factory was called by."""
    while frame is not None and frame.f_code.co_name in MAKES_TASKS and _is_of_asyncio(frame):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_name == "wait_for" and _is_of_asyncio(frame)


def _is_of_asyncio(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("asyncio.")


def _in_no_order() -> bool:
    """Whether it is asyncio.as_completed that makes a task of a bare coroutine: it puts them into a set first."""
    frame = sys._getframe(2)  # the caller of the factory
    while frame is not None and _is_of_asyncio(frame):
        if frame.f_code.co_qualname.startswith(("as_completed", "_AsCompletedIterator")):
            return True
        frame = frame.f_back
    return False


def _by_chance() -> Refused:
    return Refused(
        "asyncio.as_completed begins bare coroutines in no fixed order: a replay would not know which is which", path="run",
        hint="make tasks of them first, in order: [asyncio.create_task(each) for each in …]; and do not act in the order in "
        "which they finish: asyncio.gather gives their results in yours",
    )  # fmt: skip


async def _held_back(coro: Any) -> Any:
    """Await a branch. A SystemExit of it becomes Failed: in a task it would end the event loop, and with it the worker."""
    try:
        return await coro
    except SystemExit as error:
        raise Failed(f"a branch of it exited with {error.code}", code="SystemExit", path="run") from error


def number_branches(loop: asyncio.AbstractEventLoop) -> None:
    """Let tasks of this event loop be numbered. Calling it again does nothing; tasks outside runs are not touched."""
    before = loop.get_task_factory()
    if not getattr(before, "numbers_branches", False):
        loop.set_task_factory(numbering(before))
