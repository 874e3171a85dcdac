"""`perdure query`: SQL of your own, which only reads."""

from __future__ import annotations

import json
from typing import Any

import click

from perdure.cli.options import StoreOptions, command, reads
from perdure.cli.output import compact, note, say_json
from perdure.cli.tables import Column, say_table


@command(
    "query",
    'perdure query "SELECT tool, state, count(*) AS effects FROM v_effects GROUP BY tool, state"',
    "perdure query 'SELECT session, seq, at FROM v_turns WHERE role = :role' --param role=user --json",
)
@click.argument("sql")
@click.option(
    "--param", "params", metavar="NAME=VALUE", multiple=True, help="A value for :NAME; JSON, or else text. Repeatable."
)
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=1000,
    show_default=True,
    metavar="N",
    help="At most so many rows.",
)
@reads
def query(asked: StoreOptions, *, sql: str, params: tuple[str, ...], limit: int) -> None:
    """Run SQL: one statement that reads the views (docs/sql.md). It cannot change anything."""
    with asked.open() as store:
        rows = store.query(sql, dict(map(_parsed, params)), limit=limit)
    if asked.as_json:
        say_json({"items": rows})
    elif rows:
        say_table([Column(name, lambda row, name=name: _shown(row[name])) for name in rows[0]], rows)
    else:
        note("no rows")


def _shown(value: Any) -> str | None:
    return None if value is None else compact(value)


def _parsed(param: str) -> tuple[str, Any]:
    name, found, value = param.partition("=")
    if not found:
        raise click.UsageError("--param is NAME=VALUE")
    try:
        given = json.loads(value)
    except ValueError:
        return name, value
    return name, given if isinstance(given, (int, float, str)) else value
