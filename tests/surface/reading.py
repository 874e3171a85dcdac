"""tools/surface.py as a module, and the tables of docs/surface as rows."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from sources import ROOT

DOORS = ROOT / "docs" / "surface" / "doors.txt"
ARGUMENTS = ROOT / "docs" / "surface" / "arguments.txt"


def load() -> ModuleType:
    """The tool, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("surface_tool", Path(ROOT, "tools", "surface.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["surface_tool"] = module
    spec.loader.exec_module(module)
    return module


class Gap(NamedTuple):
    """A row of arguments.txt."""

    door: str
    argument: str
    verbs: int
    why: str


def gaps() -> list[Gap]:
    """The arguments that doors do not take by their name, as they were agreed upon."""
    rows = re.findall(r"(?m)^(\w+) (\w+) \| (\d+) \| (.+)$", ARGUMENTS.read_text("utf-8"))
    return [Gap(door, argument, int(count), why) for door, argument, count, why in rows]


def reasons(path: Path) -> set[str]:
    """The reasons that a table explains."""
    return set(re.findall(r"(?m)^# reason (\w+): \S", path.read_text("utf-8")))


def beside() -> dict[str, str]:
    """Routes, commands and tools that offer no verb, each with the reason."""
    rows = re.findall(r"(?m)^= (.+) \| (\w+)$", DOORS.read_text("utf-8"))
    return {name: why for names, why in rows for name in names.split(", ")}
