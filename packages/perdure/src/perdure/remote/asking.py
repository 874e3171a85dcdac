"""Requests to a server, and the table of verbs that are answered by them. Without colour: nothing here sends anything.

A verb of a plane has a function with its arguments, which gives the request of the route that answers it; or, where one request
is not enough, a generator that yields requests and returns what the verb returns. Callers: `remote.verbs`, `core`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from perdure.errors import Damaged, Error, Invalid, Refused, Unavailable
from perdure.log.change import Stream
from perdure.model.ids import new_uid
from perdure.model.instants import SECOND_US, duration_us
from perdure.model.limits import check_name
from perdure.model.values import to_plain
from perdure.planes.reading.origins import to_ref

F = TypeVar("F", bound=Callable[..., Any])


class RouteRequest(NamedTuple):
    """One request. answer: the type that its answer has. key: makes a write safe to repeat; None: it is so by itself.

    data: bytes that are sent as they are, instead of a body. takes_key: whether the verb has a `key=`, which this key is. by: the
    person in whose name it is; Refused for another than the token's, since a server believes tokens alone.
    """

    method: str
    path: str
    answer: Any = None
    query: Mapping[str, Any] = {}
    body: Any = None
    key: str | None = ""
    headers: Mapping[str, str] = {}
    data: bytes | None = None
    takes_key: bool = False
    by: str = ""


class AlreadyKnown(NamedTuple):
    """An answer for which nobody needs to be asked."""

    value: Any


# Fields in which null, or nothing (false, an empty list), says something else than the absence of the field.
NULL_IS_SAID = frozenset({"body", "program", "state", "value"})
EMPTY_IS_SAID = NULL_IS_SAID - {"program"} | {
    "about", "choices", "content", "data", "detail", "document", "keys", "kinds", "payload", "replace", "result", "subjects",
    "tags", "turns",
}  # fmt: skip

Asking = Generator[RouteRequest, Any, Any]
ANSWERED: dict[Callable[..., Any], Callable[..., RouteRequest | AlreadyKnown | Asking]] = {}


def answers(*verbs: Callable[..., Any]) -> Callable[[F], F]:
    """Let a function answer verbs: it is called with their arguments, but for the transaction."""

    def enter(function: F) -> F:
        ANSWERED.update(dict.fromkeys(verbs, function))
        return function

    return enter


# -- requests --------------------------------------------------------------------------------------------------------


def get(path: str, answer: Any, **query: Any) -> RouteRequest:
    """Read. Parameters that are None are left out."""
    return RouteRequest("GET", path, answer, query)


def post(path: str, answer: Any, **body: Any) -> RouteRequest:
    """Write, under a key that is made when it is sent."""
    return RouteRequest("POST", path, answer, body=given(body))


def keyed(request: RouteRequest, key: str | None) -> RouteRequest:
    """Write under the key that the caller gave, or under one that stands for it from now on."""
    return request._replace(key="" if key is None else check_name(key, "key"), takes_key=True)


def under_a_key(request: RouteRequest) -> RouteRequest:
    """A write as it is sent: under its key, or a new one. A verb that takes its key in the body gets the new one there, too."""
    if request.method == "GET" or request.key is None:
        return request
    key, body = request.key or new_uid().hex(), request.body
    if not isinstance(body, dict) or "key" not in body:
        return request._replace(key=key)
    return request._replace(key=key, body={**body, "key": key if body["key"] is None else body["key"]}, takes_key=True)


def leaves_open(error: Error, *, before: bool) -> bool:
    """Whether a request that ended with this error may have been carried out. before: an earlier attempt at it was not answered;
    then a refusal that comes ahead of every verb is about the last attempt alone.
    """
    return type(error) in (Error, Unavailable, Damaged) or (before and isinstance(error, (Unavailable, Refused)))


def unsettled(error: Error, request: RouteRequest) -> Error:
    """The error of a write that may have been carried out: it has the key, and says what to do with it."""
    if request.method == "GET" or request.key is None:
        return error
    error.key = (request.body or {}).get("key", request.key)
    again = (
        f"repeated with key={error.key!r} it is done once"
        if request.takes_key
        else f"its key was {error.key!r}: look first"
    )
    error.hint = f"{error.hint}; this write may have been carried out: {again}".removeprefix("; ")
    error.facts["key"] = error.key
    return error


def put(path: str, answer: Any, **body: Any) -> RouteRequest:
    """Write at a name."""
    return RouteRequest("PUT", path, answer, body=given(body))


def patch(path: str, answer: Any, **body: Any) -> RouteRequest:
    """Change fields; those that are not given stay."""
    return RouteRequest("PATCH", path, answer, body=body)


def given(body: Mapping[str, Any]) -> dict[str, Any]:
    """A body without what says no more than its absence: an older server refuses a field that it does not know, though nothing
    was meant by it.
    """
    return {name: value for name, value in body.items() if _says(name, value)}


def _says(name: str, value: Any) -> bool:
    if value is None:
        return name == "key" or name in NULL_IS_SAID  # a key that is missing is made when it is sent (`under_a_key`)
    return name in EMPTY_IS_SAID or not (value is False or value in ([], ()))


def path_of(stream: Stream, *parts: object) -> str:
    """The address of something in a session, scope or run."""
    return address(f"{stream.kind}s", stream.name, *parts)


def address(*parts: object) -> str:
    """An address below `/v1`: each part is encoded whole, and no part can climb out of it."""
    return "/v1/" + "/".join(_part(str(part)) for part in parts)


def _part(text: str) -> str:
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe="")


# -- arguments -------------------------------------------------------------------------------------------------------


def plain(value: Any, path: str) -> Any:
    """A value of the user as the log writes it. Invalid or TooLarge with the path of what is wrong."""
    return to_plain(value, path)


def several(given: Iterable[Any], path: str) -> list[Any]:
    """A list of texts. Invalid for a single text, whose letters nobody means."""
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise Invalid(f"expected a list, got {type(given).__name__}", path=path)
    return list(given)


def span(given: Any, path: str) -> str | None:
    """A duration as routes take it."""
    return None if given is None else f"{duration_us(given, path) / SECOND_US:.6f}s"


def instant(given: Any, path: str) -> str | None:
    """An instant, or an age, as routes take it."""
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise Invalid("a datetime without a time zone is ambiguous", path=path, hint="use datetime.now(UTC)")
        return given.isoformat()
    if isinstance(given, timedelta):
        return span(given, path)
    return None if given is None else str(given)


def refs_of(given: Iterable[object], path: str = "refs") -> list[list[Any]]:
    """References to turns, decisions, tasks, artifacts."""
    return [ref_of(each, f"{path}[{i}]") for i, each in enumerate(several(given, path))]


def sources(given: Iterable[object], path: str = "source") -> list[Any]:
    """The sources of a memory: texts stay as they are."""
    found = enumerate(several(given, path))
    return [each if isinstance(each, str) else ref_of(each, f"{path}[{i}]") for i, each in found]


def ref_of(thing: object, path: str) -> list[Any]:
    """A reference to a turn, decision, task or artifact."""
    found = to_ref(thing, path)
    return [found.uid, found.seq]


def number(thing: object, path: str) -> Any:
    """The number of a task or turn that is given as itself, its record or its number."""
    if thing is None or type(thing) is int:
        return thing
    found = getattr(thing, "id", None) if hasattr(thing, "title") else getattr(thing, "seq", None)
    if type(found) is not int:
        raise Invalid(f"expected a number, got {type(thing).__name__}", path=path)
    return found


def parameter(value: Any) -> list[str]:
    """A parameter as it stands in an address, once for each item of a list."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return [text for each in value for text in parameter(each)]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    return [str(value.value if isinstance(value, Enum) else value)]


def filters(asked: msgspec.Struct) -> dict[str, Any]:
    """The filters of a listing (`model.filters`) as parameters."""
    found = {name: getattr(asked, name) for name in asked.__struct_fields__}
    return found | {name: instant(found[name], name) for name in ("since", "until") if name in found}


def no_checks(checks: Iterable[object]) -> None:
    """Refused: a check is looked at where the store lies, and would see other files there."""
    if list(checks):
        raise Refused(
            "checks are not taken over the network: they would look at files of the server", path="checks",
            hint="write it where the store lies, by the store's own URL",
        )  # fmt: skip


def acts_as(name: str, actor: str, path: str = "by") -> None:
    """Refused for another name than the token's: a server believes tokens alone."""
    if name != actor:
        raise Refused(f"this token acts as {actor!r}, not as {name!r}", path=path, hint="use a token of that actor")
