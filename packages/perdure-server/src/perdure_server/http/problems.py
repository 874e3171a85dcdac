"""Errors as RFC 9457 problems: status, path and way out come from the error tree; nothing is invented here (P15).

Callers: `app`. The `type` of a problem is the address below which this server describes its class.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from perdure import errors
from perdure.errors import Conflict, Error, Limited, Stale, Unauthenticated, Unavailable
from perdure.model.display import visible
from perdure.model.values import to_plain

MEDIA_TYPE = "application/problem+json"
TYPES = "/problems/"
FACT_MAX_CHARS = 2_000
CLASSES: dict[str, type[Error]] = {
    name: found for name, found in vars(errors).items() if inspect.isclass(found) and issubclass(found, Error)
}


class Problem9457(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem: `title` is the class of the error, `path` the place of what is wrong, `hint` the way out.

    retryable: whether the same request may succeed later. facts: what the error carries besides, such as the current version, as
    text; values: those of them that are no text, in the form of the log.
    """

    type: str
    title: str
    status: int
    detail: str
    path: str = ""
    hint: str = ""
    retryable: bool = False
    facts: dict[str, str] = {}
    values: dict[str, Any] = {}


def problem_of(error: Error, status: int | None = None) -> Problem9457:
    """An error of Perdure as a problem. status: where the protocol has a more exact one than the class."""
    name = type(error).__name__
    facts = {key: str(value)[:FACT_MAX_CHARS] for key, value in error.facts.items() if value is not None}
    values = {key: _fact(value) for key, value in error.facts.items() if type(value) is not str}
    return Problem9457(
        type=f"{TYPES}{name}", title=name, status=status or error.http_status, detail=visible(error.message),
        path=visible(error.path), hint=error.hint, facts=facts, values=values,
        retryable=isinstance(error, (Unavailable, Conflict)) and not isinstance(error, Stale),
    )  # fmt: skip


def _fact(value: Any) -> Any:
    """A fact as plain data; one that is long, or is none, as text that is cut."""
    try:
        plain = to_plain(value, from_store=True)
        if len(msgspec.json.encode(plain)) <= FACT_MAX_CHARS:
            return plain
    except Error:
        pass
    return visible(str(value))[:FACT_MAX_CHARS]


def response_to(error: Error, *, status: int | None = None, headers: Mapping[str, str] | None = None) -> Response:
    """An error as an answer."""
    told = problem_of(error, status)
    if told.status == 202:  # of a run that waits: it is no failure, but no result either
        told = msgspec.structs.replace(told, status=409)
    extra = dict(headers or {})
    if isinstance(error, Unauthenticated):
        extra["WWW-Authenticate"] = 'Bearer realm="perdure"'
    if isinstance(error, Unavailable):
        extra["Retry-After"] = str(max(1, int(float(error.facts.get("retry_after", 1)))))
    return Response(msgspec.json.encode(told), told.status, extra, MEDIA_TYPE)


def plain_response(status: int, title: str, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """A refusal of the protocol itself (no such route, a method that is not allowed): its status says it all."""
    told = Problem9457("about:blank", title, status, detail)
    return Response(msgspec.json.encode(told), status, dict(headers or {}), MEDIA_TYPE)


def described(name: str) -> dict[str, Any] | None:
    """The class of an error for somebody who follows the `type` of a problem."""
    found = CLASSES.get(name)
    if found is None:
        return None
    about = {"title": name, "status": found.http_status, "says": inspect.getdoc(found) or ""}
    return {**about, "is_a": [each.__name__ for each in found.__mro__[1:] if issubclass(each, Error)]}


__all__ = ["Limited", "Problem9457", "described", "plain_response", "problem_of", "response_to"]
