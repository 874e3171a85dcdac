"""How a run stops without being over: nothing of the agent's own may catch it, so it is no Exception.

Raised by whatever waits inside an agent; caught by the driving of the run, which records what is waited for.
"""

from __future__ import annotations


class Suspended(BaseException):
    """The run waits: for a person, a signal, a time, a child, or for doubt to be settled. wake_us: look again then."""

    def __init__(self, reason: str, wake_us: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wake_us = wake_us


def suspension_in(error: BaseException) -> Suspended | None:
    """The suspension that an exception is, or that a group of them holds (task groups wrap what their tasks raise)."""
    if isinstance(error, Suspended):
        return error
    if isinstance(error, BaseExceptionGroup):
        found = [each for each in map(suspension_in, error.exceptions) if each is not None]
        return found[0] if found else None
    return None
