"""Hostile rows on a terminal: nothing that somebody stored is obeyed, in tables, prose or JSON (P10)."""

from __future__ import annotations

import enum
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from doors.cli.content import HOSTILE_NAME, HOSTILE_TEXT, TERMINAL_COMMANDS, on_a_terminal
from perdure.cli import output
from perdure.model import display

COMMANDS = [
    ("sessions",),
    ("show", HOSTILE_NAME),
    ("decisions",),
    ("tasks",),
    ("artifacts",),
    ("events",),
    ("tail", "--from-start", "--once"),
]


def obeyed(shown: str) -> list[str]:
    """The terminal commands that hostile text got through."""
    return [command for command in TERMINAL_COMMANDS if command in shown]


@pytest.mark.parametrize("words", COMMANDS)
def test_hostile_rows_in_a_pipe(run, hostile_url, words) -> None:
    result = run(*words, "--store", hostile_url)
    assert result.exit_code == 0, result.output
    assert obeyed(result.output) == []
    assert "\x1b" not in result.output
    assert HOSTILE_NAME in result.output


@pytest.mark.parametrize("words", COMMANDS)
def test_hostile_rows_as_json(run, hostile_url, words) -> None:
    result = run(*words, "--store", hostile_url, "--json")
    assert result.stdout.isascii()
    assert obeyed(result.stdout) == []
    assert all(json.loads(line) for line in result.stdout.splitlines())


@pytest.mark.parametrize("words", [("sessions",), ("show", HOSTILE_NAME)])
def test_hostile_rows_on_a_terminal(hostile_url, words) -> None:
    shown = on_a_terminal(*words, "--store", hostile_url)
    assert obeyed(shown) == []
    assert "[bold red]hi[/]" in shown  # markup is shown, not read
    assert "\\x1b[31m" in shown


def test_no_colour_when_nobody_wants_it(hostile_url) -> None:
    assert "\x1b[1m" in on_a_terminal("show", HOSTILE_NAME, "--store", hostile_url)
    assert "\x1b" not in on_a_terminal("show", HOSTILE_NAME, "--store", hostile_url, NO_COLOR="1")


def test_control_text_that_is_not_escaped_is_noticed() -> None:
    assert obeyed(HOSTILE_TEXT) == list(TERMINAL_COMMANDS)
    assert obeyed(display.visible(HOSTILE_TEXT)) == []


# -- the parts ---------------------------------------------------------------------------------------------


class Colour(enum.StrEnum):
    RED = "red"


def test_plain_forms() -> None:
    at = datetime(2026, 1, 31, 13, 0, 0, 5, tzinfo=timezone(timedelta(hours=1)))
    value = {
        "at": at,
        "colour": Colour.RED,
        "bytes": b"x",
        "odd": float("inf"),
        "set": {1},
        "none": None,
        "thing": object,
    }
    found = output.plain(value)
    assert found["at"] == "2026-01-31T12:00:00.000005Z"
    assert (found["colour"], found["odd"], found["set"], found["none"]) == ("red", "inf", [1], None)
    json.dumps(found)


def test_cells_are_one_short_line() -> None:
    assert output.cell("a\nb") == "a b"
    assert output.cell(None) == ""
    assert output.cell(("a", "b")) == "a, b"
    assert output.cell(datetime(2026, 1, 31, 12, tzinfo=UTC)) == "2026-01-31 12:00:00Z"
    assert output.cell({"grep": "1", "sed": "2"}) == "grep 1, sed 2"
    assert len(output.cell("x" * 10_000_000)) == output.CELL_MAX_CHARS
    assert output.cell("x\n" * 100, None) == " ".join("x" * 100)


@pytest.mark.parametrize(("count", "shown"), [(0, "0 streams"), (1, "1 stream"), (2, "2 streams")])
def test_counts(count, shown) -> None:
    assert output.counted(count, "stream") == shown


@pytest.mark.parametrize(("count", "shown"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**50, "1024.0 TiB")])
def test_sizes(count, shown) -> None:
    assert output.bytes_size(count) == shown


def test_prose_is_cut(capsys) -> None:
    output.say_prose("a\n" * 100, max_lines=2)
    assert capsys.readouterr().out.splitlines() == ["  a", "  a", "  … 99 more lines (all of it with --json)"]
