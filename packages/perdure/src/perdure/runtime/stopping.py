"""Stopping a run that is not over. An agent must not catch what stops it, so that is no Exception.

Raised by whatever waits inside an agent; caught by the driving of the run, which records what is waited for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeVar

from perdure.effects.commands import Ending
from perdure.errors import Error, NewerSchema, Stale, Unavailable

E = TypeVar("E", bound=BaseException)
TROUBLES = (Stale, Unavailable, NewerSchema)  # of the lease or the store: none of them is the end of a run
TIMED_OUT = "TimedOut"  # the code of what ends because its run took too long
_EFFECT = re.compile(r"run:(.+)/(\d{1,18})", re.ASCII)


class Suspended(BaseException):
    """The run waits: for a person, a signal, a time, a child, or for doubt to be settled. wake_us: look again then."""

    def __init__(self, reason: str, wake_us: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wake_us = wake_us


class Leaving(BaseException):
    """The process that drives the run is about to end: the run is given back, and continues elsewhere."""


def found_in(error: BaseException, kinds: tuple[type[E], ...]) -> E | None:
    """The exception of one of these kinds that an error is, or that a group holds (task groups wrap what tasks raise)."""
    if isinstance(error, kinds):
        return error
    held = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return next((found for each in held if (found := found_in(each, kinds)) is not None), None)


def origins(error: BaseException) -> Iterator[BaseException]:
    """An error, what a group holds, and what each was raised from: whatever a program made of it."""
    yield error
    held = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for each in (*held, *([error.__cause__] if error.__cause__ is not None else [])):
        yield from origins(each)


def is_end(error: BaseException | None) -> bool:
    """Whether a run that raised this can only end, whatever its program makes of it: it is cancelled, or its time is over."""
    return error is not None and found_in(error, (Ending,)) is not None


def blamed_in(error: BaseException, run: str) -> int | str | None:
    """The failure by which a program ended: an effect of this run by its number, or a step by its place; None if neither."""
    for each in origins(error):
        facts = each.facts if isinstance(each, Error) else {}
        named, place = facts.get("effect"), facts.get("step")
        found = _EFFECT.fullmatch(named) if isinstance(named, str) else None
        if found is not None and found[1] == run:
            return int(found[2])
        if isinstance(place, str):
            return place
    return None
