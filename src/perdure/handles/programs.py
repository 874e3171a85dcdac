"""The argument of an agent's function, by its colour: a `Run` or an `AsyncRun`. Callers: whoever drives runs, through a shell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.runtime.agent import Agent


def run_for(agent: Agent) -> Callable[..., Any]:
    """The class of the run that this agent's function gets. Each colour is loaded where it is needed."""
    if agent.is_async:
        from perdure.handles.aio.run import AsyncRun  # noqa: PLC0415 - only who has async agents pays for it

        return AsyncRun
    from perdure.handles.sync.run import Run  # noqa: PLC0415 - as above

    return Run
