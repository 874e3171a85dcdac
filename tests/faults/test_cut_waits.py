"""Commits whose wait for a synchronous standby is cut: nobody hears success of what no standby has (P1), and nothing is sent on
an intent that would be gone after a failover (P2, P3). docs/decisions/0146.

The standby is a real one whose receiver is stopped. Callers of several processes wait for it; their waits are cut by a cancel, a
termination, a Ctrl-C, a cancelled task, or a restart of the primary. Then the standby is promoted, and each caller repeats its
call under its key, as a program does that starts again. A witness outside counts. PERDURE_ROUNDS says how many promotions (20
for the proof).
"""

from __future__ import annotations

import logging
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from signal import SIGINT, SIGUSR1
from typing import Any

import psycopg
import pytest

import perdure
from faults.callers import TASKS, THREADS, World, pay, says
from faults.taking_back import StalledStandby, taking_back, until
from perdure_testing.witness import Witness
from shared_fixtures import quick_folder

log = logging.getLogger(__name__)

SEED = int(os.environ.get("PERDURE_SEED", "20261"))
ROUNDS = int(os.environ.get("PERDURE_ROUNDS", "1"))
PROCESSES = ("p1", "p2") if ROUNDS > 1 else ("p1",)
CALLERS = 1 + THREADS + TASKS
VOLLEYS = 2  # of cuts before the standby takes over: the second one meets those who ask what became of their commit


class Callers:
    """A process of callers, and what they have heard."""

    def __init__(self, url: str, witness: Witness, name: str, timeout: float, *, control: bool) -> None:
        words = [url, str(witness.port), name, str(timeout), "control" if control else "proof"]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-m", "faults.callers", *words]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.heard: set[str] = set()
        self.refused: list[str] = []
        self._rested = threading.Semaphore(0)
        self.names = self._line().split()[1:]
        threading.Thread(target=self._listen, daemon=True).start()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def _listen(self) -> None:
        while line := self._line():
            kind, *words = line.split()
            if kind == "heard":
                self.heard.add(words[0])
            elif kind == "refused":
                self.refused.append(words[1])
            else:
                self._rested.release()
        self._rested.release()

    def go(self) -> None:
        self._tell("go")

    def rest(self) -> None:
        """Until each of them has an outcome."""
        assert self._rested.acquire(timeout=300)
        assert self._process.poll() is None, "the callers died"

    def _tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class Cutter:
    """Cuts waits, in one way after the other, and counts them."""

    def __init__(self, servers: StalledStandby, callers: list[Callers], chance: random.Random) -> None:
        self._servers = servers
        self._callers = callers
        self._chance = chance
        self.cuts: Counter[str] = Counter()

    def volley(self, *, restart: bool) -> None:
        """Cut the waits of all who wait now."""
        waiting = self._servers.waiting()
        if restart:
            self.cuts["restart"] += len(waiting)
            self._servers.primary.kill()
            self._servers.primary.restart()
            return
        for each in self._callers:
            each.signal(SIGINT)
            each.signal(SIGUSR1)
        self.cuts["Ctrl-C"] += len(self._callers)
        self.cuts["task.cancel"] += TASKS * len(self._callers)
        with psycopg.connect(self._servers.primary.url(), autocommit=True) as admin:
            for pid in self._servers.waiting():
                how = self._chance.choice(["cancel", "terminate"])
                self.cuts[how] += admin.execute(f"SELECT pg_{how}_backend({pid})".encode()).fetchone() == (True,)


class Onlooker(threading.Thread):
    """Another process's part: it reads a turn that no standby has, and then sends an effect of its own."""

    def __init__(self, url: str, name: str, port: int) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._name = name
        self.saw = False
        World.port = port
        self.start()

    def run(self) -> None:
        with perdure.open(self._url, timeout=120) as store:
            until(lambda: turns(store, self._name) > 0)
            self.saw = True
            store.session(self._name).act(pay, "onlooker", key="onlooker")


class Round:
    """One promotion. late: the callers have given up before it; else they are still asking what became of their commits."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.late = self._chance.random() < 0.3
        self.restart = self._chance.random() < 0.2
        self.cuts: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def run(self, servers: StalledStandby, witness: Witness, *, control: bool = False) -> list[str]:
        """Gives what went wrong."""
        timeout = 2.0 if self.late else 30.0
        with calling(servers.url, witness, timeout, control=control) as callers:
            servers.stall()
            for each in callers:
                each.go()
            until(lambda: len(servers.waiting()) == CALLERS * len(callers))
            self._cut(servers, callers)
            onlooker = Onlooker(servers.url, next(filter(says, callers[0].names)), witness.port)
            until(lambda: onlooker.saw)
            if self.late:
                self._wear_out(servers, callers)
            sent, heard = witness.arrived(), set[str]().union(*(each.heard for each in callers))
            servers.happen()
            wrong = self._lost(servers.url, heard, sent)
            onlooker.join()
            for each in callers:
                each.rest()
            wrong += self._repeat(servers.url, callers, witness)
            self.refused = Counter(error for each in callers for error in each.refused)
        return wrong

    def _cut(self, servers: StalledStandby, callers: list[Callers]) -> None:
        cutter = Cutter(servers, callers, self._chance)
        self.cuts = cutter.cuts
        for number in range(VOLLEYS):
            cutter.volley(restart=self.restart and not number)
            time.sleep(0.2)  # they connect again, and ask: whether they do so in time changes only what is cut next

    def _wear_out(self, servers: StalledStandby, callers: list[Callers]) -> None:
        """Cut whoever asks, until all have given up."""
        ended = threading.Event()

        def rest() -> None:
            for each in callers:
                each.rest()
                each._rested.release()
            ended.set()

        threading.Thread(target=rest, daemon=True).start()
        with psycopg.connect(servers.primary.url(), autocommit=True) as admin:
            while not ended.wait(0.2):
                for pid in servers.waiting():
                    self.cuts["cancel"] += admin.execute(f"SELECT pg_cancel_backend({pid})".encode()).rowcount

    def _lost(self, url: str, heard: set[str], sent: Counter[str]) -> list[str]:
        """What had been told, or sent, before the standby took over, and is not there."""
        with perdure.open(url) as store:
            wrong = [f"{name} heard success, and it is gone" for name in heard if not stored(store, name)]
            known = {effect.key for effect in store.effects(limit=1000)}
            return wrong + [f"{name} was sent, and no intent is there" for name in sent if name not in known]

    def _repeat(self, url: str, callers: list[Callers], witness: Witness) -> list[str]:
        for each in callers:
            each.go()
        for each in callers:
            each.rest()
        with perdure.open(url) as store:
            names = [name for each in callers for name in each.names]
            wrong = [f"{name} arrived {times} times" for name, times in witness.arrived().items() if times > 1]
            wrong += [f"{name} heard success, and it is gone" for each in callers for name in each.heard
                      if not stored(store, name)]  # fmt: skip
            wrong += [f"{name} is there twice" for name in names if says(name) and turns(store, name) > 1]
            return wrong if store.verify().ok else [*wrong, "the store does not verify"]


def turns(store: perdure.Store, name: str) -> int:
    return sum(turn.content == name for turn in store.session(name).turns())


def stored(store: perdure.Store, name: str) -> bool:
    if says(name):
        return turns(store, name) > 0
    return any(effect.key == name and effect.state == "committed" for effect in store.effects(limit=1000))


@contextmanager
def calling(url: str, witness: Witness, timeout: float, *, control: bool) -> Iterator[list[Callers]]:
    with ExitStack() as ends:
        callers = []
        for name in PROCESSES:
            callers.append(Callers(url, witness, name, timeout, control=control))
            ends.callback(callers[-1].close)
        yield callers


@pytest.fixture
def play(tmp_path: Path, postgres_template: Any) -> Any:
    def played(one: Round, *, control: bool = False) -> list[str]:
        path = tmp_path / "arrived"
        path.unlink(missing_ok=True)
        with taking_back(StalledStandby, quick_folder(tmp_path), postgres_template) as servers:
            assert isinstance(servers, StalledStandby)
            with Witness.start(path) as witness:
                return one.run(servers, witness, control=control)

    return played


def test_nobody_hears_success_of_what_no_standby_has(play: Any) -> None:
    cuts: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for number in range(ROUNDS):
        one = Round(SEED + number)
        wrong = play(one)
        cuts += one.cuts
        refused += one.refused
        log.info("%d: late %s, cuts %s, wrong %s", number, one.late, dict(one.cuts), wrong)
        assert not wrong, (SEED + number, wrong)
    log.info("promotions %d, cuts %d %s, refused %s", ROUNDS, cuts.total(), dict(cuts), dict(refused))


@pytest.mark.skipif(ROUNDS == 1, reason="the control of the sweep: it takes a promotion of its own")
def test_without_the_look_at_the_reply_it_is_lost(play: Any) -> None:
    """The control."""
    wrong = play(Round(SEED), control=True)
    assert any("heard success, and it is gone" in each for each in wrong), wrong
    assert any("arrived 2 times" in each for each in wrong), wrong
