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
    from perdure_files.views.page_keeper import KeptPages

INSTEAD = "a view is a Markdown page; `perdure views SESSION --json` is for programs"


@contextmanager
def _opened(options: StoreOptions, *, read_only: bool) -> Iterator[tuple[Core, int]]:
    from perdure.stores.core import open_core  # noqa: PLC0415 - help must not load the stores

    options.check_exists()
    core = open_core(options.store, read_only=read_only)
    try:
        yield core, core.tenant_id(options.tenant)
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
def views(options: StoreOptions, *, sessions: tuple[str, ...], where: Path | None, discard: tuple[Path, ...]) -> None:
    """Show each SESSION as a page: goal, decisions, tasks, values, recent events. With --to, write pages instead.

    Without SESSION, on a files store: bring the pages in its views/ folder up to date. A page that was edited by hand is left
    as it is: `perdure apply` records the edits, --discard drops them.
    """
    from perdure_files.views import page_keeper  # noqa: PLC0415 - as above

    if discard and (sessions or where is not None):
        raise click.UsageError("--discard names the page that is forgotten: it goes with no SESSION and not with --to")
    if where is not None:
        with _opened(options, read_only=True) as (core, tenant):
            return _say(options, page_keeper.write_to(core, tenant, where, sessions))
    if sessions:
        return _show(options, sessions)
    if page_keeper.layout_of(options.store) is None:
        raise click.UsageError("name a SESSION, or a folder with --to: only a files store has a views folder")
    with _opened(options, read_only=False) as (core, tenant):
        return _say(options, page_keeper.renew(core, tenant, discard))


def _show(options: StoreOptions, sessions: tuple[str, ...]) -> None:
    from perdure_files.views.gather import gather  # noqa: PLC0415 - as above
    from perdure_files.views.page import render  # noqa: PLC0415
    from perdure_files.views.page_keeper import find  # noqa: PLC0415

    with _opened(options, read_only=True) as (core, tenant):
        pages = [core.read(gather, find(core, name, tenant), tenant=tenant) for name in sessions]
    if options.as_json:
        say_json([{"head": view.head, "about": view.about, **view.plain()} for view in pages])
        return
    for view in pages:
        click.echo(render(view).decode(), nl=False)


def _say(options: StoreOptions, pages: KeptPages) -> None:
    if options.as_json:
        say_json({name: [str(path) for path in getattr(pages, name)] for name in ("written", "removed", "edited")})
        return
    for path in pages.written:
        click.echo(visible(path))
    for path in pages.edited:
        note(f"edited by hand, left as it is: {visible(path)} (perdure apply it, or perdure views --discard it)")
    note(
        f"{counted(len(pages.written), 'view')} written, {len(pages.removed)} removed, {len(pages.edited)} edited by hand"
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
def apply(options: StoreOptions, *, view: Path, dry_run: bool) -> None:
    """Record the edits in VIEW (a page that `perdure views` or a files store wrote): the goal, tasks ticked, blocked, cancelled
    or added, decisions closed or added, values.

    All edits land in one transaction, or none. If somebody else changed the same thing since the page was made, that is a
    conflict, and is named. Afterwards the page is brought up to date. Applying it again changes nothing.
    """
    from perdure_files.views.apply import apply_view  # noqa: PLC0415 - as above

    with _opened(options, read_only=dry_run) as (core, tenant):
        done = apply_view(core, tenant, options.actor, view.absolute(), dry_run=dry_run)
    if options.as_json:
        say_json(done)
        return
    for change in done.changes:
        click.echo(visible(change))
    what = "would be recorded" if dry_run else "recorded"
    note(f"{counted(len(done.changes), 'change')} {what} in {visible(done.session)}")
