"""`perdure demo`: tells the tour of `tour.py`, and fails if anything in it does not hold."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from perdure.doors.cli.options import command, log_options
from perdure.doors.cli.output import counted
from perdure.model.display import visible

if TYPE_CHECKING:
    from perdure.doors.cli.tour import Files, Round

BROKEN = "Something did NOT hold. That is a bug: please report it with the seed."


class Teller:
    """Says what happens, and remembers whether everything held."""

    def __init__(self) -> None:
        self.held = True

    def chapter(self, text: str) -> None:
        """A new part."""
        click.echo(f"\n{_styled(text, bold=True)}")

    def line(self, text: str) -> None:
        """Something that happened."""
        click.echo(f"  {visible(text)}")

    def check(self, found: object) -> None:
        """A claim: held or not."""
        held, claim, detail = (getattr(found, name) for name in ("held", "claim", "detail"))
        mark = _styled("✓", fg="green") if held else _styled("✗", fg="red")
        click.echo(f"  {mark} {visible(claim)}" + ("" if held else f" ({visible(detail)})"))
        self.held = self.held and held


def _styled(text: str, **style: object) -> str:
    return text if os.environ.get("NO_COLOR") else click.style(text, **style)  # type: ignore[arg-type]


@command("demo", "perdure demo", "perdure demo --rounds 20 --seed 7", "perdure demo --keep /tmp/tour")
@click.option(
    "--rounds",
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    help="How often the agent is killed.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Decides when the agent is killed.")
@click.option(
    "--keep", type=click.Path(path_type=Path, file_okay=False), help="Work in this folder and leave it there."
)
@log_options
def demo(*, rounds: int, seed: int, keep: Path | None) -> None:
    """A short tour on the embedded default: write, kill -9, reopen, nothing lost; then a forger is caught.

    Exits with 1 if anything did not hold. Takes a few seconds and leaves nothing behind unless --keep.
    """
    from perdure.doors.cli import tour  # noqa: PLC0415 - help must not load the stores

    with ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="perdure-demo-")))
        files = tour.new_files(folder)
        held = _tell(Teller(), files, rounds, seed)
    if keep:
        path = visible(files.true.absolute())
        click.echo(f"Look around: perdure show tour --store sqlite:///{path}")
        click.echo(f"The forged copy is beside it: {visible(files.forged.name)}")
    elif held:
        click.echo("Next: the ten-line example in README.md, or  perdure demo --keep /tmp/tour  and look around.")
    sys.exit(0 if held else 1)


def _tell(teller: Teller, files: Files, rounds: int, seed: int) -> bool:
    import perdure  # noqa: PLC0415 - as above
    from perdure.doors.cli import tour  # noqa: PLC0415

    url = url_of(files.true)
    lives = _lives(teller, url, rounds, seed)
    teller.chapter("Reopen: is everything there that the agent was told is saved?")
    with perdure.open(url, actor="visitor") as store:
        for found in tour.check_nothing_lost(store.session(tour.SESSION), lives):
            teller.check(found)
        teller.check(tour.check_clean(store))
        store.backup(files.forged)
    _tell_forgery(teller, files.forged, tour.target_of(lives))
    teller.chapter(_end(lives) if teller.held else BROKEN)
    return teller.held


def url_of(path: Path) -> str:
    """The store in this file, whatever its name holds."""
    return f"sqlite:///{quote(str(path.absolute()))}"


def _tell_forgery(teller: Teller, path: Path, target: dict[str, Any]) -> None:
    import perdure  # noqa: PLC0415 - as above
    from perdure.doors.cli import tour  # noqa: PLC0415

    teller.chapter("A forger edits a copy of the file itself, past the log and past every trigger.")
    true, false = tour.forge(path, target["step"])
    teller.line(f"event {target['turn']} said {true!r}; now it says {false!r}")
    with perdure.open(url_of(path), actor="visitor") as store:
        teller.check(tour.check_caught(store, target["turn"]))


def _end(lives: list[Round]) -> str:
    saved = counted(sum(len(life.acknowledged) for life in lives), "saved step")
    return f"Everything held: {counted(len(lives), 'kill')}, {saved}, 0 lost, 0 twice, 1 forgery found."


def _lives(teller: Teller, url: str, rounds: int, seed: int) -> list[Round]:
    from perdure.doors.cli import tour  # noqa: PLC0415 - as above

    teller.chapter(
        f"A small agent books transfers into one SQLite file. We kill it with SIGKILL, {counted(rounds, 'time')},\n"
        f"in the middle of its work (seed {seed})."
    )
    chance, lives = tour.Chance(seed), []
    for number in range(1, rounds + 1):
        life = tour.live_and_die(url, chance)
        lives.append(life)
        found = f"found step {life.resumed_after} done, went on" if life.resumed_after else "found nothing, began"
        told = counted(len(life.acknowledged), "time")
        teller.line(f'life {number}: {found}, was told {told} "saved", then killed')
    teller.line("(a step may be saved just before the kill, without the agent having heard so)")
    return lives
