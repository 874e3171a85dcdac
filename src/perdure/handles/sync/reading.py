# Generated from handles/aio/reading.py by tools/unasync.py: edit that one.
"""Calling what changes nothing outside: within its time, and again as often as it may fail.

Attempts are not recorded: what failed and is tried again in one drive leaves nothing behind. Callers: steps and models of a run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.effects.judging import backoff_seconds
from perdure.errors import Failed
from perdure.handles.callers import Caller, Check
from perdure.handles.invoking import Invoker
from perdure.runtime.journal import Known

INVOKER = Invoker(None)


def read(
    caller: Caller, known: Known, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], check: Check
) -> Any:  # fmt: skip
    """What a function gives; raises what its last attempt did. `Failed` is a clear no, and is not tried again.

    check: asked before each further attempt; raises when there shall be none.
    """
    for attempt in range(1, known.retries + 1):
        try:
            return _within(known, fn, args, kwargs, check)
        except Failed:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
            caller.pause(backoff_seconds(known.backoff_seconds, attempt, error), check)
            check()
    return _within(known, fn, args, kwargs, check)


def _within(known: Known, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], check: Check) -> Any:
    if known.timeout_seconds is None:
        return INVOKER.read(fn, args, kwargs, is_async=known.is_async)
    seconds = known.timeout_seconds
    return INVOKER.call_within(lambda: fn(*args, **kwargs), seconds, check, is_async=known.is_async)
