"""A second SQLite library on the file of a store, in the same process and in another one, with kills: nothing is lost (P1).

PERDURE_ROUNDS sets how often each is repeated (20 for the proof).
"""

from __future__ import annotations

import contextlib
import random

import apsw
import pytest

import perdure
from faults.second_library import running
from faults.writer import ROUNDS, SEED
from perdure_testing.faults import kill_after


def stored(url: str) -> set[str]:
    """What is there after the kill; the file must be whole."""
    raw = apsw.Connection(url.removeprefix("sqlite:///"))
    assert raw.pragma("integrity_check") == "ok"
    raw.close()
    with perdure.open(url) as store:
        assert store.verify().ok
        return {row["said"] for row in store.query("SELECT doc ->> 'content' AS said FROM v_turns", limit=100_000)}


def acknowledged(program, rng: random.Random) -> set[str]:
    return {line.strip() for line in kill_after(program, rng.randint(50, 400))}


@pytest.mark.parametrize("what", ["inside", "attached"])
def test_in_the_same_process(tmp_path, what):
    url = f"sqlite:///{tmp_path}/agent.db"
    rng = random.Random(SEED)
    acked: set[str] = set()
    for number in range(ROUNDS):
        acked |= acknowledged(running(url, what, str(number)), rng)
        assert not acked - stored(url)


def test_in_the_same_process_with_another_writer(tmp_path):
    url = f"sqlite:///{tmp_path}/agent.db"
    perdure.open(url).close()
    rng = random.Random(SEED)
    acked: set[str] = set()
    for number in range(ROUNDS):
        with running(url, "outside", f"{number}b"):
            acked |= acknowledged(running(url, "inside", f"{number}a"), rng)
        assert not acked - stored(url)


def test_in_another_process(tmp_path):
    url = f"sqlite:///{tmp_path}/agent.db"
    perdure.open(url).close()
    rng = random.Random(SEED)
    acked: set[str] = set()
    for number in range(ROUNDS):
        with running(url, "looking", ""):
            acked |= acknowledged(running(url, "outside", str(number)), rng)
        assert not acked - stored(url)


def test_control_without_the_check_it_is_lost(tmp_path):
    url = f"sqlite:///{tmp_path}/agent.db"
    rng = random.Random(SEED)
    acked: set[str] = set()
    there: set[str] = set()
    for number in range(10):
        acked |= acknowledged(running(url, "attached", str(number), blind=True), rng)
        with contextlib.suppress(perdure.errors.Damaged, AssertionError, apsw.CorruptError):
            there = stored(url)
        if acked - there:
            return
    pytest.fail("nothing was lost")
