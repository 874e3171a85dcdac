"""Races: several calls at once, for the contract's two-connection tests. Threads if sync, tasks if async.

The contract uses it, one class for each colour. A refusal of Perdure is an outcome; any other exception
is raised, because it decides nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from perdure.errors import Error


class Outcomes(list[Any]):
    """The result or the refusal of each call, in the order of the calls."""

    @property
    def won(self) -> list[Any]:
        """The results of those that went through."""
        return [outcome for outcome in self if not isinstance(outcome, Error)]

    @property
    def refused(self) -> list[Error]:
        """The errors of those that did not."""
        return [outcome for outcome in self if isinstance(outcome, Error)]


class Race:
    """Calls on threads that begin together."""

    @staticmethod
    def between(*calls: Callable[[], Any]) -> Outcomes:
        """Run all of them at once and wait for the last."""
        start = threading.Barrier(len(calls))

        def run(call: Callable[[], Any]) -> Any:
            start.wait(timeout=60)
            try:
                return call()
            except Error as error:
                return error

        with ThreadPoolExecutor(len(calls)) as threads:
            return Outcomes(threads.map(run, calls))


class AsyncRace:
    """Calls on tasks of one event loop; each store has a lane of its own, so the commits do race."""

    @staticmethod
    async def between(*calls: Callable[[], Awaitable[Any]]) -> Outcomes:
        """Run all of them at once and wait for the last."""

        async def run(call: Callable[[], Awaitable[Any]]) -> Any:
            try:
                return await call()
            except Error as error:
                return error

        return Outcomes(await asyncio.gather(*map(run, calls)))
