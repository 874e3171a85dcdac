"""The story: three agents live and die, strike by strike, until all are done; what each did in the outside world is counted.

`make demo` tells it, through a `view`. Nothing is pretended: the agents are real processes, they die by SIGKILL, the forge
and git are asked what they have, and the ledger is read anew from the store. Shows P1 to P4.
"""

from __future__ import annotations

import contextlib
import enum
import json
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from demo import proof
from demo.order import DemoOrder, DemoPlace, line_of
from demo.scene import DemoTally, Scene
from demo.script import AGENT
from demo.strikes import Strike
from perdure.errors import Failed, TimedOut
from perdure.model.ids import new_uid

if TYPE_CHECKING:
    from perdure.handles.sync.store import Store

LIFE_SECONDS_MAX = 60.0
LIVES_MAX = 10  # of one round: a life that only asks a person ends, and another continues
PERSON = "the reviewer"
ASK = "ask"


class ActionKind(enum.StrEnum):
    """How an action stands to what was done before: the colour of the story."""

    NEW = "did"
    CHECKED = "checked"  # begun by a life that died, and settled by the ledger
    AGAIN = "redid"


class StoryPart:
    """The actions of one agent in one life. Grows while it lives. before: the actions that earlier lives carried out."""

    def __init__(self, before: frozenset[int | str] = frozenset()) -> None:
        self.remembered: int | None = None  # how many actions it knows to be done; None: it has not said so yet
        self.deeds: list[tuple[int | str, str, ActionKind]] = []  # an action's number, its name, and how it stands
        self.now: tuple[int | str, str, ActionKind] | None = None  # begun, and not known to be done
        self.ended = ""  # "killed", "done", or not yet
        self._before = before

    @property
    def done(self) -> frozenset[int | str]:
        """The actions that were carried out by the end of this life."""
        return self._before | {number for number, _, _ in self.deeds}

    def begin(self, number: int | str, action: str, *, is_open: bool = False) -> None:
        """An action begins: the one before it is done. A life that asked a person continues with the same action."""
        if self.now is not None and self.now[0] == number:
            return
        self.finish()
        self.now = (
            number,
            action,
            ActionKind.CHECKED if is_open else ActionKind.AGAIN if number in self.done else ActionKind.NEW,
        )

    def ask(self) -> None:
        """A person is asked, before the action that is under way."""
        self.deeds.append((ASK, ASK, ActionKind.AGAIN if ASK in self.done else ActionKind.NEW))

    def finish(self) -> None:
        """The action under way is done."""
        if self.now is not None:
            self.deeds.append(self.now)
        self.now = None

    def end(self, ended: str, strike: Strike | None) -> None:
        """The life is over. A kill leaves the action under way undone if it came before the call."""
        self.ended = ended
        if ended == "killed" and (strike is None or not strike.too_late):
            self.now = None
        self.finish()


class Round:
    """One strike, or none in the last round, and what became of each agent. extra: things that exist too often by then."""

    def __init__(self, number: int, strike: Strike | None, before: Sequence[StoryPart | None]) -> None:
        self.number = number
        self.strike = strike
        self.parts = [StoryPart() if each is None else StoryPart(each.done) for each in before]
        self.extra: list[int] | None = None


class StoryView(Protocol):
    """A view shows the demo to people or to machines."""

    def begin(self, one: Round) -> None:
        """A round begins."""

    def end(self, one: Round) -> None:
        """A round is over: all agents are dead, or done."""


class Side(msgspec.Struct, frozen=True):
    """One agent's figures: its traces in the outside world, how often a person was asked, and how often the model was."""

    tally: DemoTally
    asked: int
    model_calls: int

    @property
    def _counts(self) -> tuple[int, ...]:
        found = self.tally
        return found.commits, found.pulls, found.comments, found.entries, self.asked

    @property
    def once(self) -> bool:
        """Whether there is exactly one of each."""
        return set(self._counts) == {1}

    @property
    def extra(self) -> int:
        """How many there are too many."""
        return sum(max(count - 1, 0) for count in self._counts)


class StoryEnding(msgspec.Struct, frozen=True):
    """How it ended."""

    strikes: int
    kills: int
    ours: Side
    naive: Side
    fair: Side
    ledger: list[proof.LedgerLine]
    proofs: list[proof.Proof]
    run: str
    seconds: float

    @property
    def held(self) -> bool:
        """Whether our side did each thing exactly once, although every strike hit it, and can prove it."""
        settled = all(entry.state == "committed" for entry in self.ledger)
        return self.kills == self.strikes and self.ours.once and settled and all(each.held for each in self.proofs)


class Player:
    """One agent: its lives, one after the other, and what it told meanwhile."""

    def __init__(self, scene: Scene, module: str, order: DemoOrder, answer: Callable[[str], None]) -> None:
        self._scene = scene
        self._module = module
        self._order = order
        self._answer = answer
        self.asked = self.model_calls = 0
        self.done = False

    @property
    def place(self) -> DemoPlace:
        """Where it works."""
        return self._order.place

    def side(self) -> Side:
        """Its figures."""
        return Side(self._scene.tally(self.place), self.asked, self.model_calls)

    def live(self, strike: Strike | None, part: StoryPart) -> None:
        """Live until the strike, or to the end; whoever only waits for a person is answered and started again."""
        for _ in range(LIVES_MAX):
            waiting = self._one_life(strike, part)
            if waiting is None or self.done:
                return
            self._asked(part)
            self._answer(waiting)
        raise Failed("the agent asks again and again", path=self._module)

    def _one_life(self, strike: Strike | None, part: StoryPart) -> str | None:
        """One process; what it waits for, if it does."""
        agent = self._scene.start(self._module)
        _say(agent, line_of(msgspec.structs.replace(self._order, strike=strike)))
        limit = threading.Timer(LIFE_SECONDS_MAX, agent.terminate)  # reading ends in any case
        limit.start()
        waiting = None
        try:
            assert agent.stdout is not None
            for line in agent.stdout:
                waiting = self._heard(agent, json.loads(line), part) or waiting
            code = agent.wait()
        finally:
            limit.cancel()
        self._ended(code, strike, part)
        return waiting

    def _heard(self, agent: subprocess.Popen[bytes], fact: dict[str, Any], part: StoryPart) -> str | None:
        match fact:
            case {"resumed": count}:
                part.remembered = count if part.remembered is None else part.remembered
            case {"model": _}:
                self.model_calls += 1
            case {"do": action, "number": number, "open": is_open}:
                part.begin(number, action, is_open=is_open)
            case {"ask": _}:
                self._asked(part)
                _say(agent, b"yes\n")
            case {"result": _}:
                self.done = True
                part.end("done", None)
            case {"waiting": ask}:
                return ask
        return None

    def _asked(self, part: StoryPart) -> None:
        self.asked += 1
        part.ask()

    def _ended(self, code: int, strike: Strike | None, part: StoryPart) -> None:
        if code == -9 and strike is not None:
            part.end("killed", strike)
        elif code == -15:
            raise TimedOut(f"the agent took longer than {LIFE_SECONDS_MAX:g} s", path=self._module)
        elif code != 0:
            raise Failed(f"the agent ended with {code}: {self._scene.complaint(self._module)}", path=self._module)


def _say(agent: subprocess.Popen[bytes], line: bytes) -> None:
    """Send a line; if it is dead already, its exit code tells."""
    assert agent.stdin is not None
    with contextlib.suppress(OSError):
        agent.stdin.write(line)
        agent.stdin.flush()


def play(scene: Scene, store: Store, url: str, plan: list[Strike], view: StoryView) -> StoryEnding:
    """Play it in this scene: every strike in a round of its own, on all sides at once, and a last round without one."""
    began = time.monotonic()
    key = f"demo-{new_uid().hex()[:12]}"
    players = [
        Player(scene, "agent", DemoOrder(scene.place("perdure"), url, key), lambda ask: _approve(store, ask)),
        Player(scene, "naive", DemoOrder(scene.place("json")), lambda _: None),
        Player(scene, "fair", DemoOrder(scene.place("renamed")), lambda _: None),
    ]
    parts: Sequence[StoryPart | None] = [None] * len(players)
    kills = 0
    for number, strike in enumerate([*plan, None], 1):
        one = Round(number, strike, parts)
        view.begin(one)
        _all_live(players, one, scene)
        one.extra = [player.side().extra for player in players]
        view.end(one)
        parts = one.parts
        kills += one.parts[0].ended == "killed"
    run = next(each for each in store.runs(agent=AGENT) if each.record.key == key)
    proofs = proof.proofs(store, url, run.id, scene.folder)
    took = time.monotonic() - began
    ours, naive, fair = (player.side() for player in players)
    return StoryEnding(
        strikes=len(plan), kills=kills, ours=ours, naive=naive, fair=fair, ledger=proof.ledger(run), proofs=proofs,
        run=run.id, seconds=took,
    )  # fmt: skip


def _approve(store: Store, ask: str) -> None:
    store.answer(ask, "approve", by=PERSON)


def _all_live(players: Sequence[Player], one: Round, scene: Scene) -> None:
    """All at once; if one goes wrong, or somebody interrupts, the processes are ended first, so that nobody waits for them."""
    with ThreadPoolExecutor(len(players)) as threads:
        try:
            lives = [threads.submit(each.live, one.strike, part) for each, part in zip(players, one.parts, strict=True)]
            for life in lives:
                life.result()
        except BaseException:
            scene.stop()
            raise
