"""A clock that is wrong, and for whom."""

from __future__ import annotations

import subprocess
import sys

import pytest

from perdure_testing import wrong_clock

FOLLOWS = """
import subprocess, sys, time
from datetime import UTC, datetime
from pathlib import Path
import apsw
from perdure_testing import wrong_clock
began, ticks = time.time(), time.monotonic()
path = Path(sys.argv[1])
wrong_clock.move(path, 0)
wrong_clock.follow(path)
database = apsw.Connection(":memory:")
def hours(now):
    return round((now - began) / 3600)
for moved in (0, 7200, -3600):
    wrong_clock.move(path, moved)
    told = database.execute("SELECT unixepoch('now')").get
    other = subprocess.run([sys.executable, "-c", "import time; print(time.time())"], capture_output=True, check=True)
    print(hours(time.time()), hours(time.time_ns() / 1e9), hours(datetime.now(UTC).timestamp()), hours(told),
          hours(float(other.stdout)), round((time.monotonic() - ticks) / 3600))
"""


def test_all_of_a_process_follows_and_nobody_else(tmp_path) -> None:
    if why := wrong_clock.missing():
        pytest.skip(f"wrong clocks are not tested: {why}")
    command = [sys.executable, "-c", FOLLOWS, str(tmp_path / "clock")]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == ["0 0 0 0 0 0", "2 2 2 2 0 0", "-1 -1 -1 -1 0 0"]


def test_where_it_cannot_be_done_it_says_so(monkeypatch) -> None:
    monkeypatch.setattr(wrong_clock.platform, "machine", lambda: "vax")
    wrong_clock.missing.cache_clear()
    try:
        assert "x86-64 only" in wrong_clock.missing()
    finally:
        wrong_clock.missing.cache_clear()
