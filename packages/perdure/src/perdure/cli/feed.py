"""`perdure events` and `perdure tail`: what happened, and what happens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.filters import filtered_by
from perdure.cli.finding import of_stream
from perdure.cli.names import argument, session_names, stream_names
from perdure.cli.options import StoreOptions, command, reads
from perdure.cli.output import compact, moment, note, plain, say_json_line
from perdure.cli.tables import Column, is_filtered, prose, say_damaged, say_page
from perdure.errors import Damaged
from perdure.model.display import shortened, visible
from perdure.model.filters import EventFilters
from perdure.planes.reading.paging import DamagedRow

if TYPE_CHECKING:
    from perdure.handles.sync.store import Store
    from perdure.model.records.emitted import EventRecord
    from perdure.planes.reading.paging import Page

FEED_PAGE = 200
WAIT = "1s"
DIGEST_CHARS = 60


def digest(event: EventRecord) -> str:
    """An event's content in a few words."""
    if event.emptied:
        return "(emptied)"
    return "" if event.data is None else shortened(compact(event.data), DIGEST_CHARS)


COLUMNS = (
    Column("at", lambda event: event.at),
    Column("stream", lambda event: event.stream),
    Column("seq", lambda event: event.seq),
    Column("kind", lambda event: event.kind),
    Column("actor", lambda event: event.actor),
    prose("what", digest),
)


@command(
    "events",
    "perdure events --kind 'deploy.*' --since 24h",
    "perdure events --actor alice --kind decision.made --json",
    "perdure events issue-42 --emitted",
    "perdure events run:4f1c2a9b77d0",
)
@argument("name", stream_names, required=False)
@click.option("--session", metavar="NAME", help="Only those of this session: as NAME.", shell_complete=session_names)
@filtered_by(EventFilters, without=("session", "run"))
@reads
def events(asked: StoreOptions, *, name: str | None, session: str | None, **filters: Any) -> None:
    """List events, newest first: who changed what, and when. Of everything, or of NAME: a session, or run:ID."""
    if name is not None and session is not None:
        raise click.UsageError("NAME and --session say the same: give one of them")
    with asked.open() as store:
        found = store.events(**filters, **of_stream(store, name or session))
        filtered = is_filtered({**filters, "name": name or session})
        say_page(found, COLUMNS, as_json=asked.as_json, what="events", filtered=filtered)


@command(
    "tail",
    "perdure tail",
    "perdure tail issue-42 --from-start --once --json",
    "perdure tail run:4f1c2a9b77d0",
    "perdure tail --kind turn.said | grep alice",
)
@argument("name", stream_names, required=False)
@click.option("--kind", metavar="KIND", help="Only this kind, or all below a word ('deploy.*').")
@click.option("--from-start", is_flag=True, help="Begin with the oldest event; else only new events.")
@click.option("--once", is_flag=True, help="Stop at the end instead of waiting for more.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Stop after so many events.")
@click.option("--after", metavar="CURSOR", help="Continue after a cursor of the feed.")
@reads
def tail(
    asked: StoreOptions,
    *,
    name: str | None,
    kind: str | None,
    limit: int | None,
    once: bool,
    from_start: bool,
    after: str | None,
) -> None:
    """Follow the events of the store, or of NAME (a session, or run:ID), oldest first; nothing is skipped. Ctrl-C ends it.

    With --json: one JSON object a line, as it happens.
    """
    with asked.open() as store:
        wanted = FeedFilter(store, name, kind)
        start = after if after is not None or from_start else store.feed_end()
        cursor = _say_feed(store, start, wanted, once=once, limit=limit, as_json=asked.as_json)
        more = any(wanted.among(page) for page in follow(store, cursor, once=True))
    note(f"more events: add --after {cursor}" if more else f"for what comes later: add --after {cursor}")


class FeedFilter:
    """The part of the feed that is to be shown. NotFound for a name that is not there, Invalid for what is no kind."""

    def __init__(self, store: Store, name: str | None, kind: str | None) -> None:
        of = of_stream(store, name)
        self._of = next(iter(of.items()), None)
        self._kind = kind
        if kind is not None:
            store.events(kind=kind, **of, limit=1)  # anything that a listing refuses is refused here, too

    def __call__(self, event: EventRecord) -> bool:
        """Whether this one is."""
        if self._of is not None and (event.stream_kind, event.session) != self._of:
            return False
        kind = self._kind
        return kind is None or event.kind == kind or (kind.endswith(".*") and event.kind.startswith(kind[:-1]))

    def among(self, page: list[EventRecord]) -> list[int]:
        """The places of those in a page."""
        return [place for place, event in enumerate(page) if self(event)]


def _say_feed(
    store: Store, cursor: str | None, wanted: FeedFilter, *, once: bool, limit: int | None, as_json: bool
) -> str | None:
    """Show events as they come; returns the cursor after the last one that was looked at."""
    left = limit
    for page in follow(store, cursor, once=once):
        places = wanted.among(page)[:left]
        for place in places:
            _say_event(page[place], as_json=as_json)
        if left is not None:
            left -= len(places)
            if left == 0:  # the page may continue: ask for exactly as much as was shown
                return store.feed(cursor, limit=places[-1] + 1).next
        cursor = page.next
    return cursor


def follow(store: Store, cursor: str | None, *, once: bool) -> Iterator[Page[EventRecord]]:
    """The feed from a cursor on (None: the beginning), page by page; endless unless `once`."""
    while True:
        page = store.feed(cursor, limit=FEED_PAGE, wait=None if once else WAIT)
        yield page
        cursor = page.next
        if once and len(page) < FEED_PAGE:
            return


def _say_event(event: EventRecord, *, as_json: bool) -> None:
    """A line for an event. One that cannot be read is marked: what comes after it is shown."""
    where = f"{event.stream} {event.seq}"
    try:
        line = plain(event) if as_json else f"{moment(event.at)}  {where}  {event.kind}  {event.actor}  {digest(event)}"
    except Damaged as error:
        row = DamagedRow(error.path, error.message)
        say_json_line({"damaged": row}) if as_json else say_damaged([row])
        return
    say_json_line(line) if as_json else click.echo(visible(str(line).rstrip()))
