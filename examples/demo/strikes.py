"""When the agents are killed: which action, and at which moment of it. The seed chooses; all agents get the same strikes.

The story makes the plan (`strikes`). Each agent, in its own process, says which action it begins (`Fate.enter`) and dies by
SIGKILL at that action's crash point (`model/crash_points`): the Perdure agent reaches it in the ledger, the others at the place
in their loop that corresponds to it.
"""

from __future__ import annotations

import enum
import hashlib
import os
import signal
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from perdure.model.crash_points import arm

T = TypeVar("T")


class StrikeMoment(enum.StrEnum):
    """A moment in an action, as people read it."""

    BEFORE = "not begun yet"
    INTENT = "about to be sent"
    DONE = "done, not saved yet"
    SAVING = "done, half saved"


POINTS: dict[StrikeMoment, tuple[str, ...]] = {  # reached one after the other; at the last one it dies
    StrikeMoment.BEFORE: ("effect.dispatch.before",),
    StrikeMoment.INTENT: ("effect.call.before",),
    StrikeMoment.DONE: ("effect.call.after",),
    StrikeMoment.SAVING: ("effect.commit.before", "lane.before_commit"),
}
EARLY = (StrikeMoment.BEFORE, StrikeMoment.INTENT)
LATE = (StrikeMoment.DONE, StrikeMoment.SAVING)
# Chosen by no seed: the moments at which an agent on a file is sure to do something twice.
WORST = {"push": StrikeMoment.SAVING, "pull": StrikeMoment.DONE, "comment": StrikeMoment.DONE}
GIT = frozenset({"commit", "push"})  # sent and absent: what may still land is waited for, 5 s; this demo is to be short


class Strike(msgspec.Struct, frozen=True):
    """One kill."""

    action: str
    moment: StrikeMoment

    def __str__(self) -> str:
        return f"{self.action}: {self.moment}"

    @property
    def too_late(self) -> bool:
        """Whether the action was carried out before the kill."""
        return self.moment in LATE


def strikes(seed: int) -> list[Strike]:
    """The kills that this seed chooses, in the order of the actions; of one action the early one first."""
    chance = _Chance(seed)
    edited = chance.one_of(("fix", "note"))
    twice = chance.one_of(("commit", "push", "pull", "comment"))
    plan = [Strike(edited, chance.one_of((*EARLY, *LATE)))]
    for action in ("commit", "push", "pull", "comment"):
        if action == twice:
            plan.append(Strike(action, StrikeMoment.BEFORE if action in GIT else chance.one_of(EARLY)))
        plan.append(Strike(action, WORST.get(action) or chance.one_of(LATE)))
    return [*plan, Strike("merge", StrikeMoment.BEFORE), Strike("merge", chance.one_of(LATE))]


class _Chance:
    """Choices that the seed decides: the same again for the same seed, on every machine."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._drawn = 0

    def one_of(self, choices: Sequence[T]) -> T:
        self._drawn += 1
        drawn = hashlib.sha256(f"{self._seed}:{self._drawn}".encode()).digest()
        return choices[int.from_bytes(drawn[:8]) % len(choices)]


class Fate:
    """The fate of this process: it dies at its strike, or lives."""

    def __init__(self, strike: Strike | None) -> None:
        self._strike = strike

    def enter(self, action: str) -> None:
        """An action begins: if it is the one, the process dies when its moment has come."""
        if self._strike is not None and self._strike.action == action:
            _die_after(POINTS[self._strike.moment])


def _die_after(names: Sequence[str]) -> None:
    first, rest = names[0], names[1:]
    arm(first, lambda: _die_after(rest) if rest else os.kill(os.getpid(), signal.SIGKILL))
