"""The journal of a run, for replay: the record at each place, compared with what the program does there now.

Made of the steps, effects and waits since the last cut. A mismatch raises Changed, which names what was recorded and what was
found, and nothing is done (P13). Callers: the driving of runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from reprlib import Repr
from threading import Lock
from typing import Any, NamedTuple

from perdure.errors import Changed
from perdure.model.records.effects import EffectRecord
from perdure.model.records.runs import StepRecord, WaitRecord, WaitState
from perdure.planes.execution.steps import INTERRUPTED
from perdure.runtime.places import AFTERWARDS, Branch, begun_part, branch_of, is_below, is_line_of, left_by

WAYS_ON = (
    "deploy the program that began it, or keep both in the new one with `run.patched(name)`, or `perdure pin` it to workers "
    "that still have the old one; then `perdure resume` it. If nobody changed it: the time, random numbers "
    "and reads of external systems belong in steps, the order in which branches finish is random, a registered type of a "
    "new version is another argument, and after a checkpoint the program begins from `run.restored`"
)

SHAPE_MAX_CHARS = 200
PATCHES = "patch"  # the branch of the answers of `run.patched`, which have no order
SIZED = frozenset({str, bytes, list, tuple, dict, set})  # kinds of which the length is said

_brief = Repr()
_brief.maxstring = _brief.maxother = 80


class JournalEntry(NamedTuple):
    """The record at one place. `name` is the step, the tool, or what was waited for."""

    what: str
    name: str
    digest: str
    record: Any

    def __str__(self) -> str:
        return f"{self.what} {self.name}" if self.name else self.what

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
        awaited = [(each, _entry_of_wait(each)) for each in waits if each.place and each.effect is None]
        found = [(each.place, _entry_of_step(each)) for each in steps if each.name != INTERRUPTED]
        found += [(each.place, JournalEntry("effect", each.tool, each.digest, each)) for each in effects if each.place]
        found += [(each.place or "", entry) for each, entry in awaited if each.state is not WaitState.WITHDRAWN]
        self.interrupted = {each.place: each for each in steps if each.name == INTERRUPTED}
        self.unsettled = any(not each.settled for each in effects)
        # Verbs that are done anew at their places: what a person retried, and what was waited for when the run ended.
        self._anew = {each.place: _entry_of_step(each) for each in retried}
        self._anew |= {each.place or "": entry for each, entry in awaited if each.state is WaitState.WITHDRAWN}
        self._entries = dict(found)
        self._left = dict(self._entries)
        self._ends = ends or {}  # the events after which waits were over, by their numbers
        self._lines: dict[str, deque[tuple[int, str]]] | None = None  # the rest, by branch, once it is asked for
        self._alike: dict[tuple[str, str, str], deque[str]] = {}  # its places by kind, name and digest
        self._unbegun: set[str] = set()  # branches that were not begun when it was last asked
        self._lock = Lock()  # of these three: the named branches of a sync agent have threads of their own

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> list[tuple[str, JournalEntry]]:
        """All of it, in the order in which it was begun."""
        return sorted(self._entries.items(), key=lambda each: each[1].record.seq)

    def take(
        self, place: str, what: str, name: str, digest: str, given: Any = None, sagas: tuple[str, ...] | None = None
    ) -> Any:
        """The record at a place, or None. Changed when something else is recorded there, or an effect in other sagas. given: its
        arguments, for people.
        """
        entry = self._entries.get(place)
        if entry is None:
            return None
        found = JournalEntry(what, name, digest, None)
        if (entry.what, entry.name) != (what, name):
            raise _changed(place, str(entry), str(found))
        if entry.digest != digest:
            now = _given_now(what, digest, given)
            raise _changed(place, f"{entry} with {_given_before(entry)}", f"{found} with {now}")
        if sagas is not None and entry.record.sagas not in (None, sagas):  # None: by a version that did not record them
            raise _changed(place, f"{entry} {_inside(entry.record.sagas)}", f"{found} {_inside(sagas)}")
        self._left.pop(place, None)
        return entry.record

    def interruption(self, place: str, what: str, name: str, digest: str) -> StepRecord | None:
        """The record that the program cancelled this verb before it came to its end; None if it did not. Changed when it was
        another verb.
        """
        found = self.interrupted.get(place)
        if found is None:
            return None
        before, now = _entry_of_step(found), JournalEntry(what, name, digest, None)
        if not now.is_verb(before):
            raise _changed(place, f"{before}, and cancelled it", str(now))
        return found

    @property
    def replaying(self) -> bool:
        """Whether something that was recorded has not been reached yet."""
        return bool(self._left)

    def forget_in(self, branches: Iterable[str]) -> None:
        """Drop unreplayed entries of cancelled branches: an earlier drive may have got further in them."""
        for branch in branches:
            for place in [each for each in [*self._left] if is_below(each, branch)]:
                self._left.pop(place, None)

    def continued_before(self, wait: WaitRecord, branch: Branch) -> bool:
        """Whether the run had continued past this branch, further than the replay has come, before the answer of its wait came.

        It had if an entry stands in a line of work that the branch left, or in a branch that is not begun yet.
        """
        over = self._ends.get(wait.seq, 0)
        if not over:
            return False
        self._index()
        self._unbegun = {path for path in self._unbegun if path not in branch.begun}
        return any(self._next_in(path) < over for path in {*left_by(branch.path), *self._unbegun})

    def _index(self) -> dict[str, deque[tuple[int, str]]]:
        """The lines of what is left; made when it is first asked for."""
        if self._lines is None:
            self._lines = _by_branch(self._left)
            self._unbegun = {*self._lines}
            for place, entry in self._left.items():
                self._alike.setdefault((entry.what, entry.name, entry.digest), deque()).append(place)
        return self._lines

    def _next_in(self, path: str) -> float:
        """The number of what comes next in a branch; infinite if nothing does."""
        line = (self._lines or {}).get(path) or deque()
        while line and line[0][1] not in self._left:
            line.popleft()
        return line[0][0] if line else inf

    def holding(
        self, branch: Branch, place: str, verb: JournalEntry, lines: Collection[str], stopped: Collection[str]
    ) -> str | None:
        """The place of a record that holds a new verb of a branch, because the verb may be what is recorded there; None if
        nothing does. lines: those that stop while it waits. stopped: those that stop for other verbs which are held.

        A record that was not reached holds it in a line that the branch left, in a branch that can only be begun from there or
        from the branch itself, and in one that has ended or is held. In a live branch beside it holds nothing but the very same
        verb.
        """
        if not self._left or branch.path == AFTERWARDS or verb.is_verb(self._anew.get(place)):
            return None
        with self._lock:
            recorded = self._index()
            return self._same_verb(verb) or self._in_the_way(branch, lines, stopped, recorded)

    def _same_verb(self, verb: JournalEntry) -> str | None:
        """The first place of the same verb that was not reached."""
        places = self._alike.get(verb[:3]) or deque()
        while places and places[0] not in self._left:
            places.popleft()
        return places[0] if places else None

    def _in_the_way(
        self,
        branch: Branch,
        lines: Collection[str],
        stopped: Collection[str],
        recorded: dict[str, deque[tuple[int, str]]],
    ) -> str | None:
        """The place of a record that was not reached, in a line that holds whatever a branch does."""
        for path in [*recorded]:
            if self._next_in(path) == inf:
                del recorded[path]
            elif path not in (AFTERWARDS, PATCHES, branch.path):
                line = begun_part(path, branch.begun)
                if line in branch.ended or line in stopped or any(is_line_of(line, each) for each in lines):
                    return recorded[path][0][1]
        return None

    @property
    def left(self) -> Collection[str]:
        """The places of records that were not reached yet, and not forgotten."""
        return self._left.keys()

    def left_out(self, place: str, verb: JournalEntry, at: str) -> Changed:
        """The error of a program that can do nothing but a new verb, and left out what is recorded at a place."""
        return _changed(place, str(self._entries[place]), f"{verb} at {at}, of which nothing was sent")

    def began(self, place: str, path: str) -> tuple[float, float]:
        """The number of what is recorded at a place, and the first number in a branch and those that left it; infinite if there
        is none.
        """
        records = [(at, entry.record.seq) for at, entry in self._entries.items()]
        records += [(at, each.seq) for at, each in self.interrupted.items()]
        there = (seq for at, seq in records if at == place)
        below = (seq for at, seq in records if is_below(at, path))
        return min(there, default=inf), min(below, default=inf)

    def undoes_in(self, branch: str) -> set[int]:
        """The effects, by number, that were undone from this branch, or are about to be."""
        found = (entry.record for place, entry in self._entries.items() if is_below(place, branch))
        return {each.undoes for each in found if isinstance(each, EffectRecord) and each.undoes is not None}

    def check_used_up(self) -> None:
        """Changed when the program ended without doing what is recorded."""
        for place, entry in self._left.items():
            raise _changed(place, str(entry), "nothing more")


def _entry_of_step(step: StepRecord) -> JournalEntry:
    """The verb that a step is, or that it stands for if its program cancelled that."""
    what, name = ("step", step.name) if step.name != INTERRUPTED else (str(step.value[0]), str(step.value[1]))
    return JournalEntry(what, name, step.digest, step)


def _entry_of_wait(wait: WaitRecord) -> JournalEntry:
    return JournalEntry(wait.kind.value, wait.question if wait.kind == "child" else wait.name, wait.digest or "", wait)


def _by_branch(left: Mapping[str, JournalEntry]) -> dict[str, deque[tuple[int, str]]]:
    lines: dict[str, deque[tuple[int, str]]] = {}
    for seq, place in sorted((entry.record.seq, place) for place, entry in left.items()):
        lines.setdefault(branch_of(place), deque()).append((seq, place))
    return lines


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


def _given_now(what: str, digest: str, given: Any) -> str:
    """The present arguments, as far as they may be shown: the reason why a run is parked is recorded. given: of a step, (args,
    kwargs).
    """
    if given is None:
        return f"arguments {digest[:12]}"
    return f"({shape_of(*given)})" if what == "step" else _brief.repr(given)


def _given_before(entry: JournalEntry) -> str:
    """The recorded arguments, for people: of a plain step only the digest and the shape are kept."""
    if entry.what == "effect":
        return _brief.repr(entry.record.args)
    if entry.what == "ask":
        return _brief.repr(entry.record.question)
    if getattr(entry.record, "input", None) is not None:
        return f"the result of `input_of({entry.record.seq})` of the run"
    shape = getattr(entry.record, "shape", "")
    return f"({shape}), of which a step keeps no more" if shape else f"arguments {entry.digest[:12]} (a digest)"


def _changed(place: str, expected: str, found: str) -> Changed:
    return Changed(
        f"the program does not do what this run did: at {place} it did {expected}, and now does {found}",
        path=place, hint=WAYS_ON, place=place, expected=expected, found=found,
    )  # fmt: skip
