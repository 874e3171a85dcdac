"""The promises are defined once, in docs/promises.md: each number that is cited stands there, with files that are there."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from sources import CORE, PACKAGES, ROOT, at_least, sources

PAGE = (ROOT / "docs" / "promises.md").read_text("utf-8")
ROW = re.compile(r"(?m)^\| \*\*P(\d+)\*\* \| \*\*(.+?)\*\*(.*?) \| (.+?) \| (.+?) \|$")
CITED = re.compile(r"\bP(\d{1,2})\b")
ABSENT = re.compile(r"DESIGN (?:§ ?)?\d|DESIGN\.md|\b[A-Z]{4,}\.md,? §")  # a page that is not in the project


def cited(text: str) -> set[int]:
    """The promises that a text cites."""
    return {int(number) for number in CITED.findall(text)}


def texts() -> Iterator[tuple[str, str]]:
    """Every file in which a promise may be cited."""
    folders = (
        "tests",
        "docs",
        "tools",
        "examples",
        "clients",
        *(f"packages/{path.parent.name}/tests" for path in ROOT.glob("packages/*/tests")),
    )
    beside = [path for folder in folders for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES]
    pages = [
        *ROOT.glob("*.md"),
        *[path for path in beside if not {"fixtures", "vendor", "node_modules"} & {*path.parts}],
    ]
    for path in [*sources(".py", ".sql"), *at_least(600, pages, "tests and pages")]:
        yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8")


HOMES = (
    CORE,
    *(package.parent for package in PACKAGES),
)  # `effects/ledger.py` of the core, `perdure_files/store/purge.py`
SUFFIXES = (".md", ".py", ".tla", ".ts", ".mjs")


def test_every_promise_has_a_row() -> None:
    assert [int(row[0]) for row in ROW.findall(PAGE)] == [*range(1, 16)]


def test_every_promise_that_is_cited_is_defined() -> None:
    defined = {int(row[0]) for row in ROW.findall(PAGE)}
    uses = {path: numbers for path, text in texts() if (numbers := cited(text))}
    assert len(uses) > 300
    assert {path: numbers - defined for path, numbers in uses.items() if numbers - defined} == {}
    assert set().union(*uses.values()) == defined


@pytest.mark.parametrize("row", ROW.findall(PAGE), ids=lambda row: f"P{row[0]}")
def test_a_promise_names_files_that_are_there_and_cite_it(row: tuple[str, ...]) -> None:
    kept, proved = (re.findall(r"`([\w/.-]+)`", cell) for cell in row[3:])
    assert [name for name in kept if not any((place / name).exists() for place in HOMES)] == []
    assert [name for name in proved if not (ROOT / name).exists()] == []
    assert len(kept) >= 2
    assert len(proved) >= 2


def test_no_page_is_cited_that_is_not_in_the_project() -> None:
    assert [path for path, text in texts() if path != "tests/test_promises.py" and ABSENT.search(text)] == []


def test_control_a_number_that_is_not_there_is_seen() -> None:
    assert cited(f"Keeps P1, P2-P4, P{99}; not P-1, P100, HTTP2 or p5.") == {1, 2, 4, 99}
    assert all(ABSENT.search(text) for text in ("(DESIGN §4)", "DESIGN 5", "see MEMORY.md §2"))
    assert not ABSENT.search("docs/DESIGN is a word; RFC 4648 §4")
