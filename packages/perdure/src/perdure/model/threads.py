"""Threads of the house: each is a daemon with a name, and a system that has no room for another one is no crash.

Callers: the lane, the heartbeat, the pages of a files store, and remote stores that listen. Keeps P15: nobody waits for a thread
that never began.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

log = logging.getLogger("perdure.threads")


def begin(target: Callable[..., Any], name: str, args: tuple[Any, ...] = ()) -> threading.Thread | None:
    """Start a daemon thread. None, and a warning, where the system gives out no more threads: the next call tries again."""
    thread = threading.Thread(target=target, args=args, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        log.warning("the thread %s was not started: %s", name, error)
        return None
    return thread
