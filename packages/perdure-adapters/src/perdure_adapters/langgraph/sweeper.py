"""A thread that sweeps a store now and then, as LangGraph's stores have one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress

log = logging.getLogger(__name__)


class Sweeper:
    """Calls a function at intervals until it is stopped. A sweep that fails is logged, and the next one comes all the same."""

    __slots__ = ("_future", "_mutex", "_stop", "_sweep", "_thread")

    def __init__(self, sweep: Callable[[], int]) -> None:
        self._sweep = sweep
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._future: Future[None] = Future()

    def start(self, seconds: float) -> Future[None]:
        """Begin, unless it runs already. The future is done when it has stopped; cancelling it stops it."""
        with self._mutex:
            if self._thread is None or not self._thread.is_alive():
                self._stop, self._future = threading.Event(), Future()
                stop, future = self._stop, self._future
                future.add_done_callback(lambda _: stop.set())
                self._thread = threading.Thread(
                    target=self._run, args=(seconds, stop, future), name="perdure-langgraph-sweeper", daemon=True
                )
                self._thread.start()
            return self._future

    def stop(self, timeout: float | None = None) -> bool:
        """Stop; whether it has stopped within this many seconds."""
        with self._mutex:
            thread = self._thread
            self._stop.set()
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def _run(self, seconds: float, stop: threading.Event, future: Future[None]) -> None:
        while not stop.wait(seconds):
            try:
                swept = self._sweep()
            except Exception:
                log.exception("a sweep of ended items failed")
            else:
                log.debug("swept %d ended items", swept)
        with suppress(InvalidStateError):
            future.set_result(None)
