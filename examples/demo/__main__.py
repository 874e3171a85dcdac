"""`make demo`, or `python examples/demo`: tells the story, and fails if our side of it did anything twice, or not at all.

python examples/demo --seed 7 --store sqlite:///demo.db
python examples/demo --no-kill --json
"""

from __future__ import annotations

import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

sys.path.insert(0, str(Path(__file__).parents[1]))  # a folder that is run is no package by itself

import perdure
from demo import proof, story, view
from demo.scene import scene
from demo.strikes import strikes
from perdure.cli.main import fail
from perdure.cli.options import json_option
from perdure.cli.output import coloured, counted, say_heading, say_json, say_wrapped
from perdure.errors import Error, Invalid
from perdure.stores.url import parse

if TYPE_CHECKING:
    from demo.story import StoryEnding
    from demo.strikes import Strike

BROKEN = "Something did NOT hold. That is a bug: please report it with the seed."


@click.command()
@click.option("--no-kill", is_flag=True, help="Let all agents live.")
@click.option("--seed", type=int, default=1, show_default=True, help="Decides where the agents are killed.")
@click.option("--store", metavar="URL", help="Any store, which then keeps the run; default: a file that is removed.")
@json_option
def demo(*, no_kill: bool, seed: int, store: str | None, as_json: bool) -> None:
    """Kill a coding agent with SIGKILL at the worst moments. It does everything once; its twins do not.

    The agent mends a bug in a scratch git repository, tests, commits, pushes, opens a pull request on a small forge on
    loopback, comments, asks a person, merges. Its model is a script: it always says the same. Beside it the same agent dies at
    the same moments with its state in a JSON file: once rewritten in place, once renamed into place, as careful programs do it.
    Takes less than a minute, needs git and no network, leaves nothing behind. Exits with 1 unless the agent on Perdure did each
    thing exactly once and the store proves it.
    """
    plan = [] if no_kill else strikes(seed)
    ending = _played(plan, seed, store, as_json=as_json)
    if as_json:
        say_json(_record(ending, plan, seed))
    else:
        _say_end(ending, store)
    sys.exit(0 if ending.held else 1)


def _played(plan: list[Strike], seed: int, store: str | None, *, as_json: bool) -> StoryEnding:
    _check_shared(store)
    with ExitStack() as stack:
        view = _view(stack, plan, seed, as_json=as_json)
        stage = stack.enter_context(scene())
        url = store or proof.url_of(stage.folder / "demo.db")
        found = stack.enter_context(perdure.open(url, actor="demo"))
        return story.play(stage, found, url, plan, view)


def _check_shared(store: str | None) -> None:
    """A store in memory is one process's own, and these die."""
    if store is not None and not parse(store).lasts:
        raise Invalid("a store in memory dies with its process", path="store", hint="sqlite:///demo.db")


def _view(stack: ExitStack, plan: list[Strike], seed: int, *, as_json: bool) -> Any:
    if as_json:
        return view.Silent()
    _say_beginning(plan, seed)
    return stack.enter_context(view.Screen().shown()) if sys.stdout.isatty() else view.DemoLines()


def _say_beginning(plan: list[Strike], seed: int) -> None:
    """All that somebody needs to know who has never heard of it."""
    fate = f"Each is killed {counted(len(plan), 'time')} (SIGKILL, seed {seed})" if plan else "Nobody kills them"
    say_heading(f"One coding agent, three places for its state. {fate}.")
    say_wrapped(
        "It mends a bug: test, fix, note it in the changelog, test, commit, push, open a pull request, comment, merge."
    )
    say_wrapped("Its model is a script: it always says the same. After each kill it is started again.")
    said, again = coloured("green", "green"), coloured("red", "red")
    click.echo(f"\n{said}: done once, or checked and not repeated   {again}: done again, or forgotten\n")


def _say_end(ending: StoryEnding, store: str | None) -> None:
    view.say_ending(ending)
    others = " and ".join(
        f"{side.extra} ({name})" for side, name in zip((ending.naive, ending.fair), view.NAMES[1:], strict=True)
    )
    said = f"Perdure: one of each after {counted(ending.kills, 'kill')}, and the ledger proves it ({ending.seconds:.0f} s)."
    say_heading(f"{said} Duplicates of the others: {others}." if ending.held else BROKEN)
    if store:
        where = shlex.join(["--store", store])
        click.echo(f"Your store keeps it:\n  perdure effects {where}\n  perdure show {ending.run} {where}")


def _record(ending: StoryEnding, plan: list[Strike], seed: int) -> dict[str, Any]:
    sides = {"perdure": ending.ours, "session_json": ending.naive, "session_json_renamed": ending.fair}
    return {
        "held": ending.held,
        "seed": seed,
        "kills": ending.kills,
        "strikes": [{"action": each.action, "moment": each.moment.value} for each in plan],
        "run": ending.run,
        "counts": {
            name: {what.replace(" ", "_"): get(side) for what, get in view.FIGURES} for name, side in sides.items()
        },
        "ledger": ending.ledger,
        "proofs": ending.proofs,
        "seconds": round(ending.seconds, 2),
    }


if __name__ == "__main__":
    try:
        demo()
    except Error as error:
        fail(error, as_json="--json" in sys.argv)
