"""How the story is shown: a table that lives on a terminal, plain lines where nobody watches, nothing for machines.

One colour, one meaning, everywhere: green is done once, red is done again. A kill has no colour: it happens to all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from demo.story import ActionKind
from perdure.cli.output import coloured, console, counted, say_heading, say_wrapped
from perdure.cli.tables import Column, say_table, state

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from demo.proof import LedgerLine
    from demo.story import Round, Side, StoryEnding, StoryPart

ROW_LINES = 4  # that a round may take on a narrow terminal
NAMES = ("Perdure", "JSON file", "JSON + rename")
GOOD, BAD, FAINT = "green", "red", "bright_black"
COLOURS = {ActionKind.NEW: GOOD, ActionKind.CHECKED: GOOD, ActionKind.AGAIN: BAD}
FIGURES: tuple[tuple[str, Callable[[Side], int]], ...] = (
    ("commits", lambda side: side.tally.commits),
    ("pull requests", lambda side: side.tally.pulls),
    ("comments", lambda side: side.tally.comments),
    ("changelog entries", lambda side: side.tally.entries),
    ("times a person was asked", lambda side: side.asked),
    ("model calls that were paid for", lambda side: side.model_calls),
    ("requests that reached the forge", lambda side: side.tally.requests),
)


def _settled(entry: LedgerLine) -> str:
    return entry.settled or ("calling again" if entry.attempts > 1 else "")


LEDGER: tuple[Column, ...] = (
    Column("effect", lambda entry: entry.effect.rpartition("/")[2]),
    Column("tool", lambda entry: entry.tool),
    Column("kind", lambda entry: entry.kind),
    Column("attempts", lambda entry: entry.attempts),
    state("state", lambda entry: entry.state),
    Column("doubt settled by", _settled),
)


def phrases(part: StoryPart, *, first: bool) -> list[tuple[str, str]]:
    """The actions of an agent in a life, in a few phrases, each with its colour. first: there is nothing to remember yet."""
    if part.remembered is None:
        return [("starting …", FAINT)]
    found: list[tuple[str, str]] = []
    if not first:
        found.append((f"remembers {part.remembered}", FAINT) if part.remembered else ("remembers nothing", BAD))
    for how in (ActionKind.CHECKED, ActionKind.AGAIN, ActionKind.NEW):
        did = [action for _, action, each in part.deeds if each is how]
        if did:
            found.append((" ".join([how.value, *did]), COLOURS[how]))
    if part.now is not None:
        found.append((f"{part.now[1]} …", FAINT))
    return found or [("did nothing", FAINT)]


def _fate(one: Round) -> str:
    if one.strike is not None:
        return f"killed at {one.strike}"
    return "nobody kills it" if one.number == 1 else "no more kills"


class Silent:
    """For machines."""

    def begin(self, one: Round) -> None:
        """Nothing."""

    def end(self, one: Round) -> None:
        """Nothing."""


class DemoLines:
    """For pipes and logs: a few lines when a round is over."""

    def begin(self, one: Round) -> None:
        """Nothing yet."""

    def end(self, one: Round) -> None:
        """The outcome of a life."""
        click.echo(f"life {one.number}, {_fate(one)}")
        for name, part in zip(NAMES, one.parts, strict=True):
            said = "; ".join(text for text, _ in phrases(part, first=one.number == 1))
            click.echo(f"  {name.ljust(max(map(len, NAMES)))}  {said}")


class Screen:
    """For a terminal: one table, which grows while the agents work. While it does, the newest rounds that fit are shown."""

    def __init__(self) -> None:
        self._rounds: list[Round] = []
        self._console = console()
        self._over = False

    @contextmanager
    def shown(self) -> Iterator[Screen]:
        """Keep it on the screen, up to date; whole in the end."""
        from rich.live import Live  # noqa: PLC0415 - only for terminals

        with Live(get_renderable=self._table, console=self._console, refresh_per_second=10):
            yield self
            self._over = True

    def begin(self, one: Round) -> None:
        """A new row, which is drawn anew until it is over."""
        self._rounds.append(one)

    def end(self, one: Round) -> None:
        """Drawn as it is."""

    def _table(self) -> Table:
        from rich.table import Table  # noqa: PLC0415 - as above
        from rich.text import Text  # noqa: PLC0415

        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold", show_footer=True)
        extra = next((one.extra for one in reversed(self._rounds) if one.extra is not None), [0] * len(NAMES))
        table.add_column("life", width=4)
        table.add_column("what happens", footer=Text("duplicates so far", "bold"), ratio=1)
        for name, count in zip(NAMES, extra, strict=True):
            table.add_column(name, footer=Text(str(count), f"bold {BAD if count else GOOD}"), ratio=1)
        fit = len(self._rounds) if self._over else max(self._console.height // ROW_LINES - 1, 1)
        for one in self._rounds[-fit:]:
            cells = [_cell(part, first=one.number == 1) for part in one.parts]
            table.add_row(str(one.number), Text(_fate(one)), *cells)
        return table


def _cell(part: StoryPart, *, first: bool) -> Text:
    from rich.text import Text  # noqa: PLC0415 - as above

    return Text("\n").join(Text(text, colour) for text, colour in phrases(part, first=first))


def say_ending(ending: StoryEnding) -> None:
    """The ledger, what it proves, and the three columns."""
    say_heading("The ledger: the acts of the agent on Perdure, by its own account")
    say_table(LEDGER, ending.ledger)
    for each in ending.proofs:
        mark = coloured("✓", GOOD) if each.held else coloured("✗", BAD)
        say_wrapped(each.claim + ("" if each.held else f" ({each.detail})"), mark)
    say_heading(f"The outside world after {counted(ending.kills, 'kill')}: git and the forge were asked")
    say_table([Column("", lambda row: row[0]), *map(_figures, range(len(NAMES)))], figures(ending))


def figures(ending: StoryEnding) -> list[tuple[str, list[int]]]:
    """The table that matters: of each thing, how many there are on each side."""
    sides = (ending.ours, ending.naive, ending.fair)
    return [(name, [get(side) for side in sides]) for name, get in FIGURES]


def _figures(place: int) -> Column:
    """One side's column. As many as the best side has is good; more is something done again."""

    def colour(row: tuple[str, Sequence[int]]) -> str:
        return GOOD if row[1][place] == min(row[1]) else BAD

    return Column(NAMES[place], lambda row: row[1][place], style=colour)
