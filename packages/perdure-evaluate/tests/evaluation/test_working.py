"""The cases of workers: that they measure what they say, with real processes. How fast is for `perdure bench` to tell."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from perdure.errors import Unavailable
from perdure_evaluate.bench import run, workers
from perdure_evaluate.bench.case import Context

SMALL = 0.01
TARGETS = {"begin": "≤ 50", "begin-postgres": "≤ 20", "takeover": "≤ 1", "takeover-postgres": "≤ 1"}


@pytest.mark.parametrize("name", TARGETS)
def test_a_figure_with_its_target(tmp_path, request, name):
    case = run.CASES[name]
    url = request.getfixturevalue("postgres_url") if case.needs_postgres else None
    (figure,) = case.run(Context(tmp_path, url, SMALL))
    assert figure.target == TARGETS[name]
    assert figure.value > 0
    assert ("p50 of 5 starts" if "begin" in name else "of 10 runs the first after") in figure.detail
    assert ("PostgreSQL" if case.needs_postgres else "SQLite") in figure.measure


def test_only_steps_of_other_processes_count():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as victim:
        handles = [Played("a", [[1, victim.pid]], [[5_000_000_000_000_000, os.getpid()]])]
        (seconds,) = workers._struck(victim.pid, handles)
    assert seconds > 1  # not the step that was done before


class Played:
    """A run whose steps are found one look after the other."""

    def __init__(self, name, *looks):
        self.id = name
        self._looks = list(looks)
        self._found: list[Step] = []

    def _read(self, _verb):
        if self._looks:
            self._found += [Step(value) for value in self._looks.pop(0)]
        return self._found


class Step:
    def __init__(self, value):
        self.value = value


def test_what_does_not_come_is_said(monkeypatch):
    monkeypatch.setattr(workers, "PATIENCE_SECONDS", 0.01)
    with pytest.raises(Unavailable, match="a worker"):
        workers._until(lambda: None, "a worker")
