"""How the story is shown: a table that lives on a terminal, plain lines where nobody watches, nothing for machines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from perdure.doors.cli.output import console, counted, say_heading
from perdure.doors.cli.tables import Column, say_table
from perdure.model.display import visible

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from perdure.doors.demo.proof import Entry
    from perdure.doors.demo.story import Ending, Part, Round, Side

ROW_LINES = 4  # that a round may take on a narrow terminal
OURS, NAIVE = "Perdure", "session JSON file"
FIGURES: tuple[tuple[str, Callable[[Side], int]], ...] = (
    ("commits", lambda side: side.tally.commits),
    ("pull requests", lambda side: side.tally.pulls),
    ("comments", lambda side: side.tally.comments),
    ("changelog entries", lambda side: side.tally.entries),
    ("times a person was asked", lambda side: side.asked),
    ("model calls that were paid for", lambda side: side.model_calls),
    ("requests that reached the forge", lambda side: side.tally.requests),
)


def _settled(entry: Entry) -> str:
    return entry.settled or ("calling again" if entry.attempts > 1 else "")


LEDGER: tuple[Column, ...] = (
    Column("effect", lambda entry: entry.effect.rpartition("/")[2]),
    Column("tool", lambda entry: entry.tool),
    Column("kind", lambda entry: entry.kind),
    Column("attempts", lambda entry: entry.attempts),
    Column("state", lambda entry: entry.state),
    Column("doubt settled by", _settled),
)


def found(part: Part) -> str:
    """On what it went on."""
    return f"{part.resumed} recorded" if part.resumed else "found nothing"


def said(part: Part) -> str:
    """What an agent did in a life, in a line; `?`: begun by an earlier life, which died."""
    mark = {"killed": "✗", "done": "✓", "": "…"}[part.ended]
    return " ".join([f"[{found(part)}]", *part.did, mark])


class Silent:
    """For machines."""

    def begin(self, one: Round) -> None:
        """Nothing."""

    def end(self, one: Round) -> None:
        """Nothing."""


class Lines:
    """For pipes and logs: a few lines when a round is over."""

    def begin(self, one: Round) -> None:
        """Nothing yet."""

    def end(self, one: Round) -> None:
        """What became of it."""
        click.echo(f"life {one.number}: {_struck(one)}")
        click.echo(f"  {OURS.ljust(len(NAIVE))}  {said(one.ours)}")
        click.echo(f"  {NAIVE}  {said(one.naive)}")


def _struck(one: Round) -> str:
    if one.strike is not None:
        return f"SIGKILL at {one.strike}"
    return "nobody kills it" if one.number == 1 else "nobody kills it any more"


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

        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
        for heading in ("life", "what happens to it", OURS, NAIVE):
            table.add_column(heading, ratio=None if heading == "life" else 1)
        fit = len(self._rounds) if self._over else max(self._console.height // ROW_LINES - 1, 1)
        for one in self._rounds[-fit:]:
            table.add_row(str(one.number), Text(_struck(one)), _coloured(one.ours), _coloured(one.naive))
        return table


def _coloured(part: Part) -> Text:
    from rich.text import Text  # noqa: PLC0415 - as above

    return Text(said(part), style={"killed": "red", "done": "green", "": ""}[part.ended])


def _mark(held: bool) -> str:
    mark, colour = ("✓", "green") if held else ("✗", "red")
    return mark if os.environ.get("NO_COLOR") else click.style(mark, fg=colour)


def say_ending(ending: Ending) -> None:
    """The ledger, what it proves, and the two columns."""
    say_heading("The ledger: what the agent did outside, by its own account")
    say_table(LEDGER, ending.ledger)
    for each in ending.proofs:
        click.echo(f"{_mark(each.held)} {visible(each.claim)}" + ("" if each.held else f" ({visible(each.detail)})"))
    say_heading(f"What is really there, after {counted(ending.kills, 'kill')}: git and the forge were asked")
    say_table(
        (Column("", lambda row: row[0]), Column(OURS, lambda row: row[1]), Column(NAIVE, lambda row: row[2])),
        [(name, get(ending.ours), get(ending.naive)) for name, get in FIGURES],
    )
