"""How a run stops without being over: nothing of the agent's own may catch it, so it is no Exception.

Raised by whatever waits inside an agent; caught by the driving of the run, which records what is waited for.
"""

from __future__ import annotations

from typing import TypeVar

from perdure.errors import Error

E = TypeVar("E", bound=BaseException)


class Suspended(BaseException):
    """The run waits: for a person, a signal, a time, a child, or for doubt to be settled. wake_us: look again then."""

    def __init__(self, reason: str, wake_us: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wake_us = wake_us


class Leaving(BaseException):
    """The process that drives the run is about to end: the run is given back, and goes on elsewhere."""


def found_in(error: BaseException, kinds: tuple[type[E], ...]) -> E | None:
    """The exception of one of these kinds that an error is, or that a group holds (task groups wrap what tasks raise)."""
    if isinstance(error, kinds):
        return error
    held = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return next((found for each in held if (found := found_in(each, kinds)) is not None), None)


def blamed_in(error: BaseException) -> int | None:
    """The effect by whose failure a program ended: `facts` of a Failed has it, or of the one that it was raised from."""
    failed = found_in(error, (Error,))
    name = None if failed is None else failed.facts.get("effect")
    if isinstance(name, str):
        return int(name.rpartition("/")[2])
    return None if error.__cause__ is None else blamed_in(error.__cause__)
