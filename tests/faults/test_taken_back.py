"""A PostgreSQL database that went back in time: nothing outside is done twice in silence (P3, P4). docs/decisions/0038.

A process of its own runs errands with every kind of effect, against a witness. At one spot the database is remembered, at a later
one it is taken back there, by point-in-time recovery or by a standby that was held back. Then the survivors go on: the same
process, a fresh one, or one that was open all the time. PERDURE_ROUNDS says how many rounds of each (20 for the proof).
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import perdure
from faults import errands
from faults.taking_back import Recovery, Rewinding, Standby, SynchronousStandby, taking_back
from perdure.runtime.callers import caller_of
from perdure.stores.continuity import Continuity
from perdure.stores.rollback_guard import RollbackGuard
from perdure_testing.postgres import PostgresServer
from perdure_testing.witness import Witness
from shared_fixtures import quick_folder

pytest.importorskip("psycopg")
log = logging.getLogger(__name__)

SEED = 20_261
ROUNDS = int(os.environ.get("PERDURE_ROUNDS", "1"))
SPOTS = len(errands.ERRANDS) * (len(errands.TOOLS) + 1)
LIVES = ("killed, fresh", "killed, idle", "running", "idle, then running")


class Driver:
    """The process that runs errands."""

    def __init__(self, url: str, port: int, stops: list[int], order_of: list[int], *, control: bool) -> None:
        words = [
            url,
            str(port),
            ",".join(map(str, stops)),
            "".join(map(str, order_of)),
            "control" if control else "proof",
        ]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-m", "faults.errands", *words]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def said(self) -> str:
        """The next line."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def driven(*about: Any, **how: Any) -> Iterator[Driver]:
    driver = Driver(*about, **how)
    try:
        yield driver
    finally:
        driver.kill()


class Round:
    """One round: what is done in which order, where the database is remembered, where it is taken back, and who goes on."""

    def __init__(self, seed: int, lives: str = "") -> None:
        chance = random.Random(seed)
        self.order_of = chance.sample(range(len(errands.TOOLS)), len(errands.TOOLS))
        self.stops = sorted(chance.sample(range(1, SPOTS + 1), 2))
        self.lives = lives or chance.choice(LIVES)
        self.came = ""  # what the process said that lived through it

    def run(self, taken: Rewinding, witness: Witness, *, control: bool) -> int:
        """Gives the epoch at the end."""
        errands.World.port = witness.port
        with closing(errands.opened(taken.url)) as idle:
            errands.begin(idle, self.order_of)
            with driven(taken.url, witness.port, self.stops, self.order_of, control=control) as driver:
                assert driver.said() == f"spot {self.stops[0]}"
                taken.remember()
                driver.go_on()
                assert driver.said() == f"spot {self.stops[1]}"
                taken.happen()
                self._go_on(taken.url, idle, driver)
            with closing(errands.opened(taken.url)) as last:
                errands.drive(last, self.order_of)
                assert last.verify().ok
                return caller_of(last).core.epoch

    def _go_on(self, url: str, idle: Any, driver: Driver) -> None:
        if "killed" in self.lives:
            driver.kill()
        if "idle" in self.lives:
            errands.drive(idle, self.order_of)
        if "fresh" in self.lives:
            with closing(errands.opened(url)) as fresh:
                errands.drive(fresh, self.order_of)
        if "running" in self.lives:
            driver.go_on()
            self.came = driver.said()
            assert self.came.startswith("came")


def repeated(witness: Witness) -> Counter[str]:
    """What arrived more than once though it must not."""
    seen = witness.arrived()
    return Counter(
        {what: n for what, n in seen.items() if n > 1 and what.partition("/")[2] not in errands.TWICE_IS_ONCE}
    )


@pytest.fixture
def play(tmp_path: Path, postgres_template) -> Callable[..., tuple[int, Counter[str]]]:
    """Plays a round on servers of its own; gives the epoch and what was repeated."""

    def played(kind: type[Rewinding], one: Round, *, control: bool = False) -> tuple[int, Counter[str]]:
        path = tmp_path / "arrived"
        path.unlink(missing_ok=True)
        with taking_back(kind, quick_folder(tmp_path), postgres_template) as taken, Witness.start(path) as witness:
            epoch = one.run(taken, witness, control=control)
            return epoch, repeated(witness)

    return played


@pytest.mark.parametrize("kind", [Recovery, Standby])
def test_nothing_is_repeated_in_silence(play, kind):
    for number in range(ROUNDS):
        one = Round(SEED + number)
        epoch, twice = play(kind, one)
        log.info(
            "%s %d: %s, %s, epoch %d, repeated %s", kind.__name__, number, one.lives, one.stops, epoch, dict(twice)
        )
        assert not twice, (number, one.lives, one.stops, one.order_of)
        assert epoch == 2, (number, one.lives, one.stops)


def losing(lives: str) -> Round:
    """A round in which a payment is lost that was made and acknowledged."""
    one = Round(SEED, lives)
    one.order_of, one.stops = [0, 1, 2, 3], [1, SPOTS - 2]
    return one


@pytest.mark.parametrize("kind", [Recovery, Standby] if "PERDURE_ROUNDS" in os.environ else [Recovery])
@pytest.mark.parametrize("lives", LIVES[:3] if "PERDURE_ROUNDS" in os.environ else LIVES[:1])
def test_without_the_look_it_is_repeated(play, monkeypatch, kind, lives):
    """The control."""
    for name in ("begin", "met", "resumed"):
        monkeypatch.setattr(Continuity, name, lambda *_: None)
    monkeypatch.setattr(RollbackGuard, "note", lambda *_: None)
    epoch, twice = play(kind, losing(lives), control=True)
    log.info("control %s: %s, epoch %d, repeated %s", kind.__name__, lives, epoch, dict(twice))
    assert epoch == 1
    assert twice


def put_back_while_nothing_runs(server: PostgresServer, copy: Path) -> int:
    """The data of a server is put back as it was, like the snapshot of a volume. Gives the epoch of who comes next."""
    url = server.url(schema="s")
    with perdure.open(url) as store:
        store.session("s").say("user", "one")
    server.kill()
    subprocess.run(["cp", "-a", server.data, copy], check=True)
    server.restart()
    with perdure.open(url) as store:
        store.session("s").say("user", "two")
    server.kill()
    shutil.rmtree(server.data)
    subprocess.run(["cp", "-a", copy, server.data], check=True)
    server.restart()
    with perdure.open(url) as store:
        assert len(store.session("s").turns()) == 1
        return caller_of(store).core.epoch


@pytest.mark.parametrize(("marks", "epoch"), [(True, 2), (False, 1)], ids=["noticed", "control: without a mark"])
def test_a_volume_that_is_put_back_while_nothing_runs_is_noticed(private_postgres, tmp_path, monkeypatch, marks, epoch):
    """The server says nothing of it: its time line is the same."""
    if not marks:
        monkeypatch.setattr(RollbackGuard, "note", lambda *_: None)
    assert put_back_while_nothing_runs(private_postgres, tmp_path / "copy") == epoch


def test_a_standby_that_has_everything_takes_over_without_doubt(play):
    one = losing("running")
    epoch, twice = play(SynchronousStandby, one)
    assert (one.came, epoch, twice) == ("came done done", 1, Counter())
