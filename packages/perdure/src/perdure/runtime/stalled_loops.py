"""Notices an event loop that does not turn: an async agent that blocks it stops every other run of its worker. Keeps P15.

A thread looks every half second. It logs which run blocks the loop, and where its program is. Nothing can stop that program
but the end of its process, which frees all its runs: as suspects they are driven apart, and the one that blocks harms only
itself. The thread ends the process if it was told to end and the time of grace is over, or if the loop stood still for a
minute while other runs wait for it. Callers: the worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable

from perdure.runtime import log_context

log = logging.getLogger("perdure.worker")

LOOK_SECONDS = 0.5
STALL_SECONDS = 3.0  # without a turn, before it is said
STALL_MAX_SECONDS = 60.0  # before the process ends, if other runs are in it
FRAMES = 12  # of the stack that is logged


class LoopWatchdog:
    """Watches the event loop that it is made in. leave: ends this process at once. shared: whether several runs are in it."""

    def __init__(
        self, grace_seconds: float, leave: Callable[[], None] = lambda: None, shared: Callable[[], bool] = lambda: False
    ) -> None:
        self.count = 0  # times that the loop stood still
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._grace_seconds = grace_seconds
        self._leave = leave
        self._shared = shared
        self._leave_at = float("inf")
        self._told = 0
        self._asked_at = 0.0
        self._turned = True  # whether the loop has turned since it was asked to
        self._said = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="perdure-stalls", daemon=True)
        self._thread.start()

    def told(self) -> None:
        """The process was told to end; the second time without the grace. For signal handlers: it only notes when."""
        self._leave_at = time.monotonic() + (0.0 if self._told else self._grace_seconds)
        self._told += 1

    def close(self) -> None:
        """Watch no longer."""
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            if self._turned:
                self._turned = self._said = False
                self._asked_at = time.monotonic()
                with contextlib.suppress(RuntimeError):  # it is closed: the worker has ended
                    self._loop.call_soon_threadsafe(self._turn)
                continue
            stood_still = time.monotonic() - self._asked_at
            if stood_still >= STALL_SECONDS and not self._said:
                self._say(stood_still)
            if time.monotonic() > self._leave_at or (stood_still >= STALL_MAX_SECONDS and self._shared()):
                if not self._said:
                    self._say(stood_still)
                self._leave()

    def _turn(self) -> None:
        self._turned = True

    def _say(self, stood_still: float) -> None:
        self._said = True
        self.count += 1
        task = asyncio.current_task(self._loop)
        blamed = log_context.of(task) if task is not None else None
        frame = sys._current_frames().get(self._thread_id)
        trace = "".join(traceback.format_stack(frame)[-FRAMES:]) if frame is not None else ""
        about = {"run": blamed.run, "agent": blamed.agent} if blamed is not None else {}
        about |= {"seconds": round(stood_still, 1), "stalls": self.count, "trace": trace}
        log.warning(
            "an async agent blocks the event loop: call what blocks in a step, as a plain function", extra=about
        )
