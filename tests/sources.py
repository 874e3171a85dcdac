"""The project's own source: one walk for every check that reads it. It fails when it meets fewer files than there are.

Without that, a rule over a folder that was moved or renamed passes: it has nothing to look at.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
ROOT = Path(__file__).resolve().parent.parent
SIBLINGS = ("server", "agents", "adapters", "files", "testing", "evaluate")
CORE = ROOT / "packages" / "perdure" / "src" / "perdure"
PACKAGES = (CORE, *(ROOT / "packages" / f"perdure-{name}" / "src" / f"perdure_{name}" for name in SIBLINGS))
TESTS = (ROOT / "tests", *(package.parent.parent / "tests" for package in PACKAGES))
LEAST = {".py": 600, ".sql": 40, ".mjs": 15}  # well below what is there, so that code can go; far above an empty folder


def at_least(count: int, things: Sequence[T], what: str) -> list[T]:
    """All of them, if they are so many. A check that looks at fewer has lost what it is about."""
    assert len(things) >= count, f"{what}: {len(things)}, and there must be at least {count}: was a folder moved?"
    return list(things)


def sources(*suffixes: str, packages: Sequence[Path] = PACKAGES) -> list[Path]:
    """Every file of the packages with one of these suffixes, in order."""
    paths = sorted(path for package in packages for path in package.rglob("*") if path.suffix in suffixes)
    for suffix in suffixes:
        at_least(LEAST[suffix], [path for path in paths if path.suffix == suffix], f"{suffix} files of the source")
    return paths


def of_core(*suffixes: str) -> list[Path]:
    """Every file of the core with one of these suffixes: what its own tests may ask for."""
    return [path for path in sources(*suffixes) if path.is_relative_to(CORE)]


def within_package(path: Path) -> Path:
    """The place of a file below the core, or that of a sibling's file with the sibling's name before it."""
    package = next(package for package in PACKAGES if path.is_relative_to(package))
    return path.relative_to(package if package == CORE else package.parent)


def module_name(path: Path) -> str:
    """What a module is called in an import."""
    package = next(package for package in PACKAGES if path.is_relative_to(package))
    return ".".join(path.relative_to(package.parent).with_suffix("").parts)
