"""Every check that walks the source looks at something: the walk itself, and what pyproject.toml tells the checkers to read."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from sources import ROOT, at_least, module_name, sources

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def unread(folders: list[str], paths: list[Path]) -> list[str]:
    """The files that lie in none of the folders."""
    return [str(path) for path in paths if not any(path.is_relative_to(ROOT / folder) for folder in folders)]


def expanded(pattern: str) -> list[str]:
    """A pattern with a choice in braces as one pattern each."""
    head, _, rest = pattern.partition("{")
    choice, _, tail = rest.partition("}")
    return [f"{head}{word}{tail}" for word in choice.split(",")]


def empty(patterns: list[str], root: Path) -> list[str]:
    """The patterns that no file matches."""
    single = [part for pattern in patterns for part in expanded(pattern)]
    return [part for part in single if not any(root.glob(f"{part}/*.py" if part.endswith("**") else part))]


def test_control_an_empty_folder_is_no_source(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"\.py files of the source: 0, and there must be at least"):
        sources(".py", packages=[tmp_path])
    with pytest.raises(AssertionError, match="pages: 2, and there must be at least 3"):
        at_least(3, [1, 2], "pages")


def test_a_module_is_named_as_it_is_imported() -> None:
    names = {module_name(path) for path in sources(".py")}
    assert {"perdure.errors", "perdure.stores.tx", "perdure.planes.__init__"} <= names


def test_the_type_checker_reads_all_of_the_source() -> None:
    """It says "no source files found" and is content when its folders are gone."""
    assert unread(PROJECT["tool"]["basedpyright"]["include"], sources(".py")) == []
    assert len(unread(["docs"], sources(".py"))) >= 600


def test_every_exception_of_the_linter_is_for_files_that_are_there() -> None:
    patterns = list(PROJECT["tool"]["ruff"]["lint"]["per-file-ignores"])
    assert empty(patterns, ROOT) == []
    assert empty(["packages/*/nowhere/**", "packages/perdure/src/perdure/{errors,terrors}.py"], ROOT) == [
        "packages/*/nowhere/**", "packages/perdure/src/perdure/terrors.py",
    ]  # fmt: skip


def test_a_sweep_over_nothing_is_an_error() -> None:
    """pytest skips a test whose list of cases is empty unless it is told otherwise."""
    assert PROJECT["tool"]["pytest"]["ini_options"]["empty_parameter_set_mark"] == "fail_at_collect"
