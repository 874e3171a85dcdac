"""The witness: what arrived is counted once for a key, as often as it came without one, and though its sender died."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from perdure_testing.witness import Witness, count, tell

SENDER = """
import os, signal, sys
from perdure_testing.witness import tell
tell(int(sys.argv[1]), "a", lands=0.05, sent=lambda: os.kill(os.getpid(), signal.SIGKILL))
"""


@pytest.fixture
def seen(tmp_path) -> Iterator[Witness]:
    with Witness.start(tmp_path / "witness") as witness:
        yield witness


def test_it_counts_what_arrives(seen):
    assert [tell(seen.port, "a"), tell(seen.port, "b"), tell(seen.port, "a")] == [1, 1, 2]
    assert [count(seen.port, what) for what in "abc"] == [2, 1, 0]
    assert seen.arrived() == Counter(a=2, b=1)
    assert seen.arrived("a") == Counter(a=2)


def test_with_a_key_it_arrives_once(seen):
    assert [tell(seen.port, "a", key="k"), tell(seen.port, "a", key="k"), tell(seen.port, "a", key="l")] == [1, 1, 2]
    assert seen.arrived() == Counter(a=2)


def test_what_was_sent_lands_though_its_sender_died(seen):
    sender = subprocess.run([sys.executable, "-c", SENDER, str(seen.port)], check=False)
    assert sender.returncode == -signal.SIGKILL
    until = time.monotonic() + 60
    while not count(seen.port, "a") and time.monotonic() < until:
        time.sleep(0.01)
    assert seen.arrived() == Counter(a=1)


def test_it_ends_with_its_owner(tmp_path):
    owner = (
        "import sys, os\nfrom pathlib import Path\nfrom perdure_testing.witness import Witness\n"
        f"w = Witness.start(Path({str(tmp_path / 'witness')!r}))\nprint(w._program.pid, flush=True)\nos._exit(1)"
    )
    said = subprocess.run([sys.executable, "-c", owner], capture_output=True, text=True, check=False).stdout
    until = time.monotonic() + 60
    while alive(int(said)) and time.monotonic() < until:
        time.sleep(0.01)
    assert not alive(int(said))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
