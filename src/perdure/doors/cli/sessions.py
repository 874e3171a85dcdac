"""`perdure sessions`: which sessions there are."""

from __future__ import annotations

from typing import Any

import click

from perdure.doors.cli.options import Asked, command, pages, reads, spans
from perdure.doors.cli.output import say_page
from perdure.model.records.conversation import Status

COLUMNS = (
    ("session", lambda session: session.name),
    ("status", lambda session: session.status),
    ("title", lambda session: session.title),
    ("labels", lambda session: session.labels),
    ("creator", lambda session: session.creator),
    ("created", lambda session: session.created_at),
    ("last event", lambda session: session.last_at),
    ("seq", lambda session: session.last_seq),
)


@command(
    "sessions",
    "perdure sessions",
    "perdure sessions --status waiting --label prod --since 7d",
    "perdure sessions --json | jq -r '.items[].name'",
)
@click.option("--status", type=click.Choice([status.value for status in Status]), help="Only those at this.")
@click.option("--label", metavar="NAME", help="Only those with this label.")
@click.option("--creator", metavar="NAME", help="Only those that this actor created.")
@click.option("--expired", is_flag=True, help="Those whose time is over, too.")
@spans
@pages
@reads
def sessions(asked: Asked, **filters: Any) -> None:
    """List sessions, newest first. A session whose process died reads as crashed."""
    with asked.open() as store:
        say_page(store.sessions(**filters), COLUMNS, as_json=asked.as_json, none="no such sessions")
