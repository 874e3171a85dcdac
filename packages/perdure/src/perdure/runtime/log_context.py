"""The run that the running code is driven for, so that logs name it.

Set by the worker around each run it drives; read by `telemetry/logs.py`. Tasks and threads of the run inherit it.
"""

from __future__ import annotations

import contextvars
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple


class RunInLogs(NamedTuple):
    """A run under way, as logs name it."""

    run: str
    agent: str
    parent: str | None


_current: contextvars.ContextVar[RunInLogs | None] = contextvars.ContextVar("perdure_driven", default=None)

_tasks: weakref.WeakKeyDictionary[Any, RunInLogs] = weakref.WeakKeyDictionary()


def note(task: Any) -> None:
    """A task was made for the run that this code belongs to: another thread can look it up."""
    found = _current.get()
    if found is not None:
        _tasks[task] = found


def of(task: Any) -> RunInLogs | None:
    """The run that a task belongs to, if any."""
    return _tasks.get(task)


def current() -> RunInLogs | None:
    """The run that this code belongs to, if any."""
    return _current.get()


@contextmanager
def driving(run: str, agent: str, parent: str | None) -> Iterator[None]:
    """Work inside is done for this run."""
    token = _current.set(RunInLogs(run, agent, parent))
    try:
        yield
    finally:
        _current.reset(token)
