"""Completion of names: sessions, runs, effects and asks, as the shell's completion asks for them. An error completes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.options import DEFAULT_STORE, StoreOptions

if TYPE_CHECKING:
    from perdure.handles.sync.store import Store

OFFERED = 100
Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def _completing(listing: Callable[[Store], list[str]]) -> Complete:
    """A completion that offers the names which a listing of the store gives."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 - click's signature
        given = ctx.params
        asked = StoreOptions(given.get("store") or DEFAULT_STORE, given.get("tenant") or "default", as_json=False)
        try:
            with asked.open() as store:
                found = listing(store)
        except Exception:  # noqa: BLE001 - a shell that completes must not be disturbed
            return []
        return [name for name in found if name.startswith(incomplete) and name.isprintable()]

    return complete


def _sessions(store: Store) -> list[str]:
    return [each.name for each in store.sessions(limit=OFFERED)]


def _runs(store: Store) -> list[str]:
    return [each.id for each in store.runs(limit=OFFERED)]


def _versions(store: Store) -> list[str]:
    runs = [each.record.pins for each in store.runs(limit=OFFERED)]
    return sorted({f"{name}={value}" for pins in runs for name, value in pins.items()})


session_names = _completing(_sessions)
run_names = _completing(_runs)
shown_names = _completing(lambda store: _sessions(store) + _runs(store))
stream_names = _completing(lambda store: _sessions(store) + [f"run:{run}" for run in _runs(store)])
versions = _completing(_versions)
open_effects = _completing(lambda store: [each.id for each in store.effects(state="in_doubt", limit=OFFERED)])
open_asks = _completing(lambda store: [each.id for each in store.asks(limit=OFFERED)])


def argument(name: str, complete: Complete, **more: Any) -> Callable[[Any], Any]:
    """An argument that the shell completes."""
    return click.argument(name, shell_complete=complete, **more)
