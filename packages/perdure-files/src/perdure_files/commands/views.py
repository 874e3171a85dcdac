"""`perdure views` and `perdure apply`: sessions as pages for people, and their edits as recorded changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perdure.cli.names import argument, session_names
from perdure.cli.options import StoreOptions, command, reads, writes
from perdure.cli.output import counted, note, say_json
from perdure.cli.retired import ChoiceWithRetired
from perdure.model.display import visible

if TYPE_CHECKING:
    from perdure.stores.core import Core
    from perdure_files.views.keeping import KeptPages

INSTEAD = "a view is a Markdown page; `perdure views SESSION --json` is for programs"


@contextmanager
def _opened(asked: StoreOptions, *, read_only: bool) -> Iterator[tuple[Core, int]]:
    from perdure.stores.core import open_core  # noqa: PLC0415 - help must not load the stores

    asked.check_exists()
    core = open_core(asked.store, read_only=read_only)
    try:
        yield core, core.tenant_id(asked.tenant)
    finally:
        core.close()


@command(
    "views",
    "perdure views issue-42",
    "perdure views issue-42 --json",
    "perdure views --store files:///state",
    "perdure views --store files:///state --discard state/views/issue-42.md",
    "perdure views --to pages",
)
@argument("sessions", session_names, nargs=-1, metavar="[SESSION]...")
@click.option(
    "--form", type=ChoiceWithRetired(["md"], dict.fromkeys(("yaml", "tsv"), INSTEAD)), hidden=True, expose_value=False
)
@click.option("--to", "where", type=click.Path(path_type=Path), metavar="DIR", help="Write the pages into this folder.")
@click.option(
    "--discard",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Drop the edits in this view.",
)
@reads
def views(asked: StoreOptions, *, sessions: tuple[str, ...], where: Path | None, discard: tuple[Path, ...]) -> None:
    """Show each SESSION as a page: goal, decisions, tasks, values, recent events. With --to, write pages instead.

    Without SESSION, on a files store: bring the pages in its views/ folder up to date. A page that was edited by hand is left
    as it is: `perdure apply` records the edits, --discard drops them.
    """
    from perdure_files.views import keeping  # noqa: PLC0415 - as above

    if discard and (sessions or where is not None):
        raise click.UsageError("--discard names the page that is forgotten: it goes with no SESSION and not with --to")
    if where is not None:
        with _opened(asked, read_only=True) as (core, tenant):
            return _say(asked, keeping.write_to(core, tenant, where, sessions))
    if sessions:
        return _show(asked, sessions)
    if keeping.layout_of(asked.store) is None:
        raise click.UsageError("name a SESSION, or a folder with --to: only a files store has a views folder")
    with _opened(asked, read_only=False) as (core, tenant):
        return _say(asked, keeping.renew(core, tenant, discard))


def _show(asked: StoreOptions, sessions: tuple[str, ...]) -> None:
    from perdure_files.views.gather import gather  # noqa: PLC0415 - as above
    from perdure_files.views.keeping import find  # noqa: PLC0415
    from perdure_files.views.page import render  # noqa: PLC0415

    with _opened(asked, read_only=True) as (core, tenant):
        found = [core.read(gather, find(core, name, tenant), tenant=tenant) for name in sessions]
    if asked.as_json:
        say_json([{"head": view.head, "about": view.about, **view.plain()} for view in found])
        return
    for view in found:
        click.echo(render(view).decode(), nl=False)


def _say(asked: StoreOptions, kept: KeptPages) -> None:
    if asked.as_json:
        say_json({name: [str(path) for path in getattr(kept, name)] for name in ("written", "removed", "edited")})
        return
    for path in kept.written:
        click.echo(visible(path))
    for path in kept.edited:
        note(f"edited by hand, left as it is: {visible(path)} (perdure apply it, or perdure views --discard it)")
    note(
        f"{counted(len(kept.written), 'view')} written, {len(kept.removed)} removed, {len(kept.edited)} edited by hand"
    )


@command(
    "apply",
    "perdure apply state/views/issue-42.md --dry-run --store files:///state",
    "perdure apply state/views/issue-42.md --store files:///state",
    "perdure apply pages/issue-42.md",
)
@click.argument("view", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only show what would be recorded.")
@writes
def apply(asked: StoreOptions, *, view: Path, dry_run: bool) -> None:
    """Record the edits in VIEW (a page that `perdure views` or a files store wrote): the goal, tasks ticked, blocked, cancelled
    or added, decisions closed or added, values.

    All edits land in one transaction, or none. If somebody else changed the same thing since the page was made, that is a
    conflict, and is named. Afterwards the page is brought up to date. Applying it again changes nothing.
    """
    from perdure_files.views.apply import apply_view  # noqa: PLC0415 - as above

    with _opened(asked, read_only=dry_run) as (core, tenant):
        done = apply_view(core, tenant, asked.actor, view.absolute(), dry_run=dry_run)
    if asked.as_json:
        say_json(done)
        return
    for change in done.changes:
        click.echo(visible(change))
    what = "would be recorded" if dry_run else "recorded"
    note(f"{counted(len(done.changes), 'change')} {what} in {visible(done.session)}")
