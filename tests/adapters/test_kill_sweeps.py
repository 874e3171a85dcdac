"""The table of the sweeps of kills: rows that tests tell are added up, and a control that nothing was caught of is seen."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from adapters.sweeping import tell

TOOLS = Path(__file__).resolve().parents[2] / "tools"
NUMBERS = {"points": 50, "killed": 49, "twice": 0, "lost": 0, "paid again": 0, "stranded": 0, "unrecorded": 2}


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{name}_tool", TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def kill_sweeps(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setitem(sys.modules, "adapters", loaded("adapters"))  # as it is for the tool, whose folder comes first
    return loaded("kill_sweeps")


def test_rows_that_tests_tell_are_added_up(kill_sweeps: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    tell("swept", "strands", "sqlite", NUMBERS)
    tell("swept", "strands", "again", {**NUMBERS, "paid again": 3, "total": 50})
    tell("control", "strands", "stock", {**NUMBERS, "points": 4, "twice": 3})
    tell("control", "strands", "asks-anew", {**NUMBERS, "paid again": 20})
    tell("control", "strands", "harmless", {**NUMBERS, "paid again": 20})  # as Claude's program pays in any case
    line = kill_sweeps.line_of("strands", kill_sweeps.rows_in(f".{capsys.readouterr().out}..\n3 passed"))
    table, _, controls = line.partition("  2 of 3 ")
    assert table.split() == ["strands", "100", "98", "0", "0", "3", "0", "4"]
    assert controls == "(stock 3/4, asks-anew 20/50, harmless 0/50)"


def test_every_framework_has_its_sweeps(kill_sweeps: ModuleType) -> None:
    assert len(kill_sweeps.SWEEPS) == 7
    for files, _ in kill_sweeps.SWEEPS.values():
        assert all((kill_sweeps.TESTS / "adapters" / each).is_file() for each in files)


def test_other_lines_are_no_rows(kill_sweeps: ModuleType) -> None:
    assert kill_sweeps.rows_in(f"swept the floor\nxswept strands sqlite: {json.dumps(NUMBERS)}") == []
