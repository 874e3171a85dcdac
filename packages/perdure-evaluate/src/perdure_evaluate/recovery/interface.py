"""The interface between a task and a subject: six verbs, and one rule. An operation that returned is acknowledged.

A subject is one file with one class. It either derives from `Remembering` and says how it loads and keeps, or implements the
verbs itself (`read` comes with `Subject`). Callers: tasks (through `wire.Watched`), subjects, the harness. Nothing in here
favours a store.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Protocol

import msgspec

from perdure.model.limits import LEASE_TTL_SECONDS


class SubjectAgent(Protocol):
    """The agent that a task is written over. Names are unique in a task; values are JSON."""

    def step(self, name: str, work: Callable[[], Any]) -> Any:
        """Pure work, as a model's answer is: it may come out differently when it is done again."""
        ...

    def act(self, name: str, kind: str, payload: Any) -> Any:
        """Something outside; `outside.KINDS` says what can be known about each kind."""
        ...

    def note(self, key: str, value: Any) -> None:
        """State that others rely on from now on."""
        ...

    def read(self, name: str, key: str) -> Any:
        """The present content of a note, whoever wrote it last."""
        ...

    def ask(self, name: str, question: str) -> str:
        """A person's answer; Waits until there is one."""
        ...

    def done(self, result: Any) -> None:
        """The end."""
        ...


class Outside(Protocol):
    """The other side, as a subject reaches it."""

    def send(self, name: str, kind: str, payload: Any, key: str = "") -> Any:
        """Do it. Kinds that know keys do it once for a key."""
        ...

    def find(self, name: str, kind: str, payload: Any) -> Any:
        """Its result if it was done, else None. Only for kinds that can be looked up."""
        ...


class SubjectPlace(msgspec.Struct, frozen=True):
    """All that a subject is told. A server that it may use has its URL in the file `server` of the folder, and how long a lease
    it is to take stands in the file `lease`.

    workspace: the git work tree of the task, if it has one. version: of the program that is played.
    """

    folder: Path
    task: str
    seed: int
    port: int
    workspace: Path | None = None
    version: int = 2

    @property
    def server(self) -> str:
        """The URL of the server that was started for it."""
        return (self.folder / "server").read_text()

    @property
    def lease_seconds(self) -> float:
        """How long a lease it is to take, if it takes any."""
        file = self.folder / "lease"
        return float(file.read_text()) if file.exists() else LEASE_TTL_SECONDS


class Belief(msgspec.Struct, frozen=True):
    """The belief of a subject about what was done, from its store alone: notes, and effects with their results."""

    notes: dict[str, Any] = {}
    effects: dict[str, Any] = {}
    result: Any = None
    ended: bool = False


class Waits(Exception):
    """A person must come first: to answer what is asked, or to say what became of effects in doubt."""

    def __init__(self, asks: list[str] | None = None, doubts: list[str] | None = None) -> None:
        super().__init__("a person must come first")
        self.asks = asks or []
        self.doubts = doubts or []


class HeldElsewhere(Exception):
    """Another process is at it: this one leaves it alone."""


class Away(Exception):
    """The store cannot be asked now, because what it lies on is down: nobody knows what it holds."""


class Subject(ABC):
    """A store under test, in a process of its own. inbox: what people have said so far, by name: the answer to an ask, or
    {"happened": …, "result": …} about an effect in doubt; `mended`, when they put right what a life before said was wrong.

    about: one line for the report. needs: "postgres", if a server of its own is to be started for it. written: whether what it
    writes is written by its own process, so that it can be counted. leases: whether a process that gives no sign of life for
    `place.lease_seconds` loses its task to others. peer: in whose environment it lives (evaluation/peers.py); what that brings
    is imported where it is used, so that the file can be read without it.
    """

    about: ClassVar[str] = ""
    needs: ClassVar[str] = ""
    peer: ClassVar[str] = ""
    written: ClassVar[bool] = True
    leases: ClassVar[bool] = False

    def __init__(self, place: SubjectPlace, outside: Outside, inbox: dict[str, Any]) -> None:
        self.place = place
        self.outside = outside
        self.inbox = inbox

    @abstractmethod
    def run(self, program: Callable[[SubjectAgent], None]) -> None:
        """Begin, or continue: call the program with an agent, which may be `self`. Raises Waits, Held, or what went wrong."""

    @abstractmethod
    def believe(self) -> Belief:
        """The acts that were done, from the store alone. Nothing is changed. Away when its server is down."""

    def read(self, name: str, key: str) -> Any:
        """The present content of a note: from the store."""
        del name
        return self.believe().notes[key]

    # Acts on a store by others than its agent; each in a process of its own.

    def amend(self, key: str, value: Any) -> None:
        """Somebody else changes a note. A subject that does not say how is not tried where it is needed."""
        raise NotImplementedError

    def apart(self) -> None:  # noqa: B027 - only who shares a store has something to do
        """Have a store that no other case uses, before the first life. One that lies in the folder is such a store."""

    def backup(self, target: Path) -> None:
        """Copy the store to a place that does not exist yet."""
        shutil.copytree(self.place.folder, target)

    def restore(self, source: Path) -> None:
        """Put a copy in the place of the store."""
        shutil.rmtree(self.place.folder)
        shutil.copytree(source, self.place.folder)


class Remembering(Subject):
    """A subject that keeps every operation under its name, and does not do again what it finds there.

    `load` gives {section: {name: value}}; `keep` makes one more value durable. Every offer of a service is used: the name of an
    operation is sent as its key.
    """

    def __init__(self, place: SubjectPlace, outside: Outside, inbox: dict[str, Any]) -> None:
        super().__init__(place, outside, inbox)
        self.kept: dict[str, dict[str, Any]] = {}

    @abstractmethod
    def load(self) -> dict[str, dict[str, Any]]:
        """The stored state; nothing, if there is none."""

    @abstractmethod
    def keep(self, section: str, name: str, value: Any) -> None:
        """Keep one more; `self.kept` has it already."""

    def run(self, program: Callable[[SubjectAgent], None]) -> None:
        """Continue from what is stored."""
        self.kept = self.load()
        program(self)

    def believe(self) -> Belief:
        """The stored state."""
        state = self.load()
        ended = state.get("done", {})
        return Belief(state.get("notes", {}), state.get("effects", {}), ended.get("result"), bool(ended))

    def step(self, name: str, work: Callable[[], Any]) -> Any:
        """Work that is not done again."""
        return self._once("steps", name, work)

    def act(self, name: str, kind: str, payload: Any) -> Any:
        """Send it, then keep that it was sent."""
        return self._once("effects", name, lambda: self.outside.send(name, kind, payload, key=name))

    def note(self, key: str, value: Any) -> None:
        """Keep it."""
        self._once("notes", key, lambda: value)

    def read(self, name: str, key: str) -> Any:
        """The note in mind: as it was stored when the subject began, and as it was kept since."""
        return self._once("reads", name, lambda: self.kept["notes"][key])

    def amend(self, key: str, value: Any) -> None:
        """Load, change, keep."""
        self.kept = self.load()
        self.kept.setdefault("notes", {})[key] = value
        self.keep("notes", key, value)

    def ask(self, name: str, question: str) -> str:
        """The answer in the inbox."""
        del question
        return self._once("answers", name, lambda: self._answer(name))

    def done(self, result: Any) -> None:
        """Keep it."""
        self._once("done", "result", lambda: result)

    def _answer(self, name: str) -> str:
        if name not in self.inbox:
            raise Waits(asks=[name])
        return self.inbox[name]

    def _once(self, section: str, name: str, make: Callable[[], Any]) -> Any:
        entries = self.kept.setdefault(section, {})
        if name not in entries:
            entries[name] = make()
            self.keep(section, name, entries[name])
        return entries[name]
