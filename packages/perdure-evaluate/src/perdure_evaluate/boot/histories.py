"""The labelled set of boot: long coding histories, and for each class of a boot the evidence that its tasks need. Apache-2.0.

A history is one file. `== session | labels` opens it; `files` and `names` are the words of its routine work. Then one line is
one thing: id, kind, text. `~ 70` stands for seventy turns of routine work, with what an agent writes down meanwhile; `~45`
before or behind a tool's result for so many lines more. `! class | ids` is evidence that every task needs, `? class | ids |
task` a task and what answers it. `[[…]]` marks the evidence in a long text; else the whole text is. Callers: `evidence_shares`,
`history_verbs`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from perdure.errors import Invalid

FOLDER = Path(__file__).parent
HISTORIES = ("refunds", "maps", "sensor", "warehouse")
CLASSES = ("rules", "plan", "loops", "decisions", "lessons", "workspace", "tail", "recalled", "words")
TURNS = ("user", "assistant", "tool")
TASKS = ("todo", "doing", "blocked", "left", "done")
_MARKED = re.compile(r"\[\[(.*?)\]\]")
_LONGER = re.compile(r" ~(\d+)$")
_LATER = re.compile(r"=> ~(\d+) ")


class HistoryThing(NamedTuple):
    """One thing of a history. id: empty for routine work. more: what stands behind the text: reason, note, result or answer."""

    id: str
    kind: str
    text: str
    more: str = ""
    evidence: str = ""


class BootTask(NamedTuple):
    """A task, and by class the ids of what it needs, besides that which every task needs."""

    text: str
    needs: dict[str, list[str]]


class BootHistory(NamedTuple):
    """A history: its session, the things in their order, what every task needs, and the tasks."""

    session: str
    labels: list[str]
    things: list[HistoryThing]
    always: dict[str, list[str]]
    tasks: list[BootTask]

    def evidence(self) -> dict[str, str]:
        """The text that must be in a pack, by the id of the thing."""
        return {thing.id: thing.evidence for thing in self.things if thing.id}


def history(name: str) -> BootHistory:
    """One history of the set."""
    return read(FOLDER.joinpath(f"{name}.txt").read_text(encoding="utf-8"))


def read(text: str) -> BootHistory:
    """A history from its text. Invalid for a line that makes no sense."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    session, labels = lines[0].removeprefix("== ").split(" | ")
    routine = Routine(lines[1].split()[1:], lines[2].split()[1:])
    history = BootHistory(session, labels.split(), [], {}, [])
    for line in lines[3:]:
        mark, _, rest = line.partition(" ")
        if mark == "~":
            history.things.extend(routine.turns(int(rest)))
        elif mark == "!":
            of, ids = rest.split(" | ")
            history.always[of] = ids.split()
        elif mark == "?":
            of, ids, task = rest.split(" | ")
            history.tasks.append(BootTask(task, {of: ids.split()}))
        else:
            history.things.append(_thing(mark, rest, routine))
    return history


def _thing(name: str, rest: str, routine: Routine) -> HistoryThing:
    kind, _, text = rest.partition(" ")
    marked = _MARKED.search(text)
    if longer := _LONGER.search(text):
        text = f"{text[: longer.start()]}\n{routine.log(int(longer[1]))}"
    if later := _LATER.search(text):
        text = text.replace(later[0], f"=> {routine.log(int(later[1]))}\n")
    text = _MARKED.sub(r"\1", text)
    first, more = _parted(kind, text)
    if not first:
        raise Invalid(f"no text in {name} {rest}"[:200], path="history")
    evidence = more if kind in ("value", "answered") else first
    return HistoryThing(name, kind, first, more, marked[1] if marked else evidence)


def _parted(kind: str, text: str) -> tuple[str, str]:
    """A text, and what stands behind it: by the kind."""
    if kind == "superseded":
        old, _, new = text.partition(" => ")
        return _parted("decision", new)[0], f"{new.partition('Because: ')[2]} => {old}"
    marks = {"tool": " => ", "answered": " => ", "decision": "Because: ", "standing": "Because: ", "open": "Because: "}
    mark = marks.get(kind, " " if kind in ("value", "doubt") else " : " if kind in TASKS else "")
    first, _, more = text.partition(mark) if mark else (text, "", "")
    return first.strip(), more.strip()


class Routine:
    """Routine work on the files of a history: turns, decisions, memories and tasks around what matters. Always the same."""

    def __init__(self, files: list[str], names: list[str]) -> None:
        self._files = files
        self._names = names
        self._dice = random.Random(files[0])

    def turns(self, count: int) -> Iterator[HistoryThing]:
        """So many turns, and what is written down between them."""
        for number in range(count):
            yield self._turn(number)
            if number % 3 == 2:
                yield self._noted(number)

    def log(self, lines: int) -> str:
        """Lines as tools print them."""
        return "\n".join(self._line() for _ in range(lines))

    def _line(self) -> str:
        level, number = self._dice.choice(("DEBUG", "INFO", "ok", "PASS")), self._dice.randrange(9_000)
        return f"{self._file()}:{number % 400}: {level} {self._name()} {self._name()} took {number} us"

    def _turn(self, number: int) -> HistoryThing:
        file, name, other = self._file(), self._name(), self._name()
        if number % 3 == 0:
            verb = self._dice.choice(("Look at", "Tidy up", "Rename the arguments of", "Add types to", "Split"))
            return HistoryThing("", "user", f"{verb} {name} in {file}, please; {other} calls it.")
        if number % 3 == 1:
            return HistoryThing("", "tool", f"run {file}", self.log(self._dice.randrange(4, 40)))
        return HistoryThing("", "assistant", f"Changed {name} in {file}; {other} needed one more argument. Tests pass.")

    def _noted(self, number: int) -> HistoryThing:
        file, name, other = self._file(), self._name(), self._name()
        kinds = ("decision", "fact", "lesson", "done", "fact", "decision", "workflow", "vocabulary")
        kind = kinds[number // 3 % len(kinds)]
        if kind == "decision":
            return HistoryThing("", kind, f"Keep {name} beside {other} in {file}.", "they change together")
        text = f"{name} in {file} is used by {other}; note {self._dice.randrange(10**6)}"
        return HistoryThing("", kind, text)

    def _file(self) -> str:
        return self._dice.choice(self._files)

    def _name(self) -> str:
        return self._dice.choice(self._names)
