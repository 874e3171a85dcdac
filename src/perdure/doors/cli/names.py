"""Completion of names: runs, effects and asks, as the shell's completion asks for them. Whatever goes wrong completes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from perdure.doors.cli.options import DEFAULT_STORE, Asked

if TYPE_CHECKING:
    from perdure.handles.sync.store import Store

OFFERED = 100
Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def _completing(listing: Callable[[Store], Iterable[Any]]) -> Complete:
    """A completion that offers the ids of what a listing of the store gives."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 - click's signature
        given = ctx.params
        asked = Asked(given.get("store") or DEFAULT_STORE, given.get("tenant") or "default", as_json=False)
        try:
            with asked.open() as store:
                found = [each.id for each in listing(store)]
        except Exception:  # noqa: BLE001 - a shell that completes must not be disturbed
            return []
        return [name for name in found if name.startswith(incomplete) and name.isprintable()]

    return complete


run_names = _completing(lambda store: store.runs(limit=OFFERED))
open_effects = _completing(lambda store: store.effects(state="in_doubt", limit=OFFERED))
open_asks = _completing(lambda store: store.asks(limit=OFFERED))


def argument(name: str, complete: Complete) -> Callable[[Any], Any]:
    """An argument that the shell completes."""
    return click.argument(name, shell_complete=complete)
