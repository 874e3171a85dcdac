"""`perdure asks` and `perdure answer`: what people are asked, and what they say."""

from __future__ import annotations

from typing import Any

import click

from perdure.cli.filters import filtered_by
from perdure.cli.finding import whole_id
from perdure.cli.identified import identified, say_identified
from perdure.cli.names import argument, open_asks
from perdure.cli.options import StoreOptions, command, reads, subjects_option, writes
from perdure.cli.output import note, say_facts, say_json
from perdure.cli.tables import Column, folded, prose
from perdure.cli.tables import state as state_column
from perdure.model.filters import AskFilters
from perdure.model.records.runs import WaitState, WaitStateName

COLUMNS = (
    Column("ask", lambda ask: ask.id),
    Column("kind", lambda ask: ask.kind, spare=True),
    state_column("state", lambda ask: ask.state),
    folded("question", lambda ask: ask.question),
    Column("choices", lambda ask: ", ".join(ask.choices)),
    prose("about", lambda ask: ask.detail),
    prose("answer", lambda ask: ask.answer),
    Column("by", lambda ask: ask.met_by),
    Column("asked", lambda ask: ask.at),
    Column("until", lambda ask: ask.expires_at, spare=True),
)


@command("asks", "perdure asks", "perdure asks --all --limit 200", "perdure asks --json | jq -r '.items[].id'")
@filtered_by(AskFilters)
@reads
def asks(asked: StoreOptions, *, state: WaitStateName, everything: bool, **page: Any) -> None:
    """List questions to people, newest first: asks of runs, and approvals of calls to external systems."""
    with asked.open() as store:
        found = store.asks(state=None if everything else state, **page)
        filtered = not everything or page["about"] is not None or page["session"] is not None
        say_identified(found, COLUMNS, as_json=asked.as_json, what="asks", filtered=filtered)
    if not asked.as_json and any(ask.state is WaitState.OPEN for ask in found):
        note("answer one: perdure answer ASK VALUE")


@command(
    "answer",
    "perdure answer run:4f1c2a9b77d0/9 merge",
    "perdure answer run:4f1c2a9b77d0/12 approve --by alice --json",
)
@argument("ask", open_asks)
@click.argument("value")
@click.option("--by", metavar="NAME", help="Person who answers; default: the actor.")
@subjects_option
@writes
def answer(asked: StoreOptions, *, ask: str, value: str, by: str | None, about: tuple[str, ...]) -> None:
    """Answer ASK with VALUE, one of its choices or any text if it has none; once. Its run continues."""
    with asked.open() as store:
        record = store.answer(whole_id(store, ask), value, by=by, about=about)
    if asked.as_json:
        say_json(identified(record))
        return
    say_facts({"ask": record.id, "question": record.question, "answer": record.answer})
    note(f"answered by {record.met_by}: a worker continues its run (`perdure worker MODULE`)")
