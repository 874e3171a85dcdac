"""The journal of a run, for replay: what is recorded at which place, and what that gives its program now (docs/decisions/0007).

A place is (cut, branch, ordinal): where in a run something stands, the same at every replay. A branch is known by the order in
which it was created, or by its name. The journal has the steps, effects and waits since the last cut, by place; a mismatch raises
Changed, which names what was recorded and what was found, and nothing is done. Pure, but for `load_journal`, which reads; the
branch that the running code is in is found by `current_branch`. Callers: the engine of runs. Keeps P13.
"""

from __future__ import annotations

import re
import weakref
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from reprlib import Repr
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.effects import ledger
from perdure.effects.commands import Ending
from perdure.effects.outcomes import outcome_of
from perdure.effects.tool import Tool
from perdure.errors import Changed, Damaged, Failed, Invalid, NewerSchema, Parked, Refused, TooLarge
from perdure.log.change import Stream
from perdure.model.limits import check_name
from perdure.model.records.effects import EffectError, EffectRecord, EffectState, ToolKind, text_of
from perdure.model.records.runs import StepRecord, WaitRecord, WaitState
from perdure.model.storable import storable
from perdure.model.values import digest
from perdure.planes.execution import steps, waits
from perdure.planes.execution.steps import INTERRUPTED
from perdure.runtime.stopping import Leaving, Suspended
from perdure.stores.store import Reads

if TYPE_CHECKING:
    import asyncio

    from perdure.runtime.current_branch import WaitForBranches

AFTERWARDS = "left"  # the branch of what is undone of sagas that were left behind: the same however far each had come
PATCHES = "patch"  # the branch of the answers of `run.patched`, which have no order
SHAPE_MAX_CHARS = 200
SIZED = frozenset({str, bytes, list, tuple, dict, set})  # kinds of which the length is said
UNSTORABLE = "Unstorable"  # the code of a step whose value could not be kept
UNKEPT = "unkept"  # the mark of such a step's error
WAYS_ON = (
    "deploy the program that began it, or keep both in the new one with `run.patched(name)`, or `perdure pin` it to workers "
    "that still have the old one; then `perdure resume` it. If nobody changed it: the time, random numbers "
    "and reads of external systems belong in steps, the order in which branches finish is random, a registered type of a "
    "new version is another argument, and after a checkpoint the program begins from `run.restored`"
)

_brief = Repr()
_brief.maxstring = _brief.maxother = 80


# -- places ------------------------------------------------------------------------------------------------------------------


class Branch:
    """One line of work in a run: it counts what is done in it, and the branches that leave it."""

    __slots__ = (
        "_children",
        "_cut",
        "_named",
        "_ordinal",
        "begun",
        "driven_by_worker",
        "ended",
        "interrupted",
        "parts",
        "path",
        "sagas",
        "tasks",
        "trunk",
        "unfinished",
        "wait_for_branches",
    )

    def __init__(self, path: str = "", trunk: Branch | None = None, *, driven_by_worker: bool = False) -> None:
        self.path = path
        self.trunk = trunk or self
        self.driven_by_worker = driven_by_worker if trunk is None else trunk.driven_by_worker  # a worker drives the run
        self.interrupted = ""  # the place of a verb that was stopped in the middle: a replay would give what it gives
        self._ordinal = 0
        self._children = 0
        self._named: set[str] = set()
        self.sagas: tuple[str, ...] = ()  # those that its work is in, as its records say it, the outermost first
        # Of a run whose record does not say how branches are numbered: whether `wait_for` makes one (see `current_branch`).
        self.wait_for_branches: WaitForBranches | None = None if trunk is None else trunk.wait_for_branches
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

    def precedes(self, place: str) -> bool:
        """Whether a place came after this point: in this branch, or in one that left it since."""
        branch, _, ordinal = place.partition("/")[2].rpartition("/")
        return int(ordinal) > self.ordinal if branch == self.path else self.was_begun_after(branch)

    def was_begun_after(self, branch: str) -> bool:
        """Whether a branch left this one after this point."""
        if branch == self.path or not is_within(branch, self.path):
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
        return self.since.precedes(place) and (self.upto is None or not self.upto.precedes(place))

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
    return is_within(branch_of(place), path)


def lines_above(path: str) -> list[str]:
    """The lines of work that a branch has left, the trunk first. Some of them may be none: a name may hold what parts them."""
    return ["", *(path[:at] for at, letter in enumerate(path) if letter == "." and at)]


def nearest_begun_line(path: str, begun: set[str]) -> str:
    """The line of work that a branch is in, or would leave: itself, or the nearest one above it that was begun."""
    return next((line for line in (path, *reversed(lines_above(path))) if line in begun or not line), "")


def is_within(branch: str, path: str) -> bool:
    """Whether a branch is a line of work, or has left it."""
    return not path or branch == path or branch.startswith(f"{path}.")


# -- what is recorded at a place ---------------------------------------------------------------------------------------------


class JournalEntry(NamedTuple):
    """The record at one place. `name` is the step, the tool, or what was waited for."""

    kind: str
    name: str
    digest: str
    record: Any

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else self.kind

    def is_verb(self, other: JournalEntry | None) -> bool:
        """Whether another one is the same verb: of this kind and name, with these arguments."""
        return other is not None and self[:3] == other[:3]


class Journal:
    """The work of a run since its last cut, by place. Waits that were open when the run ended are left out: they are waited for
    anew.
    """

    def __init__(
        self, steps: Sequence[StepRecord] = (), effects: Sequence[EffectRecord] = (), waits: Iterable[WaitRecord] = (),
        ends: Mapping[int, int] | None = None, retried: Iterable[StepRecord] = (),
    ) -> None:  # fmt: skip
        placed = [(wait, _entry_of_wait(wait)) for wait in waits if wait.place and wait.effect is None]
        entries = [(step.place, _entry_of_step(step)) for step in steps if step.name != INTERRUPTED]
        entries += [
            (effect.place, JournalEntry("effect", effect.tool, effect.digest, effect))
            for effect in effects if effect.place
        ]  # fmt: skip
        entries += [(wait.place or "", entry) for wait, entry in placed if wait.state is not WaitState.WITHDRAWN]
        self.interrupted = {step.place: step for step in steps if step.name == INTERRUPTED}
        self.unsettled = any(not effect.settled for effect in effects)
        # Verbs that are done anew at their places: what a person retried, and what was waited for when the run ended.
        self._redone = {step.place: _entry_of_step(step) for step in retried}
        self._redone |= {wait.place or "": entry for wait, entry in placed if wait.state is WaitState.WITHDRAWN}
        self._entries = dict(entries)
        self._unreached = dict(self._entries)
        self._ends = ends or {}  # the events after which waits were over, by their numbers
        self._lines: dict[str, deque[tuple[int, str]]] | None = None  # the rest, by branch, once it is asked for
        self._places_by_verb: dict[tuple[str, str, str], deque[str]] = {}
        self._unbegun: set[str] = set()  # branches that were not begun when it was last asked
        self._lock = Lock()  # of these three: the named branches of a sync agent have threads of their own

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> list[tuple[str, JournalEntry]]:
        """All of it, in the order in which it was begun."""
        return sorted(self._entries.items(), key=lambda entry: entry[1].record.seq)

    def record_at(
        self, place: str, kind: str, name: str, digest: str, arguments: Any = None, sagas: tuple[str, ...] | None = None
    ) -> Any:
        """The record at a place, or None. Changed when something else is recorded there, or an effect in other sagas. arguments:
        for people.
        """
        entry = self._entries.get(place)
        if entry is None:
            return None
        verb = JournalEntry(kind, name, digest, None)
        if (entry.kind, entry.name) != (kind, name):
            raise program_changed(place, str(entry), str(verb))
        if entry.digest != digest:
            now = _arguments_now(kind, digest, arguments)
            raise program_changed(place, f"{entry} with {_arguments_before(entry)}", f"{verb} with {now}")
        if sagas is not None and entry.record.sagas not in (None, sagas):  # None: by a version that did not record them
            raise program_changed(place, f"{entry} {_inside(entry.record.sagas)}", f"{verb} {_inside(sagas)}")
        self._unreached.pop(place, None)
        return entry.record

    def interruption(self, place: str, kind: str, name: str, digest: str) -> StepRecord | None:
        """The record that the program cancelled this verb before it came to its end; None if it did not. Changed when it was
        another verb.
        """
        record = self.interrupted.get(place)
        if record is None:
            return None
        before, now = _entry_of_step(record), JournalEntry(kind, name, digest, None)
        if not now.is_verb(before):
            raise program_changed(place, f"{before}, and cancelled it", str(now))
        return record

    @property
    def is_replaying(self) -> bool:
        """Whether something that was recorded has not been reached yet."""
        return bool(self._unreached)

    @property
    def unreached(self) -> Collection[str]:
        """The places of records that were not reached yet, and not forgotten."""
        return self._unreached.keys()

    def forget_branches(self, branches: Iterable[str]) -> None:
        """Drop what was not reached in branches that were cancelled: an earlier drive may have got further in them."""
        for branch in branches:
            for place in [place for place in [*self._unreached] if is_below(place, branch)]:
                self._unreached.pop(place, None)

    def check_used_up(self) -> None:
        """Changed when the program ended without doing what is recorded."""
        for place, entry in self._unreached.items():
            raise program_changed(place, str(entry), "nothing more")

    # -- branches beside this one ------------------------------------------------------------------------------------------

    def continued_before(self, wait: WaitRecord, branch: Branch) -> bool:
        """Whether the run had continued past this branch, further than the replay has come, before the answer of its wait came.

        It had if an entry stands in a line of work that the branch left, or in a branch that is not begun yet.
        """
        over = self._ends.get(wait.seq, 0)
        if not over:
            return False
        self._index()
        self._unbegun = {path for path in self._unbegun if path not in branch.begun}
        return any(self._next_in(path) < over for path in {*lines_above(branch.path), *self._unbegun})

    def place_that_holds(
        self, branch: Branch, place: str, verb: JournalEntry, lines: Collection[str], stopped: Collection[str]
    ) -> str | None:
        """The place of a record that holds a new verb of a branch, because the verb may be what is recorded there; None if
        nothing does. lines: those that stop while it waits. stopped: those that stop for other verbs which are held.

        A record that was not reached holds it in a line that the branch left, in a branch that can only be begun from there or
        from the branch itself, and in one that has ended or is held. In a live branch beside it holds nothing but the very same
        verb.
        """
        if not self._unreached or branch.path == AFTERWARDS or verb.is_verb(self._redone.get(place)):
            return None
        with self._lock:
            recorded = self._index()
            return self._same_verb(verb) or self._in_the_way(branch, lines, stopped, recorded)

    def _same_verb(self, verb: JournalEntry) -> str | None:
        """The first place of the same verb that was not reached."""
        places = self._places_by_verb.get(verb[:3]) or deque()
        while places and places[0] not in self._unreached:
            places.popleft()
        return places[0] if places else None

    def _in_the_way(
        self, branch: Branch, lines: Collection[str], stopped: Collection[str],
        recorded: dict[str, deque[tuple[int, str]]],
    ) -> str | None:  # fmt: skip
        """The place of a record that was not reached, in a line that holds whatever a branch does."""
        for path in [*recorded]:
            if self._next_in(path) == inf:
                del recorded[path]
            elif path not in (AFTERWARDS, PATCHES, branch.path):
                line = nearest_begun_line(path, branch.begun)
                if line in branch.ended or line in stopped or any(is_within(path, line) for path in lines):
                    return recorded[path][0][1]
        return None

    def _index(self) -> dict[str, deque[tuple[int, str]]]:
        """The records that were not reached, by branch; made when it is first asked for."""
        if self._lines is None:
            self._lines = {}
            for seq, place in sorted((entry.record.seq, place) for place, entry in self._unreached.items()):
                self._lines.setdefault(branch_of(place), deque()).append((seq, place))
            self._unbegun = {*self._lines}
            for place, entry in self._unreached.items():
                self._places_by_verb.setdefault((entry.kind, entry.name, entry.digest), deque()).append(place)
        return self._lines

    def _next_in(self, path: str) -> float:
        """The number of what comes next in a branch; infinite if nothing does."""
        line = (self._lines or {}).get(path) or deque()
        while line and line[0][1] not in self._unreached:
            line.popleft()
        return line[0][0] if line else inf

    def left_out(self, place: str, verb: JournalEntry, at: str) -> Changed:
        """The error of a program that can do nothing but a new verb, and left out what is recorded at a place."""
        return program_changed(place, str(self._entries[place]), f"{verb} at {at}, of which nothing was sent")

    def first_records(self, place: str, path: str) -> tuple[float, float]:
        """The number of what is recorded at a place, and the first number in a branch and those that left it; infinite if there
        is none.
        """
        records = [(at, entry.record.seq) for at, entry in self._entries.items()]
        records += [(at, step.seq) for at, step in self.interrupted.items()]
        there = (seq for at, seq in records if at == place)
        below = (seq for at, seq in records if is_below(at, path))
        return min(there, default=inf), min(below, default=inf)

    def undone_from(self, branch: str) -> set[int]:
        """The effects, by number, that were undone from this branch, or are about to be."""
        records = (entry.record for place, entry in self._entries.items() if is_below(place, branch))
        return {record.undoes for record in records if isinstance(record, EffectRecord) and record.undoes is not None}


def _entry_of_step(step: StepRecord) -> JournalEntry:
    """The verb that a step is, or that it stands for if its program cancelled that."""
    kind, name = ("step", step.name) if step.name != INTERRUPTED else (str(step.value[0]), str(step.value[1]))
    return JournalEntry(kind, name, step.digest, step)


def _entry_of_wait(wait: WaitRecord) -> JournalEntry:
    return JournalEntry(wait.kind.value, wait.question if wait.kind == "child" else wait.name, wait.digest or "", wait)


def load_journal(reads: Reads, stream: Stream, after: int) -> Journal:
    """The journal of a run after an event. Raises Parked when a newer Perdure recorded some of it, which this one cannot read."""
    try:
        effects = ledger.all_effects(reads, stream, after=after)
        awaited = waits.waits(reads, stream, after)
        ends = waits.ends(reads, stream, after) if awaited else {}
        done, retried = steps.steps_and_retried(reads, stream, after)
        return Journal(done, effects, awaited, ends, retried)
    except NewerSchema as error:
        hint = f"upgrade the workers, then `perdure resume {stream.name}`"
        raise Parked(error.message, path=error.path, hint=hint, reason="newer") from error


# -- a program that does something else ------------------------------------------------------------------------------------------


def program_changed(place: str, expected: str, found: str) -> Changed:
    """The error of a program that does not do what is recorded at a place."""
    return Changed(
        f"the program does not do what this run did: at {place} it did {expected}, and now does {found}",
        path=place, hint=WAYS_ON, place=place, expected=expected, found=found,
    )  # fmt: skip


def shape_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """The shape of arguments, which may be kept and shown: names, types and lengths, and no content."""
    parts = [_shape(value) if type(value) in SIZED else type(value).__name__ for value in args]
    if kwargs:
        parts += [f"{name}={_shape(value)}" for name, value in kwargs.items()]
    return ", ".join(parts)[:SHAPE_MAX_CHARS]


def _shape(value: Any) -> str:
    kind = type(value)
    return f"{kind.__name__}[{len(value)}]" if kind in SIZED else kind.__name__


def _inside(sagas: tuple[str, ...]) -> str:
    return f"inside the sagas begun at {' and '.join(sagas)}" if sagas else "outside any saga"


def _arguments_now(kind: str, digest: str, arguments: Any) -> str:
    """The present arguments, as far as they may be shown: the reason why a run is parked is recorded. arguments: of a step,
    (args, kwargs).
    """
    if arguments is None:
        return f"arguments {digest[:12]}"
    return f"({shape_of(*arguments)})" if kind == "step" else _brief.repr(arguments)


def _arguments_before(entry: JournalEntry) -> str:
    """The recorded arguments, for people: of a plain step only the digest and the shape are kept."""
    if entry.kind == "effect":
        return _brief.repr(entry.record.args)
    if entry.kind == "ask":
        return _brief.repr(entry.record.question)
    if getattr(entry.record, "input", None) is not None:
        return f"the result of `input_of({entry.record.seq})` of the run"
    shape = getattr(entry.record, "shape", "")
    return f"({shape}), of which a step keeps no more" if shape else f"arguments {entry.digest[:12]} (a digest)"


# -- what a recorded thing gives its program -------------------------------------------------------------------------------------


def step_result(step: StepRecord) -> Any:
    """The result of a recorded step: its value, or Failed with what it raised; Invalid again if its value could not be kept."""
    if step.error is None:
        return step.value
    if step.error.code == UNSTORABLE:
        notes = step.notes.get(UNKEPT) or {"message": step.error.message, "path": f"step {step.name}"}
        raise unkept_error(notes, step.place)
    raise step_failed(step.place, step.name, step.error)


def step_failed(place: str, name: str, error: EffectError) -> Failed:
    """The error that a program gets of a step that failed, now and at every replay; its place is what `retry` does anew."""
    return Failed(error.message, code=error.code, path=f"step {name}", step=place)


def unkept_notes(error: Invalid, value: Any, *, brief: bool) -> dict[str, Any]:
    """The record of a value that could not be kept: the error that its program gets, and the value with each part that no store
    takes as text, unless only its digest was to be kept (brief).
    """
    texts = {"message": text_of(error.message), "path": text_of(error.path), "hint": text_of(error.hint)}
    return {UNKEPT: {"too_large": isinstance(error, TooLarge), **texts, **({} if brief else {"kept": storable(value)})}}


def unkept_error(notes: dict[str, Any], place: str) -> Invalid:
    """The error of a step whose value could not be kept, now and at every replay."""
    kind = TooLarge if notes.get("too_large") else Invalid
    kept = {"kept": notes["kept"]} if "kept" in notes else {}
    return kind(notes["message"], path=notes["path"], hint=notes.get("hint", ""), step=place, **kept)


def value_read_again(step: StepRecord, value: Any) -> Any:
    """The result of a step of which only the digest is kept. Parked when it is not what it gave before: replay must not
    differ.
    """
    now = digest(value, "result").hex()
    if now != step.gave:
        raise reads_otherwise(step, now)
    return value


def reads_otherwise(step: StepRecord, now: str) -> Parked:
    """The error of a reading that cannot be repeated, with what it gave before and now."""
    return Parked(
        f"{step.name} gave {step.gave} and now gives {now}: the run cannot continue as it began", path=f"step {step.name}",
        hint="put back what it read and `perdure resume` the run, or `perdure retry` it with what is read now",
        reason="reread", step=step.place, expected=step.gave, found=now,
    )  # fmt: skip


def effect_result(record: EffectRecord) -> Any:
    """The result of an effect for its program. Raises Failed for one that did not happen. One that was undone later did happen:
    at a replay the program goes the same way.
    """
    if record.state in (EffectState.UNDOING, EffectState.UNDONE) and record.error is None:
        return record.result
    return outcome_of(record)


def child_result(child: str, answer: Any, place: str | None) -> Any:
    """The result of a child for the run that started it. Raises Failed with the error by which the child failed.

    place: where it was started, which is what `retry` does anew.
    """
    match answer:
        case {"error": [str(code), str(message)]}:
            raise Failed(message, code=code, path=f"run {child}", step=place)
        case {"result": result}:
            return result
    raise Damaged("the stored data is no end of a run", path=f"run {child}")


# -- what a saga undoes ----------------------------------------------------------------------------------------------------------


def may_have_happened(record: EffectRecord) -> bool:
    """Whether an effect may have to be undone. One of an idempotent tool that was given up may have happened all the same."""
    if record.state is EffectState.FAILED:
        declined = record.error is not None and record.error.code == "Declined"  # by a person, who is believed
        return record.kind is ToolKind.IDEMPOTENT and record.doubtful and not declined
    return record.state in (EffectState.COMMITTED, EffectState.UNDOING, EffectState.UNDONE)


def effects_to_undo(
    effects: list[EffectRecord], spans: list[BranchSpan], begun: set[int], reached: set[int]
) -> list[EffectRecord]:
    """The effects in spans, newest first; before them those that an earlier drive undid, in its order.

    By place: a task that was stopped may not have come as far in this drive as in the one before. begun: effects by number
    that are undone in any case. reached: those that the program came to in this drive.
    """

    def is_in(effect: EffectRecord, span: BranchSpan) -> bool:
        place = effect.place
        return bool(place) and span.holds(place) and (effect.seq in reached or span.ends(place))

    undos = {effect.undoes: effect.seq for effect in effects if effect.undoes is not None}
    chosen = [
        effect for effect in effects
        if effect.undoes is None and (effect.seq in begun or any(is_in(effect, span) for span in spans))
    ]  # fmt: skip
    return sorted(chosen, key=lambda effect: (effect.seq not in undos, undos.get(effect.seq, -effect.seq)))


def undo_args(tool: Tool, record: EffectRecord) -> dict[str, Any]:
    """The arguments of the undo of an effect: those of its arguments, and its result, that the undo has parameters for."""
    values = dict(record.args) | {"result": record.result}
    return {name: value for name, value in values.items() if name in tool.signature.parameters}
