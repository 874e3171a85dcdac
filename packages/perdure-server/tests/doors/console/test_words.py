"""The console and the command line use the same words: states, heads of columns, labels of buttons."""

from __future__ import annotations

import json
import re
from enum import StrEnum
from pathlib import Path

import pytest

from perdure.cli import effects, feed, runs, worker
from perdure.cli.main import cli
from perdure.cli.tables import Column
from perdure.model.records.conversation import Status
from perdure.model.records.effects import EffectState
from perdure.model.records.memories import MemoryKind
from perdure.model.records.runs import RunStatus
from perdure.planes.access.tokens import TokenRole
from perdure_server import console
from perdure_server.commands import tokens
from sources import sources

STATIC = Path(console.__file__).parent / "static"
STATES = [
    ("effects", "STATES", EffectState), ("runs", "STATES", RunStatus), ("sessions", "STATES", Status),
    ("memory", "KINDS", MemoryKind), ("settings", "ROLES", TokenRole),
]  # fmt: skip
HEADS: list[tuple[str, str, tuple[Column, ...]]] = [
    ("runs", "Run", runs._columns({})), ("effects", "Effect", effects.COLUMNS), ("audit", "Stream", feed.COLUMNS),
    ("workers", "Oldest ready", worker.QUEUE_COLUMNS), ("settings", "Token", tokens.COLUMNS),
]  # fmt: skip
OF_PAGES = {
    "When": "an age of each row; the command line has an instant (at)",
    "Action": "the button of a row",
}


def text_of(page: str) -> str:
    return (STATIC / "pages" / f"{page}.mjs").read_text("utf-8")


def words_in(page: str, name: str) -> list[str]:
    (found,) = re.findall(rf"const {name} = (\[[^\]]*\])", text_of(page))
    return json.loads(found)


@pytest.mark.parametrize(("page", "name", "enum"), STATES)
def test_states_and_kinds_are_those_of_the_records(page: str, name: str, enum: type[StrEnum]) -> None:
    assert words_in(page, name) == [each.value for each in enum]


def foreign_heads(page: str, one: str, columns: tuple[Column, ...]) -> set[str]:
    """The heads of the table that has this one which no column of the command's listing is called."""
    tables = [json.loads(heads) for heads in re.findall(r'heads=\$\{(\["[^\]]*\])\}', text_of(page))]
    (heads,) = [[head.removeprefix("#") for head in heads] for heads in tables if one in heads]
    named = {name for each in columns for name in (each.heading, each.heading.removesuffix(" at"))}
    return {head for head in heads if head.lower() not in named and head not in OF_PAGES}


@pytest.mark.parametrize(("page", "one", "columns"), HEADS)
def test_columns_have_the_heads_of_the_listing(page: str, one: str, columns: tuple[Column, ...]) -> None:
    assert foreign_heads(page, one, columns) == set()


def test_control_a_head_of_its_own_is_noticed() -> None:
    assert foreign_heads("runs", "Run", effects.COLUMNS) == {
        "Status",
        "Agent",
        "Run",
        "Key",
        "Session",
        "Why",
        "Created",
    }


def test_buttons_of_a_run_say_what_help_says_of_their_commands() -> None:
    (verbs,) = re.findall(r"const VERBS = \{(.*?)\n\};", text_of("run"), re.DOTALL)
    labels = re.findall(r'(\w+): \["([^"]+)"', verbs)
    assert {verb for verb, _ in labels} == {"resume", "retry", "unpark", "cancel"}
    for verb, label in labels:
        said = f"{verb} {cli.get_command(None, verb).get_short_help_str(200)}".lower()  # type: ignore[union-attr,arg-type]
        assert {word for word in label.lower().split() if word not in said} <= {"it"}, f"{label}: {said}"


LOOSE = re.compile(r"\b(?:go|goes|going) on\b|\b[Ww]hoever\b|\b[Nn]obody is\b")


def test_pages_are_in_plain_words() -> None:
    found = {
        path.name: LOOSE.findall(path.read_text("utf-8")) for path in sources(".mjs") if path.parent.name != "vendor"
    }
    assert {name: each for name, each in found.items() if each} == {}
    assert LOOSE.search("the page goes on by itself")  # the control
