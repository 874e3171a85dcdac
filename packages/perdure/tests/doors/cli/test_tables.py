"""Tables on a narrow terminal: what identifies a row is whole, prose gives way, and nothing is lost silently."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from doors.cli.content import on_a_terminal
from doors.cli.run_content import failing
from perdure.cli import tables
from perdure.cli.tables import Column, TableCell, folded, prose

STYLE = re.compile(r"\x1b\[[0-9;]*m")
NAME = "a-session-with-a-longer-name"
KEYS = {
    "sessions": ("name", "last_seq", "status", "creator"),
    "decisions": ("session", "seq", "status"),
    "tasks": ("session", "id", "status"),
    "artifacts": ("session", "name", "hash"),
    "events": ("session", "seq", "kind", "actor"),
}


@pytest.fixture
def long_url(tmp_path):
    """A store in which everything is a little longer than one would like."""
    url = f"sqlite:///{tmp_path}/long.db"
    with perdure.open(url, actor="somebody-or-other") as store:
        session = store.session(NAME, title="A title that goes on and on " * 3, labels=["production", "urgent"])
        session.say("user", "text " * 100)
        session.decide("A decision that says much " * 5, because="of reasons " * 20, tags=["auth", "web"])
        session.task("A task with a long title " * 5, labels=["release"])
        session.attach("a-build-log-with-a-long-name.log", b"x", media_type="text/plain")
    return url


@pytest.mark.parametrize("columns", [60, 80, 100, 120])
@pytest.mark.parametrize("name", KEYS)
def test_keys_are_whole_on_any_terminal(ask, long_url, name, columns) -> None:
    words = STYLE.sub("", on_a_terminal(name, "--store", long_url, columns=columns)).split()
    for item in ask(name, "--store", long_url)["items"]:
        assert {str(item[key]) for key in KEYS[name]} <= set(words)


@pytest.mark.parametrize("name", ["sessions", "decisions", "tasks", "events"])
def test_a_usual_listing_is_a_table_at_80_columns(url, name) -> None:
    lines = STYLE.sub("", on_a_terminal(name, "--store", url, columns=80)).splitlines()
    heading, *rows = [line.rstrip() for line in lines]
    assert {"stream" if name == "events" else "session", "seq" if name != "tasks" else "id"} <= set(heading.split())
    assert all(len(line) <= 80 for line in lines)
    assert any("issue-42" in row for row in rows)


def test_prose_ends_in_a_mark_when_it_is_shortened(long_url) -> None:
    assert "A title" in (shown := on_a_terminal("sessions", "--store", long_url, columns=120))
    assert "…" in shown


def cells(columns: Sequence[Column], *items: Any) -> list[list[TableCell]]:
    return [[TableCell(column.text(item)) for column in columns] for item in items]


def test_what_does_not_fit_is_printed_one_cell_a_line(capsys) -> None:
    columns = (Column("name", lambda row: row[0]), prose("title", lambda row: row[1]), Column("none", lambda _: None))
    tables._draw(columns, cells(columns, ("n" * 30, "one"), ("m" * 30, "two")), 20)
    assert capsys.readouterr().out == f"name   {'n' * 30}\ntitle  one\n\nname   {'m' * 30}\ntitle  two\n"


def test_a_spare_column_goes_first_and_that_is_said(capsys) -> None:
    columns = (Column("name", str), Column("extra", str, spare=True))
    tables._draw(columns, [[TableCell("n" * 30), TableCell("e" * 30)]], 40)
    captured = capsys.readouterr()
    assert "n" * 30 in captured.out
    assert "e" * 30 not in captured.out
    assert captured.err == "hidden columns: extra (widen the terminal or use --json)\n"


def test_spare_columns_go_one_by_one_the_last_first(capsys) -> None:
    columns = (Column("name", str), Column("first", str, spare=True), Column("second", str, spare=True))
    tables._draw(columns, [[TableCell("n" * 10), TableCell("a" * 10), TableCell("b" * 10)]], 24)
    captured = capsys.readouterr()
    assert "a" * 10 in captured.out
    assert captured.err == "hidden columns: second (widen the terminal or use --json)\n"


def test_a_long_error_leaves_a_table_a_table(tmp_path) -> None:
    url = f"sqlite:///{tmp_path}/failed.db"
    with perdure.open(url, actor="somebody") as store:
        for number in range(3):
            with contextlib.suppress(perdure.Failed):
                store.drive(
                    failing,
                    "because " * 100,
                    key=f"a key that is a whole sentence, number {number}",
                    session="issue-42",
                )
    for command in ("runs", "effects", "errors"):
        lines = STYLE.sub("", on_a_terminal(command, "--store", url, columns=80)).splitlines()
        assert len(lines[0].split()) > 3, lines  # headings, side by side
        assert all(len(line) <= 80 for line in lines)


def test_times_are_short_on_a_terminal() -> None:
    """Today is asked for in the test: a suite that is collected before midnight ends after it."""
    column = Column("at", lambda item: item)
    old = datetime(1999, 3, 4, 5, 6, tzinfo=UTC)
    today = datetime.now(UTC).replace(hour=0, minute=0, second=1)
    shown = column.text(today, terminal=True)
    assert shown == "00:00:01Z" or datetime.now(UTC).date() != today.date()
    assert column.text(old, terminal=True) == "1999-03-04"
    assert [column.text(at) for at in (today, old)] == [at.strftime("%Y-%m-%d %H:%M:%SZ") for at in (today, old)]


def test_states_have_colours_on_a_terminal_and_nowhere_else(run, runs_url) -> None:
    shown = on_a_terminal("runs", "--store", runs_url)
    assert "\x1b[32mcompleted" in shown
    assert "\x1b[31mfailed" in shown
    assert "\x1b[33mwaiting" in shown
    assert "\x1b" not in run("runs", "--store", runs_url).stdout
    assert "\x1b[3" not in on_a_terminal("runs", "--store", runs_url, NO_COLOR="1")


# -- the widths ----------------------------------------------------------------------------------------------

CELLS = st.text("ab ", max_size=60)


@given(rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=5), width=st.integers(1, 200))
def test_widths_fit_and_keys_get_what_they_need(rows, width) -> None:
    columns = (Column("key", str), prose("prose", str), folded("folded", str))
    cells = [list(row) for row in rows]
    widths = tables.fitted(columns, cells, width)
    wanted = [max(len(column.heading), *(len(row[n]) for row in cells)) for n, column in enumerate(columns)]
    least = [wanted[0], min(wanted[1], 12), min(wanted[2], 24)]
    if widths is None:
        assert sum(least) + 4 > width
        return
    assert sum(widths) + 4 <= width
    assert widths[0] == wanted[0]
    assert all(low <= found <= high for low, found, high in zip(least, widths, wanted, strict=True))
    assert widths == wanted or sum(widths) + 4 == width  # no room is left unused while somebody wants it


def test_wide_characters_take_two_places() -> None:
    assert tables.fitted((Column("name", str),), [["漢字" * 10]], 39) is None
    assert tables.fitted((Column("name", str),), [["漢字" * 10]], 40) == [40]
