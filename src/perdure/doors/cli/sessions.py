"""`perdure sessions`: which sessions there are."""

from __future__ import annotations

from typing import Any

import click

from perdure.doors.cli.options import Asked, command, pages, reads, spans
from perdure.doors.cli.tables import Column, is_filtered, prose, say_page, state
from perdure.model.records.conversation import Status

COLUMNS = (
    Column("session", lambda session: session.name),
    state("status", lambda session: session.status),
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
@click.option("--status", type=click.Choice([status.value for status in Status]), help="Only those with this status.")
@click.option("--label", metavar="NAME", help="Only those with this label.")
@click.option("--creator", metavar="NAME", help="Only those that this actor created.")
@click.option("--expired", is_flag=True, help="Also those whose ttl is over.")
@spans
@pages
@reads
def sessions(asked: Asked, **filters: Any) -> None:
    """List sessions, newest first. A session whose process died reads as crashed."""
    with asked.open() as store:
        found = store.sessions(**filters)
        say_page(found, COLUMNS, as_json=asked.as_json, what="sessions", filtered=is_filtered(filters))
