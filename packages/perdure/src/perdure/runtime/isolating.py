"""Calling isolated tools, for sync and for async, like the callers: in a process that is killed at its deadline.

Such a call is quiet when it is over, whatever ended it (`effects.child_process`). Callers: the shells. Keeps P4, P15.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from perdure.effects.child_process import IsolatedCall, Killed
from perdure.effects.commands import Overdue
from perdure.effects.tool import Tool
from perdure.model.instants import SECOND_US
from perdure.runtime import invoking
from perdure.runtime.callers import Check
from perdure.stores.liveness import Liveness


def _seconds(tool: Tool) -> float | None:
    return None if tool.rule.timeout is None else tool.rule.timeout / SECOND_US


def _result(child: IsolatedCall, seconds: float | None, check: Check = lambda: None) -> Any:
    try:
        return child.result(seconds, check)
    except Killed:
        raise Overdue(seconds or 0.0, quiet=child.quiet) from None
    except BaseException as error:
        error.quiet = child.quiet  # type: ignore[attr-defined] - as Overdue says it
        raise


@contextmanager
def _sending(liveness: Liveness) -> Iterator[tuple[int, ...]]:
    """The lock that the child inherits: it is kept while the child lives, also when the store is closed meanwhile."""
    liveness.sending(1)
    try:
        yield liveness.lock()
    finally:
        liveness.sending(-1)


def call(tool: Tool, args: Mapping[str, Any], handed: Mapping[str, Any], liveness: Liveness, check: Check) -> Any:
    """Call an isolated tool. Raises Overdue when it did not answer in time and was killed, and Failed and Unavailable as it
    raised them. check: asked meanwhile; an exception of it kills the tool, too.
    """
    with _sending(liveness) as lock:
        return _result(IsolatedCall(tool, args, handed, lock), _seconds(tool), check)


async def acall(tool: Tool, args: Mapping[str, Any], handed: Mapping[str, Any], liveness: Liveness) -> Any:
    """`call`, from async code: a thread waits for the child, the event loop does not. Cancelling kills the child at once."""
    from asyncio import CancelledError  # noqa: PLC0415 - only async callers pay for asyncio

    with _sending(liveness) as lock:
        child = IsolatedCall(tool, args, handed, lock)
        try:
            return await invoking.acall(lambda: _result(child, _seconds(tool)), None, is_async=False)
        except (CancelledError, GeneratorExit) as error:  # the latter: dropped with its event loop
            error.quiet = child.kill()  # type: ignore[attr-defined] - as Overdue says it
            raise
