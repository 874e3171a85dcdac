"""The story: both agents live and die, strike by strike, until both are done; then it is counted what each did outside.

`perdure demo` tells it, through a `view`. Nothing is pretended: the agents are real processes, they die by SIGKILL, the forge
and git are asked what they have, and the ledger is read anew from the store. Shows P1 to P4.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from perdure.doors.demo import proof
from perdure.doors.demo.order import Order, Place, line_of
from perdure.doors.demo.scene import Scene, Tally
from perdure.doors.demo.script import AGENT
from perdure.doors.demo.strikes import Strike
from perdure.errors import Failed, TimedOut
from perdure.model.ids import new_uid

if TYPE_CHECKING:
    from perdure.handles.sync.store import Store

LIFE_SECONDS_MAX = 60.0
LIVES_MAX = 10  # of one round: a life that only asks a person ends, and another goes on
PERSON = "the reviewer"
ASKED = "(asked)"


class Part:
    """What one agent did in one life: on what it found, what it did, and how it ended. Grows while it lives."""

    def __init__(self) -> None:
        self.resumed: int | None = None  # not known yet
        self.did: list[str] = []
        self.ended = ""  # "killed", "done", or not yet


class Round:
    """One strike, or none in the last round, and what became of both agents."""

    def __init__(self, number: int, strike: Strike | None) -> None:
        self.number = number
        self.strike = strike
        self.ours = Part()
        self.naive = Part()


class View(Protocol):
    """Who shows it."""

    def begin(self, one: Round) -> None:
        """A round begins."""

    def end(self, one: Round) -> None:
        """A round is over: both agents are dead, or done."""


class Side(msgspec.Struct, frozen=True):
    """One agent's figures: what is there outside, how often a person was asked, and how often the model was."""

    tally: Tally
    asked: int
    model_calls: int

    @property
    def once(self) -> bool:
        """Whether there is exactly one of each."""
        found = self.tally
        return (found.commits, found.pulls, found.comments, found.entries, self.asked) == (1, 1, 1, 1, 1)


class Ending(msgspec.Struct, frozen=True):
    """How it ended."""

    strikes: int
    kills: int
    ours: Side
    naive: Side
    ledger: list[proof.Entry]
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

    def __init__(self, scene: Scene, module: str, order: Order, answer: Callable[[str], None]) -> None:
        self._scene = scene
        self._module = module
        self._order = order
        self._answer = answer
        self.asked = self.model_calls = 0
        self.done = False

    @property
    def place(self) -> Place:
        """Where it works."""
        return self._order.place

    def side(self) -> Side:
        """Its figures."""
        return Side(self._scene.tally(self.place), self.asked, self.model_calls)

    def live(self, strike: Strike | None, part: Part) -> None:
        """Live until the strike, or to the end; whoever only waits for a person is answered and started again."""
        for _ in range(LIVES_MAX):
            waiting = self._one_life(strike, part)
            if waiting is None or self.done:
                return
            self._asked(part)
            self._answer(waiting)
        raise Failed("the agent asks again and again", path=self._module)

    def _one_life(self, strike: Strike | None, part: Part) -> str | None:
        """One process; what it waits for, if it does."""
        agent = self._scene.start(self._module)
        _say(agent, line_of(msgspec.structs.replace(self._order, strike=strike)))
        limit = threading.Timer(LIFE_SECONDS_MAX, agent.terminate)  # whatever happens, reading ends
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

    def _heard(self, agent: subprocess.Popen[bytes], fact: dict[str, Any], part: Part) -> str | None:
        match fact:
            case {"resumed": count}:
                part.resumed = count if part.resumed is None else part.resumed
            case {"model": _}:
                self.model_calls += 1
            case {"do": action} if part.did[-2:] == [action, ASKED]:
                pass  # it goes on with what it asked about, in the same life
            case {"do": action, "open": is_open}:
                part.did.append(f"{action}?" if is_open else action)
            case {"ask": _}:
                self._asked(part)
                _say(agent, b"yes\n")
            case {"result": _}:
                self.done, part.ended = True, "done"
            case {"waiting": ask}:
                return ask
        return None

    def _asked(self, part: Part) -> None:
        self.asked += 1
        part.did.append(ASKED)

    def _ended(self, code: int, strike: Strike | None, part: Part) -> None:
        if code == -9 and strike is not None:
            part.ended = "killed"
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


def play(scene: Scene, store: Store, url: str, plan: list[Strike], view: View) -> Ending:
    """Play it in this scene: every strike in a round of its own, on both sides at once, and a last round without one."""
    began = time.monotonic()
    key = f"demo-{new_uid().hex()[:12]}"
    ours = Player(scene, "agent", Order(scene.place("perdure"), url, key), lambda ask: _approve(store, ask))
    naive = Player(scene, "naive", Order(scene.place("json")), lambda _: None)
    kills = 0
    for number, strike in enumerate([*plan, None], 1):
        one = Round(number, strike)
        view.begin(one)
        _both(lambda: ours.live(strike, one.ours), lambda: naive.live(strike, one.naive), scene)  # noqa: B023 - done at once
        view.end(one)
        kills += one.ours.ended == "killed"
    run = next(each for each in store.runs(agent=AGENT) if each.record.key == key)
    proofs = proof.proofs(store, url, run.id, scene.folder)
    took = time.monotonic() - began
    return Ending(len(plan), kills, ours.side(), naive.side(), proof.ledger(run), proofs, run.id, took)


def _approve(store: Store, ask: str) -> None:
    store.answer(ask, "approve", by=PERSON)


def _both(ours: Callable[[], None], naive: Callable[[], None], scene: Scene) -> None:
    """Both at once; if one goes wrong, or somebody interrupts, the processes are ended first, so that nobody waits for them."""
    with ThreadPoolExecutor(2) as threads:
        try:
            for life in [threads.submit(ours), threads.submit(naive)]:
                life.result()
        except BaseException:
            scene.stop()
            raise
