"""Each import from another distribution is declared by the package that has it: `deptry`, as in `make check`, and its control."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

from sources import PACKAGES, ROOT

MEMBERS = [package.parent.parent for package in PACKAGES]


def check(folder: Path, *words: str) -> tuple[int, int, str]:
    """What deptry makes of a folder: its exit code, the files that it has read, its text."""
    deptry = Path(sysconfig.get_path("scripts"), "deptry")
    ran = subprocess.run([deptry, "--no-ansi", *words], cwd=folder, capture_output=True, text=True, check=False)
    counts = re.findall(r"Scanning (\d+) files?", ran.stderr)
    assert len(counts) == 1, ran.stderr
    return ran.returncode, int(counts[0]), ran.stderr


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_every_import_of_a_package_is_declared(member: Path) -> None:
    code, count, text = check(member, "src")
    assert code == 0, text
    assert count == len([*(member / "src").rglob("*.py")])


def test_every_import_of_tests_and_tools_is_locked() -> None:
    (words,) = re.findall(r"(?m)^\t\.venv/bin/deptry (.*)$", (ROOT / "Makefile").read_text("utf-8"))
    folders = [path.relative_to(ROOT).as_posix() for word in words.split() for path in ROOT.glob(word)]
    code, count, text = check(ROOT, *folders)
    assert code == 0, text
    assert count > 500


def test_control_an_import_that_is_declared_nowhere_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import msgspec\nimport httpcore\n")
    (tmp_path / "pyproject.toml").write_bytes((MEMBERS[0] / "pyproject.toml").read_bytes())
    code, count, text = check(tmp_path, "--ignore", "DEP002", ".")
    assert (code, count) == (1, 1)
    assert "'httpcore' imported but" in text
    assert "'msgspec' imported but" not in text
