"""Verify in the background of a server, so that a page can show how far it has come. One at a time for a tenant.

Callers: the console's routes.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from perdure.cli.output import plain
from perdure.errors import Error
from perdure.model.records.integrity import Report
from perdure.planes.audit import verify
from perdure.runtime.callers import AsyncCaller


class VerifyJob:
    """One look at everything: how far it is, and what came of it."""

    def __init__(self) -> None:
        self.done = 0
        self.total = 0
        self.report: Report | None = None
        self.problem = ""
        self.task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """Whether it is under way."""
        return self.report is None and not self.problem

    def advance(self, done: int, total: int) -> None:
        """Take note of the progress; on another thread."""
        self.done, self.total = done, total

    async def run(self, caller: AsyncCaller) -> None:
        """Look at everything of a tenant, and keep what came of it."""
        look = partial(verify.verify_tenant, caller.core, caller.tenant, progress=self.advance)
        try:
            self.report = await caller.work(look)
        except Error as error:
            self.problem = str(error)

    def as_json(self) -> dict[str, Any]:
        """The state as the page gets it."""
        return {"done": self.done, "total": self.total, "report": plain(self.report), "problem": self.problem or None}


_JOBS: WeakKeyDictionary[Any, dict[int, VerifyJob]] = WeakKeyDictionary()


def start(serving: Any, caller: AsyncCaller) -> dict[str, Any]:
    """Begin, unless it is under way."""
    jobs = _JOBS.setdefault(serving, {})
    job = jobs.get(caller.tenant)
    if job is None or not job.running:
        job = jobs[caller.tenant] = VerifyJob()
        job.task = asyncio.create_task(job.run(caller))
    return job.as_json()


def state(serving: Any, caller: AsyncCaller) -> dict[str, Any]:
    """How far the last one is; an empty report if none was begun."""
    job = _JOBS.get(serving, {}).get(caller.tenant)
    return VerifyJob().as_json() if job is None else job.as_json()
