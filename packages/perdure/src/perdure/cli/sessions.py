"""`perdure sessions`, `rename`, `close`, `archive` and `delete`: which sessions there are, and what becomes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.filters import filtered_by
from perdure.cli.finding import existing_session
from perdure.cli.names import argument, session_names
from perdure.cli.options import StoreOptions, command, reads, writes
from perdure.cli.output import note, plain, say_facts, say_json
from perdure.cli.retain import say_report
from perdure.cli.tables import Column, is_filtered, prose, say_page, state
from perdure.model.filters import SessionFilters

if TYPE_CHECKING:
    from perdure.handles.sync.session import Session

ENDINGS = ("completed", "failed")
COLUMNS = (
    Column("session", lambda session: session.name),
    state("status", lambda session: f"{session.status} (copy)" if session.copy else session.status),
    prose("title", lambda session: session.title),
    prose("labels", lambda session: session.labels),
    Column("creator", lambda session: session.creator),
    Column("created", lambda session: session.created_at),
    Column("last event", lambda session: session.last_at, spare=True),
    Column("seq", lambda session: session.last_seq),
)


@command(
    "sessions",
    "perdure sessions",
    "perdure sessions --status waiting --label prod --since 7d",
    "perdure sessions --json | jq -r '.items[].name'",
)
@filtered_by(SessionFilters)
@reads
def sessions(asked: StoreOptions, **filters: Any) -> None:
    """List sessions, newest first. A session whose process died reads as crashed."""
    with asked.open() as store:
        found = store.sessions(**filters)
        say_page(found, COLUMNS, as_json=asked.as_json, what="sessions", filtered=is_filtered(filters))


@command(
    "rename", "perdure rename issue-42 'Login fails on Safari'", "perdure rename issue-42 'Login on Safari' --json"
)
@argument("session", session_names)
@click.argument("title")
@writes
def rename(asked: StoreOptions, *, session: str, title: str) -> None:
    """Change the title of SESSION to TITLE.

    Its name stays, because runs, bundles and the log know the session by it.
    """
    with asked.open() as store:
        found = existing_session(store, session)
        found.set_title(title)
        _say(asked, found)


@command("close", "perdure close issue-42", "perdure close issue-42 failed", "perdure close issue-42 --undo --json")
@argument("session", session_names)
@click.argument("status", type=click.Choice(ENDINGS), default=ENDINGS[0])
@click.option("--undo", is_flag=True, help="Make it active again.")
@writes
def close(asked: StoreOptions, *, session: str, status: Any, undo: bool) -> None:
    """End SESSION as STATUS: completed (the default) or failed.

    Closing locks nothing: a later turn is kept, and opens the session again.
    """
    with asked.open() as store:
        found = existing_session(store, session)
        if undo:
            found.reopen()
        else:
            found.close(status)
        _say(asked, found)


@command("archive", "perdure archive issue-42", "perdure archive issue-42 --undo", "perdure archive issue-42 --json")
@argument("session", session_names)
@click.option("--undo", is_flag=True, help="Show it in listings again.")
@writes
def archive(asked: StoreOptions, *, session: str, undo: bool) -> None:
    """Leave SESSION out of listings. All of it stays. The session must have ended.

    `perdure sessions --archived` lists it, and it is opened by its name as before.
    """
    with asked.open() as store:
        found = existing_session(store, session)
        if undo:
            found.unarchive()
        else:
            found.archive()
        _say(asked, found)


@command(
    "delete", "perdure delete issue-42", "perdure delete issue-42 --apply", "perdure delete issue-42 --apply --json"
)
@argument("session", session_names)
@click.option("--apply", "execute", is_flag=True, help="Really remove; without this, only say what would go.")
@writes
def delete(asked: StoreOptions, *, session: str, execute: bool) -> None:
    """Remove what was said in SESSION and done in its runs, and archive it. A dry run unless --apply.

    Turns, checkpoints, emitted events, replaced values and steps go for ever. The record of what was done stays: tasks,
    decisions, values, artifacts and effects. A session that is open, was forked or has an unfinished run keeps everything.
    """
    with asked.open() as store:
        report = store.delete(existing_session(store, session).name, dry_run=not execute)
    if asked.as_json:
        say_json(plain(report))
    else:
        say_report(report)
        if execute:
            note(f"archived; `perdure show {session}` has what stays")


def _say(asked: StoreOptions, session: Session) -> None:
    found = session.info()
    if asked.as_json:
        say_json(found)
    else:
        say_facts({
            "session": found.name, "title": found.title, "status": found.status.value, "archived": found.archived_at,
        })  # fmt: skip
