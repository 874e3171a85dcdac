"""One case from its first life to its end: who lives, who is struck, what people answer, and what was acknowledged when.

`Ground` is where a host runs cases; a `Story` is one of them. Faults (faults/) tell a story how to begin; `finish` lets it come
to its end. `score.judge` reads it.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from perdure_evaluate.recovery.interface import Belief
from perdure_evaluate.recovery.lives import Life, LifeOrder, LifeProcess, Lives
from perdure_evaluate.recovery.oracle import ANSWER, effects_of
from perdure_evaluate.recovery.outside import OutsideWorld
from perdure_evaluate.recovery.program_edits import canonical
from perdure_evaluate.recovery.subjects import load
from perdure_evaluate.recovery.tasks import TASKS
from perdure_testing.witness import Witness

LIVES_MAX = 12
T = TypeVar("T")
MENDED = "mended"  # in the inbox: what a life before said was wrong has been put right


class Case(msgspec.Struct, frozen=True):
    """One subject × task × fault at one place of its schedule. control: the subject must not stand it."""

    subject: str
    task: str
    fault: str
    schedule: str
    control: bool = False

    @property
    def id(self) -> str:
        """Its name: `--case` takes it."""
        return f"{self.subject}/{self.task}/{self.fault}/{self.schedule}"


class Ground(msgspec.Struct):
    """The means of a host. folder: where cases lie, in memory if there is such a place: SIGKILL takes nothing from the kernel,
    and power loss is modelled. resources: measurements and servers that many cases share; closing: things that end with the host.
    """

    seed: int
    witness: Witness
    lives: Lives
    folder: Path
    postgres: str = ""
    number: int = 0
    resources: dict[Any, Any] = {}
    closing: ExitStack = msgspec.field(default_factory=ExitStack)


class Story:
    """A case under way."""

    def __init__(self, ground: Ground, case: Case) -> None:
        ground.number += 1
        self.ground = ground
        self.case = case
        self.task = TASKS[case.task]
        self.name = f"c{ground.number:05}"
        self.top = Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir=ground.folder))
        self.name = self.top.name
        self.folder = self.top / "subject" / self.name
        self.world = OutsideWorld(ground.witness, self.name, self.top / "outside", git=self.task.git)
        self.lives: list[Life] = []
        self.inbox: dict[str, Any] = {}
        self.final: Belief | None = None
        self.note = ""
        self.clock = ""  # of its lives: a file that says by how much it is wrong
        self.amended: dict[str, tuple[float, Any]] = {}  # notes that somebody else changed, when, and to what
        self.kept_at = self.lost_at = 0.0  # when a copy of the store was made, and when it took the store's place
        self.states = 0  # of a power loss, that were looked at
        self.taken: list[str] = []  # those of them that lost something, and what
        self.make_folder()

    def make_folder(self) -> None:
        """The subject's folder, with all that it is told."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if load(self.case.subject).needs == "postgres":
            (self.folder / "server").write_text(self.ground.postgres)

    def order(self, **options: Any) -> LifeOrder:
        """The next life."""
        about = {"subject": self.case.subject, "task": self.case.task, "seed": self.ground.seed}
        where = {
            "folder": options.pop("folder", self.folder),
            "outside": self.top / "outside",
            "port": self.ground.witness.port,
        }
        number = options.pop("life", len(self.lives))
        return LifeOrder(
            **about, **where, case=self.name, life=number, inbox=dict(self.inbox), clock=self.clock, **options
        )

    def live(self, **options: Any) -> Life:
        """Live one more life, to its end."""
        return self.add(self.ground.lives.run(self.order(**options)))

    def add(self, life: Life) -> Life:
        """Take a life that is over into the story, and let people answer what it waits for."""
        self.lives.append(life)
        for name in life.asks:
            self.inbox[name] = ANSWER
        for name in life.doubts:
            self.inbox[name] = self._looked_up(canonical(name))
        return life

    def strike(self, at: str, **options: Any) -> Life:
        """Live until a boundary is reached, as often as people must be waited for on the way."""
        while (life := self.live(at=at, **options)).end == "waiting" and len(self.lives) < LIVES_MAX:
            pass
        return life

    def stop(self, at: str) -> LifeProcess | None:
        """Live until a boundary is reached, and stand still there; None if a life ended otherwise."""
        for _ in range(LIVES_MAX):
            child = self.ground.lives.hold(self.order(at=at, how="stop"))
            child.begin()
            life = child.wait()
            if life.end == "stopped":
                return child
            if self.add(life).end != "waiting":
                return None
        return None

    def errand(self, *words: str) -> None:
        """Let something else be done to the store, by a process that lives no life. OSError when it fails: no fault of a life."""
        done = self.ground.lives.run(self.order(errand=words))
        if done.end != "done":
            raise OSError(f"{words[0]}: {done.end} {done.said}")

    def amend(self, key: str, value: Any) -> None:
        """Let somebody else change a note."""
        self.errand("amend", key, json.dumps(value))
        self.amended[key] = (time.monotonic(), value)

    def _looked_up(self, name: str) -> dict[str, Any]:
        """A person finds out what became of an effect: who asks the other side."""
        result = self.world.result_of(name, effects_of(self.case.task)[name])
        return {"happened": result is not None, "result": result}

    def go_on(self, mend: Callable[[Life], None] = lambda _: None, **options: Any) -> None:
        """Live until it is done or says that something is wrong. People mend that, and say so; then it may come to its end."""
        while len(self.lives) < LIVES_MAX:
            life = self.live(**options)
            if life.end == "failed":
                mend(life)
                self.inbox[MENDED] = True
            if life.end != "waiting":
                return

    def finish(self) -> None:
        """Let it come to its end: started again after every death, answered when it waits, so often at most."""
        before = len(self.lives)
        while len(self.lives) < before + LIVES_MAX and not (self.lives and self.lives[-1].end == "done"):
            self.live()
            if _repeats(self.lives[before:]):
                break
        self.final = self.ground.lives.run(self.order(believing=True)).belief or Belief()  # nobody waits for ever

    def undisturbed(self, what: str, find: Callable[[Story], T]) -> T:
        """The result of a story of this subject and task that nobody disturbs; looked for once."""
        mark = (what, self.case.subject, self.case.task)
        if mark not in self.ground.resources:
            other = Story(self.ground, self.case)
            try:
                self.ground.resources[mark] = find(other)
            finally:
                other.clear()
        return self.ground.resources[mark]

    def clear(self) -> None:
        """Remove what it left."""
        shutil.rmtree(self.top, ignore_errors=True)


def _repeats(lives: list[Life]) -> bool:
    """Whether it has failed three times in a row with the same words: it will not come to its end."""
    last = [(life.end, life.said) for life in lives[-3:]]
    return len(last) == 3 and len(set(last)) == 1 and last[0][0] in ("failed", "hung")
