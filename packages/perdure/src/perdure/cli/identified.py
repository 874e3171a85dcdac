"""Listings of what has a name of the form `run:4f1c/12` (effects, asks): the name is a column, and a field of the JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from perdure.cli.output import plain
from perdure.cli.tables import Column, say_page


def identified(record: Any) -> dict[str, Any]:
    """A record as JSON, with the name that commands take."""
    return {"id": record.id, **plain(record)}


def say_identified(
    found: Iterable[Any], columns: Sequence[Column], *, as_json: bool, what: str, filtered: bool,
    besides: Callable[[Any], dict[str, Any]] = lambda _: {},
) -> None:  # fmt: skip
    """One page of a listing. besides: what else the JSON says of a record."""

    def form(record: Any) -> dict[str, Any]:
        return {**identified(record), **plain(besides(record))}

    say_page(found, columns, as_json=as_json, what=what, filtered=filtered, form=form)
