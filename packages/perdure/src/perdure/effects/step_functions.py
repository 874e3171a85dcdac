"""Calling functions that change nothing in the outside world: within a deadline, and with retries.

Attempts are not recorded: one that fails and is tried again at once leaves nothing behind. Callers: steps and models of a run,
and a model's calls of tools that only read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from inspect import iscoroutinefunction, signature
from typing import Any, NamedTuple

from perdure.effects.commands import CallOutcome, Consult, Pause, Steps
from perdure.effects.outcomes import backoff_seconds
from perdure.effects.tool import Tool, check_retries
from perdure.errors import Failed, Invalid, Refused
from perdure.model.functions import check_called, check_free
from perdure.model.instants import SECOND_US, duration_us
from perdure.model.limits import check_name
from perdure.model.records.effects import ToolKind
from perdure.planes.reading.durations import Duration


class StepFunction(NamedTuple):
    """A function that a step calls, and how. brief: of what it gives, only the digest is kept.

    timeout_seconds: of one attempt. retries: attempts after the first. backoff_seconds: the first pause between two.
    """

    fn: Callable[..., Any]
    name: str
    is_async: bool
    brief: bool = False
    timeout_seconds: float | None = None
    retries: int = 0
    backoff_seconds: float = 0.5


def as_step_function(fn: Any) -> StepFunction:
    """A function as a step calls it. Refused for a tool that acts on the outside world, Invalid for what is no function."""
    if isinstance(fn, Tool):
        if fn.kind is not ToolKind.READ:
            raise Refused(f"{fn.name} is {fn.kind}: a step may run again", path="step", hint=f"run.act({fn.name}, …)")
        timeout_seconds = None if fn.rule.timeout is None else fn.rule.timeout / SECOND_US
        return StepFunction(
            fn, fn.name, fn.is_async, brief=fn.keep == "digest", timeout_seconds=timeout_seconds, retries=fn.rule.retries,
            backoff_seconds=fn.backoff,
        )  # fmt: skip
    check_called(fn, "step")
    if not callable(fn):
        raise Invalid(f"expected a function, got {type(fn).__name__}", path="step")
    return StepFunction(fn, check_name(getattr(fn, "__name__", type(fn).__name__), "step"), iscoroutinefunction(fn))


def with_limits(called: StepFunction, timeout: Duration | None, retries: int | None) -> StepFunction:
    """The function, with a deadline and retries that its caller chose. Invalid if it has such parameters itself."""
    with suppress(TypeError, ValueError):  # some of Python's own functions do not tell their parameters
        check_free(signature(called.fn), {"timeout": timeout, "retries": retries}, called.name)
    if timeout is not None:
        called = called._replace(timeout_seconds=duration_us(timeout, "timeout") / SECOND_US)
    return called if retries is None else called._replace(retries=check_retries(retries))


def call_with_retries(
    called: StepFunction, args: tuple[Any, ...], kwargs: Mapping[str, Any], check: Callable[[], None] | None = None,
) -> Steps[CallOutcome]:  # fmt: skip
    """Call the function, and again if it fails, as often as it may be tried. Gives the outcome of the last attempt.

    A function that raises `Failed` is not called again. check: asked before each further attempt; raises when there shall be
    none.
    """
    call = Consult(called.fn, kwargs, called.is_async, called.timeout_seconds, args, check)
    for attempt in range(1, called.retries + 1):
        came = yield call
        if came.error is None or isinstance(came.error, Failed) or not isinstance(came.error, Exception):
            return came
        yield Pause(backoff_seconds(called.backoff_seconds, attempt, came.error), check=check)
        if check is not None:
            check()
    return (yield call)
