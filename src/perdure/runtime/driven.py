"""Which run this code is driven for, and where in it something was raised: so that what is logged on its way says so.

Set by the worker around each run it drives; read by `telemetry/logs.py`. Tasks and threads of the run inherit it.
"""

from __future__ import annotations

import contextvars
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Driven(NamedTuple):
    """A run under way, as logs name it."""

    run: str
    agent: str
    parent: str | None


_current: contextvars.ContextVar[Driven | None] = contextvars.ContextVar("perdure_driven", default=None)


def current() -> Driven | None:
    """The run that this code belongs to, if any."""
    return _current.get()


def whence(error: BaseException) -> str:
    """Where something was raised, and its class. What it says is content, which stays out of logs: the store has it."""
    return "".join([*traceback.format_tb(error.__traceback__), type(error).__name__])


@contextmanager
def driving(run: str, agent: str, parent: str | None) -> Iterator[None]:
    """What is done inside is done for this run."""
    token = _current.set(Driven(run, agent, parent))
    try:
        yield
    finally:
        _current.reset(token)
