"""How results look: facts and prose for people, one JSON document for machines. Tables are in `tables.py`.

Text from rows never reaches a terminal as it is: `visible` escapes control characters, and no markup is read.
Keeps P10.
"""

from __future__ import annotations

import enum
import json
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from perdure.errors import Error
from perdure.model.display import shortened, visible, visible_lines
from perdure.model.instants import system_clock, to_datetime
from perdure.model.limits import INT_SHOWN_MAX_BITS

if TYPE_CHECKING:
    from rich.console import Console

FACT_MAX_CHARS = 500  # it has a line of its own, and may be a path or a command
CELL_MAX_CHARS = 80
STATES = {
    "green": ("active", "completed", "committed", "done", "met", "ok"),
    "cyan": ("dispatched", "doing", "ready", "running", "undoing"),
    "yellow": ("blocked", "in_doubt", "open", "parked", "planned", "waiting", "warning"),
    "red": ("abandoned", "crashed", "error", "failed"),
    "bright_black": ("cancelled", "closed", "expired", "superseded", "todo", "undone", "withdrawn"),
}
COLOURS = {word: colour for colour, words in STATES.items() for word in words}


# -- for machines -----------------------------------------------------------------------------------


def plain(value: Any) -> Any:  # noqa: PLR0911 - one line a kind
    """A record as JSON can hold it: instants in ISO 8601, states as text, values as they are stored."""
    match value:
        case None | bool():
            return value
        case enum.Enum():
            return value.value
        case int():
            return value if value.bit_length() <= INT_SHOWN_MAX_BITS else hex(value)
        case str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime():
            return instant(value)
        case _ if hasattr(type(value), "__struct_fields__"):  # the body of an event is no field: it is read when asked
            names = getattr(value, "SHOWN", value.__struct_fields__)
            return {name: plain(getattr(value, name)) for name in names}
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple() | AbstractSet():
            return [plain(item) for item in value]
    return _stored_form(value)


def _stored_form(value: Any) -> Any:
    from perdure.model.values import to_plain  # noqa: PLC0415 - only for values that are not JSON

    try:
        return to_plain(value, from_store=True)
    except Error:
        return repr(value)


def say_json(value: Any) -> None:
    """One JSON document, on one line unless it is for a terminal; ASCII, so that no terminal obeys it."""
    indent = 2 if sys.stdout.isatty() else None
    click.echo(json.dumps(plain(value), indent=indent))


def say_json_line(value: Any) -> None:
    """One line of a stream, at once."""
    click.echo(json.dumps(plain(value)))
    sys.stdout.flush()


def compact(value: Any) -> str:
    """A stored value as text: prose as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)


# -- for people -------------------------------------------------------------------------------------


def instant(value: datetime | None) -> str:
    """An instant in UTC, to the microsecond where it has any."""
    return "" if value is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def moment(value: datetime | None) -> str:
    """An instant for people: to the second, in UTC, and it says so."""
    return "" if value is None else value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def short_moment(value: datetime) -> str:
    """An instant in a table on a terminal, in UTC: today the time, this year the day too, else the date."""
    at, now = value.astimezone(UTC), to_datetime(system_clock())
    if at.date() == now.date():
        return at.strftime("%H:%M:%SZ")
    return at.strftime("%d %b %H:%MZ") if at.year == now.year else at.strftime("%Y-%m-%d")


def counted(count: int, noun: str) -> str:
    """So many of something: 1 stream, 2 streams."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def bytes_size(count: int) -> str:
    """A number of bytes for people."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def console(*, err: bool = False) -> Console:
    """Where people read: no markup, no emoji codes, no guessing of colours; NO_COLOR is honoured."""
    from rich.console import Console  # noqa: PLC0415 - machines do not pay for it

    return Console(stderr=err, highlight=False, markup=False, emoji=False)


def cell(value: object, max_chars: int | None = CELL_MAX_CHARS) -> str:
    """A value in a table: one line that is safe to show, and a short one unless it must be whole."""
    line = _line(value)
    return visible(" ".join(line.split())) if max_chars is None else shortened(line, max_chars)


def _line(value: object) -> str:
    match value:
        case None:
            return ""
        case datetime():
            return moment(value)
        case enum.Enum():
            return str(value.value)
        case Mapping():
            return ", ".join(f"{name} {item}" for name, item in value.items())
        case list() | tuple() | AbstractSet():
            return ", ".join(map(str, value))
    return str(value)


def say_facts(facts: Mapping[str, object]) -> None:
    """Names and values, one a line; empty ones are left out."""
    shown = {name: value for name, value in facts.items() if value not in (None, "", [], (), {})}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        colour = state_colour(value) if name in ("state", "status") else ""
        click.echo(f"{name.ljust(width)}  {coloured(cell(value, FACT_MAX_CHARS), colour)}")


def say_prose(text: object, indent: str = "  ", max_lines: int = 40) -> None:
    """Several lines of somebody's text, safe to show."""
    lines = visible_lines(text)
    for line in lines[:max_lines]:
        click.echo(f"{indent}{line}")
    if len(lines) > max_lines:
        click.echo(f"{indent}… {len(lines) - max_lines} more lines (all of it with --json)")


def state_colour(state: object) -> str:
    """The colour of a state: green is well, cyan at work, yellow waits for somebody, red went wrong, grey is over."""
    word = str(getattr(state, "value", state)).partition(" ")
    return COLOURS["abandoned"] if "abandoned" in word[2] else COLOURS.get(word[0], "")


def coloured(text: str, colour: str) -> str:
    """A text in a colour, unless NO_COLOR is set; click leaves it out where nobody watches."""
    return click.style(text, fg=colour) if colour and not os.environ.get("NO_COLOR") else text


def say_heading(text: str) -> None:
    """A heading between parts."""
    click.echo()
    say_wrapped(text, bold=not os.environ.get("NO_COLOR"))


def say_wrapped(text: str, mark: str = "", *, bold: bool = False) -> None:
    """A sentence of ours: on a terminal, lines break between words. mark: stands before it."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    indent = "  " if mark else ""
    lines = textwrap.wrap(visible(text), max(width - len(indent), 20), break_long_words=False) or [""]
    for number, line in enumerate(lines):
        start = f"{mark} " if mark and not number else indent
        click.echo(start + (click.style(line, bold=True) if bold else line))


def note(text: str) -> None:
    """Something for the person at the terminal that is no result."""
    click.echo(visible(text), err=True)
