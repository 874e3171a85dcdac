"""`perdure demo`: tells the tour of `tour.py`, and fails if anything in it does not hold."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perdure.doors.cli.options import command, log_options
from perdure.model.display import visible

if TYPE_CHECKING:
    from perdure.doors.cli.tour import Round


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
@click.option("--seed", type=int, default=1, show_default=True, help="Decides when.")
@click.option(
    "--keep", type=click.Path(path_type=Path, file_okay=False), help="Work in this folder and leave it there."
)
@log_options
def demo(*, rounds: int, seed: int, keep: Path | None) -> None:
    """A short tour on the embedded default: write, kill -9, reopen, nothing lost; then a forger is caught.

    Exits with 1 if anything did not hold. Takes a few seconds and leaves nothing behind unless --keep.
    """
    with ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="perdure-demo-")))
        folder.mkdir(parents=True, exist_ok=True)
        held = _tell(Teller(), folder / "tour.db", rounds, seed)
    if keep:
        path = visible((folder / "tour.db").absolute())
        click.echo(f"\nLook around: PERDURE_STORE=sqlite:///{path} perdure show tour")
    sys.exit(0 if held else 1)


def _tell(teller: Teller, path: Path, rounds: int, seed: int) -> bool:
    import perdure  # noqa: PLC0415 - help must not load the stores
    from perdure.doors.cli import tour  # noqa: PLC0415

    url = f"sqlite:///{path.absolute()}"
    lives = _lives(teller, url, rounds, seed)
    teller.chapter("Reopen: is everything there that was acknowledged?")
    with perdure.open(url, actor="visitor") as store:
        for found in tour.check_nothing_lost(store.session(tour.SESSION), lives):
            teller.check(found)
        teller.check(tour.check_clean(store))
    teller.chapter("A forger edits the file itself, past the log and past every trigger.")
    target = tour.target_of(lives)
    true, false = tour.forge(path, target["step"])
    teller.line(f"event {target['turn']} said {true!r}; now it says {false!r}")
    with perdure.open(url, actor="visitor") as store:
        teller.check(tour.check_caught(store, target["turn"]))
    teller.chapter(
        "Everything held." if teller.held else "Something did NOT hold. That is a bug: please report it with the seed."
    )
    return teller.held


def _lives(teller: Teller, url: str, rounds: int, seed: int) -> list[Round]:
    from perdure.doors.cli import tour  # noqa: PLC0415 - as above

    teller.chapter(
        f"An agent writes to {url};\nit is killed with SIGKILL in the middle of its work, {rounds} times (seed {seed})."
    )
    chance, lives = tour.Chance(seed), []
    for number in range(1, rounds + 1):
        life = tour.live_and_die(url, chance)
        lives.append(life)
        teller.line(
            f"life {number}: went on after step {life.resumed_after}, "
            f"{len(life.acknowledged)} steps acknowledged, "
            f"killed after step {life.acknowledged[-1]['step']}"
        )
    return lives
