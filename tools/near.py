"""Run the tests nearest to a file: `make near FILE=docs/files.md`, or `python tools/near.py FILE [options of pytest]`.

They are the tests of the same path below tests/ and those that import the module; if there are none, those of its folder, or of
the first folder above it that has tests. It prints what it chose, and why.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent


def tests() -> list[Path]:
    """All files of tests."""
    return sorted(path for folder in ("tests", "packages") for path in (TOP / folder).rglob("test_*.py"))


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports, and the names that it takes from them as if each were a module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def near_module(beside: Path, module: str) -> list[Path]:
    """The tests of a module: of the same path below tests/, and those that import it."""
    mirror = beside.with_stem(f"test_{beside.stem}").parts
    likely = [path for path in tests() if module.rpartition(".")[2] in path.read_text()]  # nothing else need be parsed
    return [path for path in likely if path.parts[-len(mirror) :] == mirror or module in imported(path)]


def near_folders(beside: Path, package: Path) -> list[Path]:
    """The folders of tests that have the path of the first folder above a module that any has, or all tests of its package."""
    folders = (sorted((package / "tests").rglob(str(folder))) for folder in beside.parents if folder.name)
    return next(filter(None, folders), [package / "tests"])


def near(file: Path) -> tuple[str, list[Path], list[str]]:
    """Why these tests are the nearest, their files, and further words for pytest."""
    parts, dotted = list(file.parts), lambda words: ".".join(words).removesuffix(".py").removesuffix(".__init__")
    if file.suffix == ".md":
        cases = ["-k", f"{file.stem} or links or cited or named or plain"]
        return "checks of pages", [*TOP.glob("tests/test_docs*.py")], cases
    if file.name.startswith("test_"):
        return "it is a test", [TOP / file], []
    if parts[0] == "packages" and parts[2] == "src":
        inside = Path(*parts[3:]).with_suffix(".py")  # a file of SQL has its module beside it
        module, beside, package = dotted(inside.parts), Path(*inside.parts[1:]), TOP / "packages" / parts[1]
        found = near_module(beside, module)
        why = f"the same path, or an import of {module}" if found else "the folder"
        return why, found or near_folders(beside, package), []
    below = parts[parts.index("tests") + 1 :] if "tests" in parts else parts
    found = near_module(file, dotted(below)) or [path for path in tests() if file.name in path.read_text()]
    return "the same path, an import, or its name", found, []


def main(words: list[str]) -> None:
    """Run them; the rest of the command line is for pytest."""
    file = Path(words[0]).absolute().relative_to(TOP)
    assert (TOP / file).exists(), f"there is no file {file}"
    why, found, more = near(file)
    chosen = [*(str(path.relative_to(TOP)) for path in found), *more]
    print(f"nearest to {file} ({why}):", *(chosen or ["nothing: no test names it"]), sep="\n  ", flush=True)
    if chosen:
        os.execv(sys.executable, [sys.executable, "-m", "pytest", *chosen, *words[1:]])


if __name__ == "__main__":
    main(sys.argv[1:] or sys.exit("usage: near.py FILE [options of pytest]"))
