"""Folders for what is killed: they go at the end, or with the next one; those of the living stay."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from forked import Program, environment
from perdure_testing import scratch

HOLD = """
import sys
from pathlib import Path
from perdure_testing import scratch
scratch.MEMORY = Path(sys.argv[1])
with scratch.scratch("t-") as folder:
    (folder / "file").touch()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "MEMORY", tmp_path / "not there")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def aged(folder):
    os.utime(folder, (1, 1))
    return folder


def holder(place):
    program = Program("-c", HOLD, str(place), env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return program, Path(program.stdout.readline().strip())


def test_it_goes_at_the_end(place):
    with scratch.scratch("t-") as folder:
        (folder / "file").touch()
        assert folder.parent == place
    assert [*place.iterdir()] == []


def test_what_a_killed_one_left_goes_with_the_next_of_its_prefix(place):
    program, left = holder(place)
    with program:
        program.send_signal(signal.SIGKILL)
    aged(left)
    with scratch.scratch("u-"):
        assert left.exists()
    with scratch.scratch("t-"):
        assert not left.exists()


def test_what_a_living_one_has_stays(place):
    program, living = holder(place)
    with program:
        aged(living)
        with scratch.scratch("t-"):
            assert (living / "file").exists()


def test_one_that_was_made_just_now_stays_though_nobody_has_locked_it_yet(place):
    young = place / "t-young"
    young.mkdir()
    with scratch.scratch("t-"):
        assert young.exists()


def test_what_a_link_leads_to_stays(place):
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    (place / "t-link").symlink_to(aged(elsewhere))
    os.utime(place / "t-link", (1, 1), follow_symlinks=False)
    with scratch.scratch("t-"):
        assert elsewhere.exists()
