"""`perdure subjects` and `perdure actors`: whom the records are about, and who wrote them."""

from __future__ import annotations

from typing import Any

import click

from perdure.cli.options import StoreOptions, command, pages, reads, writes
from perdure.cli.output import counted, note, say_facts, say_json
from perdure.cli.tables import Column, prose, say_page, say_table
from perdure.errors import NotFound

SUBJECT_COLUMNS = (
    prose("subject", lambda found: found.subject),
    Column("records", lambda found: found.records),
    Column("streams", lambda found: found.streams),
    Column("first", lambda found: found.first_at),
    Column("last", lambda found: found.last_at),
)
ACTOR_COLUMNS = (
    prose("name", lambda found: found.name),
    Column("in headers", lambda found: found.actor),
)


@command("subjects", "perdure subjects", "perdure subjects --limit 1000 --json")
@pages
@reads
def subjects(asked: StoreOptions, **page: Any) -> None:
    """List the persons and things that records are about, by name: how many records, the first and the last.

    --about NAME at the listings (sessions, runs, events, tasks …) shows the records themselves.
    """
    with asked.open() as store:
        found = store.subjects(**page)
        say_page(found, SUBJECT_COLUMNS, as_json=asked.as_json, what="subjects", filtered=False)


@command(
    "actors",
    "perdure actors",
    "perdure actors --json",
    "perdure actors --forget alice",
    "perdure actors --forget alice --apply",
)
@click.option("--forget", metavar="NAME", help="Let the directory forget this actor: a dry run, unless --apply.")
@click.option("--apply", is_flag=True, help="Do it; without this it only shows what would be forgotten.")
@writes
def actors(asked: StoreOptions, *, forget: str | None, apply: bool) -> None:
    """List the directory of actors: the names behind the random names in the headers of events.

    Headers stay for ever and hold only random names; the directory can forget. After --forget NAME, the events of NAME show a
    random name. Names in rows (the creator of a session, the claimer of a task) and in events from before schema 5 stay.
    """
    if apply and forget is None:
        raise click.UsageError("--apply goes with --forget NAME")
    if not apply:
        asked.actor = ""  # only looks
    with asked.open() as store:
        known = [found for found in store.actors() if forget is None or found.name == forget]
        if forget is not None and not known:
            hint = "`perdure actors` lists the actors that it knows"
            raise NotFound(f"the directory knows no actor {forget!r}", path="actor", hint=hint)
        if forget is not None and apply:
            store.forget_actor(forget)
    if asked.as_json:
        say_json({"items": known} if forget is None else {"applied": apply, "forgotten": known})
    elif forget is None:
        say_table(ACTOR_COLUMNS, known)
        note(counted(len(known), "actor"))
    else:
        for found in known:
            say_facts({"actor": found.name, "in headers": found.actor})
        note(f"forgotten, by {asked.actor}" if apply else "nothing was changed: --apply does it")
