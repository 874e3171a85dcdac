"""Functions that users pass in: they are called in the middle of something and must be plain ones.

A coroutine function would do nothing and look as if it had; so would a generator function. Callers: `atomic`,
`update` and `fold`. Keeps P15.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from perdure.errors import Invalid

_HINT = "write it with `def`, and await before or after the call"


def plain(fn: Callable[..., Any], path: str) -> Callable[..., Any]:
    """The function, refusing to give what would have to be awaited. Raises Invalid before anything is called."""
    if not callable(fn):
        raise Invalid(f"expected a function, got {type(fn).__name__}", path=path)
    if inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn) or inspect.isgeneratorfunction(fn):
        raise Invalid("expected a plain function: an async one or a generator would never run", path=path, hint=_HINT)

    def checked(*args: Any) -> Any:
        result = fn(*args)
        if inspect.isawaitable(result):
            _abandon(result)
            raise Invalid("the function returned something to be awaited, and nobody would", path=path, hint=_HINT)
        return result

    return checked


def _abandon(awaitable: Any) -> None:
    """A coroutine that is closed does not warn that it was never awaited; a future is cancelled."""
    for end in ("close", "cancel"):
        if callable(getattr(awaitable, end, None)):
            getattr(awaitable, end)()
            return
