"""`perdure move`: a whole store from one database into another."""

from __future__ import annotations

import click

from perdure.cli.options import actor_option, command, json_option, log_options
from perdure.cli.output import counted, note, say_facts, say_heading, say_json
from perdure.cli.progress import progress
from perdure.cli.tables import Column, say_table

HELD = (Column("held", lambda each: each.what), Column("by", lambda each: each.holder))


@command(
    "move",
    "perdure move sqlite:///agent.db postgresql://me@host/db --dry-run",
    "perdure move sqlite:///agent.db postgresql://me@host/db",
    "perdure move sqlite:///agent.db --take-back",
)
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST", required=False)
@click.option(
    "--fence",
    is_flag=True,
    help="Also if processes are at work: they can write nothing more, and open work is in doubt.",
)
@click.option("--take-back", is_flag=True, help="Open SRC again after a move; only if DST is given up.")
@click.option("--dry-run", is_flag=True, help="Only say what would be moved, and which processes are at work.")
@actor_option
@json_option
@log_options
def move(
    *, source: str, target: str | None, fence: bool, take_back: bool, dry_run: bool, actor: str, as_json: bool
) -> None:
    """Move store SRC, of all tenants, into new store DST: every chain unchanged, proved there before DST can be opened.

    If it is killed anywhere, run it again. From then on SRC names its new place and takes no more events. Positions of
    subscriptions stay behind. Large blobs go to DST's own place: for PostgreSQL add ?artifacts=….
    """
    from perdure.cli.options import StoreOptions  # noqa: PLC0415 - with what follows
    from perdure.interchange import move as moving  # noqa: PLC0415 - help must not load the stores

    if take_back == (target is not None):
        raise click.UsageError("name where it goes, or --take-back")
    StoreOptions(source, "", as_json=as_json).check_exists()
    if target is None:
        moving.take_back(source, actor=actor)
        say_json({"source": source, "taken_back": True}) if as_json else note("it can be written to again")
        return
    with progress("moving") as step:
        done = moving.move(source, target, actor=actor, fence=fence, dry_run=dry_run, progress=step)
    if as_json:
        say_json(done)
        return
    say_facts(
        {"from": done.source, "to": done.target, "streams": done.streams, "events": done.events, "blobs": done.blobs}
    )
    if done.held:
        say_heading("At work")
        say_table(HELD, done.held)
    note("nothing was changed: a dry run" if dry_run else f"moved and proved: {counted(done.events, 'event')}")
