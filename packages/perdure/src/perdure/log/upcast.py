"""Upcasts: how a body written under an older schema is read today. Events are never rewritten.

A migration that reinterprets a recorded column adds a pure function here; `v` in a body says under which one it was written.
"""

from __future__ import annotations

from collections.abc import Callable

from perdure.errors import NewerSchema
from perdure.log.event import Body, Event

Upcast = Callable[[Event, Body], Body]

BODY_VERSION = 1
_UPCASTS: dict[int, Upcast] = {}  # from version n to n + 1


def newer(body: Body, path: str) -> NewerSchema:
    """The error of a body that a newer Perdure wrote: read as one of ours it would say something else."""
    what = f"an event was written by a newer Perdure (body version {body.v})"
    return NewerSchema(what, path=path, hint="upgrade this program")


def upcast(event: Event, body: Body, steps: dict[int, Upcast] = _UPCASTS, current: int = BODY_VERSION) -> Body:
    """The body as the current schema would have written it."""
    if body.v > current:
        raise newer(body, f"seq {event.seq}")
    for version in range(body.v, current):
        step = steps.get(version)
        body = step(event, body) if step else body
    return body
