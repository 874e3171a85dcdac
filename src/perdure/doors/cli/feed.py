"""`perdure events` and `perdure tail`: what happened, and what happens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from perdure.doors.cli.options import Asked, command, pages, reads, spans
from perdure.doors.cli.output import compact, moment, note, say_json_line, say_page
from perdure.model.display import shortened, visible

if TYPE_CHECKING:
    from perdure.handles.sync.store import Store
    from perdure.model.records.happenings import EventRecord
    from perdure.planes.paging import Page

FEED_PAGE = 200
WAIT = "1s"
DIGEST_CHARS = 60


def digest(event: EventRecord) -> str:
    """An event's content in a few words."""
    if event.emptied:
        return "(emptied)"
    return "" if event.data is None else shortened(compact(event.data), DIGEST_CHARS)


COLUMNS = (
    ("at", lambda event: event.at),
    ("session", lambda event: event.session),
    ("seq", lambda event: event.seq),
    ("kind", lambda event: event.kind),
    ("actor", lambda event: event.actor),
    ("what", digest),
)


@command(
    "events",
    "perdure events --kind 'deploy.*' --since 24h",
    "perdure events --actor alice --kind decision.made --json",
    "perdure events --session issue-42 --emitted",
)
@click.option("--kind", metavar="KIND", help="Only this kind (turn.said), or all below a word ('deploy.*').")
@click.option("--actor", metavar="NAME", help="Only those of this actor.")
@click.option("--session", metavar="NAME", help="Only those of this session.")
@click.option("--emitted", is_flag=True, default=None, help="Only what session.emit made.")
@spans
@pages
@reads
def events(asked: Asked, **filters: Any) -> None:
    """List events of all sessions, newest first: who changed what, and when."""
    with asked.open() as store:
        say_page(store.events(**filters), COLUMNS, as_json=asked.as_json, none="no such events")


@command(
    "tail",
    "perdure tail",
    "perdure tail issue-42 --from-start --once --json",
    "perdure tail --kind turn.said | grep alice",
)
@click.argument("name", required=False)
@click.option("--kind", metavar="KIND", help="Only this kind, or all below a word ('deploy.*').")
@click.option("--from-start", is_flag=True, help="Everything from the beginning first; else only what is new.")
@click.option("--once", is_flag=True, help="Stop at the end instead of waiting for more.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Stop after so many events.")
@click.option("--after", metavar="CURSOR", help="Go on after a cursor of the feed.")
@reads
def tail(
    asked: Asked,
    *,
    name: str | None,
    kind: str | None,
    limit: int | None,
    once: bool,
    from_start: bool,
    after: str | None,
) -> None:
    """Follow the events of the store, or of session NAME, oldest first; nothing is skipped. Ctrl-C ends it.

    With --json: one JSON object a line, as it happens.
    """
    shown = 0
    with asked.open() as store:
        cursor = after if after or from_start else store.feed_end()
        for page in follow(store, cursor, once=once):
            for event in page:
                if _wanted(event, name, kind):
                    _say_event(event, as_json=asked.as_json)
                    shown += 1
                if shown == limit:
                    return
            cursor = page.next
    note(f"more: the same command with --after {cursor}")


def follow(store: Store, cursor: str | None, *, once: bool) -> Iterator[Page[EventRecord]]:
    """The feed from a cursor on (None: the beginning), page by page; endless unless `once`."""
    while True:
        page = store.feed(cursor, limit=FEED_PAGE, wait=None if once else WAIT)
        yield page
        cursor = page.next
        if once and len(page) < FEED_PAGE:
            return


def _wanted(event: EventRecord, name: str | None, kind: str | None) -> bool:
    if name is not None and event.session != name:
        return False
    return kind is None or event.kind == kind or (kind.endswith(".*") and event.kind.startswith(kind[:-1]))


def _say_event(event: EventRecord, *, as_json: bool) -> None:
    if as_json:
        say_json_line(event)
        return
    where = f"{event.session} {event.seq}"
    click.echo(visible(f"{moment(event.at)}  {where}  {event.kind}  {event.actor}  {digest(event)}".rstrip()))
