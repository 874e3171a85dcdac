"""Rows for people: drawn to fit a terminal, aligned columns where nobody watches.

A column that identifies a row (a name, a number, a status, a hash) is never shortened: room is taken from prose first, then
columns that can be spared go, and if that is not enough each row is printed on lines of its own. The
listings and reports of the command line call this. Keeps P10.
"""

from __future__ import annotations

import enum
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import click

from perdure.cli.output import (
    CELL_MAX_CHARS,
    COLOURS,
    cell,
    coloured,
    console,
    note,
    plain,
    say_json,
    short_moment,
    state_colour,
)
from perdure.model.display import visible
from perdure.planes.reading.paging import DamagedRow, read_rows

GAP = 2


class Fit(enum.Enum):
    """The loss that a column may take on a narrow terminal: nothing, its tail, or its straight lines."""

    WHOLE = enum.auto()
    SHORTENED = enum.auto()
    FOLDED = enum.auto()


LEAST_CHARS = {Fit.SHORTENED: 12, Fit.FOLDED: 24}  # below this, prose says nothing


class Column(NamedTuple):
    """A heading, what stands below it, and what it may lose. A spare one goes before rows get lines of their own.

    style: the colour of an item's cell on a terminal.
    """

    heading: str
    get: Callable[[Any], object]
    fit: Fit = Fit.WHOLE
    spare: bool = False
    style: Callable[[Any], str] | None = None

    def text(self, item: Any, *, terminal: bool = False) -> str:
        """The cell of an item, safe to show. On a terminal times are short."""
        found = self.get(item)
        if terminal and isinstance(found, datetime):
            return short_moment(found)
        return cell(found, CELL_MAX_CHARS if self.fit is Fit.SHORTENED else None)


def prose(heading: str, get: Callable[[Any], object], *, spare: bool = False) -> Column:
    """A column of somebody's text, of which a beginning is enough."""
    return Column(heading, get, Fit.SHORTENED, spare)


def folded(heading: str, get: Callable[[Any], object]) -> Column:
    """A column of text that must be read whole."""
    return Column(heading, get, Fit.FOLDED)


def state(heading: str, get: Callable[[Any], object]) -> Column:
    """A column of states, each in the colour that says how things are."""
    return Column(heading, get, style=lambda item: state_colour(get(item)))


class TableCell(NamedTuple):
    """A text, safe to show, and its colour."""

    text: str
    style: str = ""


def say_table(columns: Sequence[Column], items: Iterable[Any]) -> None:
    """Rows for people."""
    terminal = sys.stdout.isatty()
    _say_rows(columns, [_row(columns, item, terminal=terminal) for item in items], terminal=terminal)


def _row(columns: Sequence[Column], item: Any, *, terminal: bool) -> list[TableCell]:
    return [_cell(column, item, terminal=terminal) for column in columns]


def _say_rows(columns: Sequence[Column], rows: list[list[TableCell]], *, terminal: bool) -> None:
    if terminal:
        _draw(columns, rows, console().width)
    else:
        _align([[column.heading for column in columns], *([each.text for each in row] for row in rows)])


def _cell(column: Column, item: Any, *, terminal: bool) -> TableCell:
    return TableCell(column.text(item, terminal=terminal), column.style(item) if terminal and column.style else "")


def say_page(
    page: Any,
    columns: Sequence[Column],
    *,
    as_json: bool,
    what: str,
    filtered: bool,
    form: Callable[[Any], Any] = plain,
) -> None:
    """One page of a listing, and how to get the next one (on stderr: stdout holds rows alone). form: a row of the JSON.

    A row that cannot be read is marked as damaged, and the others are shown.
    """
    terminal = sys.stdout.isatty()
    made = form if as_json else lambda item: _row(columns, item, terminal=terminal)
    rows = read_rows(page, made)
    damaged = [*getattr(page, "damaged", ()), *rows.damaged]
    following = getattr(page, "next", None)
    if as_json:
        say_json({"items": rows, "next": following, **({"damaged": damaged} if damaged else {})})
        return
    if rows:
        _say_rows(columns, rows, terminal=terminal)
    elif not damaged:
        note(f"no {what} match" if filtered else f"no {what}")
    say_damaged(damaged)
    if following:
        note(f"more rows: add --after {following}")


def say_damaged(damaged: Sequence[DamagedRow]) -> None:
    """A line for each row that cannot be read."""
    for row in damaged:
        click.echo(coloured(visible(f"damaged  {row.where}: {row.reason}"), COLOURS["failed"]))
    if damaged:
        note("`perdure verify` says what is wrong with damaged rows")


def is_filtered(filters: dict[str, Any]) -> bool:
    """Whether a listing was asked for less than everything."""
    return any(value not in (None, False) for name, value in filters.items() if name != "limit")


# -- layout -----------------------------------------------------------------------------------------


def _align(lines: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        click.echo("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def _draw(columns: Sequence[Column], rows: list[list[TableCell]], width: int) -> None:
    filled = [number for number in range(len(columns)) if any(row[number].text for row in rows)]
    for shown in _choices(columns, filled):
        chosen = [columns[number] for number in shown]
        cells = [[row[number] for number in shown] for row in rows]
        widths = fitted(chosen, [[each.text for each in row] for row in cells], width)
        if widths is not None:
            _draw_table(chosen, cells, widths)
            _say_spared([columns[number].heading for number in filled if number not in shown])
            return
    _say_records([column.heading for column in columns], [[each.text for each in row] for row in rows])


def _choices(columns: Sequence[Column], filled: list[int]) -> Iterator[list[int]]:
    """All columns that say something, then ever fewer: the last that can be spared goes first."""
    yield filled
    for number in reversed(filled):
        if columns[number].spare:
            filled = [each for each in filled if each != number]
            yield filled


def fitted(columns: Sequence[Column], rows: list[list[str]], width: int) -> list[int] | None:
    """How wide each column may be, so that everything fits; None if it cannot."""
    from rich.cells import cell_len  # noqa: PLC0415 - only for terminals

    lines = [[column.heading for column in columns], *rows]
    wanted = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    widths = [min(want, LEAST_CHARS.get(column.fit, want)) for want, column in zip(wanted, columns, strict=True)]
    room = width - GAP * (len(columns) - 1) - sum(widths)
    if room < 0:
        return None
    by_need = sorted(range(len(columns)), key=lambda number: wanted[number] - widths[number])
    for done, number in enumerate(by_need):  # those that need little get it all, the others share what is left
        more = min(wanted[number] - widths[number], room // (len(columns) - done))
        widths[number] += more
        room -= more
    return widths


def _draw_table(columns: Sequence[Column], rows: list[list[TableCell]], widths: list[int]) -> None:
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415

    heading_style = "" if os.environ.get("NO_COLOR") else "bold"
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style=heading_style)
    for column, width in zip(columns, widths, strict=True):
        fold = column.fit is Fit.FOLDED
        table.add_column(column.heading, width=width, no_wrap=not fold, overflow="fold" if fold else "ellipsis")
    for row in rows:
        table.add_row(*(Text(*each) for each in row))
    console().print(table)


def _say_spared(headings: list[str]) -> None:
    if headings:
        note(f"hidden columns: {', '.join(headings)} (widen the terminal or use --json)")


def _say_records(headings: list[str], rows: list[list[str]]) -> None:
    """One row after the other, a line for each of its cells."""
    width = max(map(len, headings))
    for number, row in enumerate(rows):
        if number:
            click.echo()
        for heading, text in zip(headings, row, strict=True):
            if text:
                click.echo(f"{heading.ljust(width)}{' ' * GAP}{text}")
