"""Query, body and headers as typed input. Input that does not fit is Invalid, with the path of what is wrong (P15)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.requests import Request

from perdure.errors import Conflict, Invalid, TooLarge
from perdure.model.limits import KEY_MAX_CHARS, check_name
from perdure_server.http.call import HttpCall
from perdure_server.http.queries import filters_given
from perdure_server.http.table import IfMatch, Route

BODY_MAX_BYTES = 4 * 1024 * 1024
BODY_SECONDS = 60  # a client that sends more slowly holds what others need
JSON = "application/json"
ENCODED_TEXT = "UTF-8''"
KEY = "idempotency-key"
_ETAG = re.compile(r'"(?:(\d{1,12})-)?(\d{1,18})"', re.ASCII)
_FIELD = re.compile(r"Object (?:contains unknown|missing required) field `([^`]{1,80})`")
_PLACE = re.compile(r" - at `(?:key in )?\$(.*)`$")


def read_conditions(route: Route, call: HttpCall) -> None:
    """Read the headers that make a write safe to repeat. Invalid where the route takes none: passed over, they would lie."""
    key = call.headers.get("idempotency-key")
    if key is not None:
        if not route.takes_key:
            raise Invalid(f"{route.name} takes no key", path=f"header.{KEY}", hint="it is safe to repeat as it is")
        call.key = check_name(_key_text(key), f"header.{KEY}", KEY_MAX_CHARS)
    if route.method == "GET":
        return
    match, none_match = call.headers.get("if-match"), call.headers.get("if-none-match")
    if none_match is not None:
        if route.match is not IfMatch.VERSION or none_match.strip() != "*":
            raise Invalid("only `If-None-Match: *` of a value is understood here", path="header.if-none-match")
        call.version = 0
    if match is not None:
        _read_match(route, call, match.strip())


def _key_text(key: str) -> str:
    """A key as it was meant: one that no header can carry comes encoded, as in RFC 8187."""
    if not key.startswith(ENCODED_TEXT):
        return key.strip('"')
    try:
        return unquote_to_bytes(key[len(ENCODED_TEXT) :]).decode()
    except UnicodeDecodeError:
        raise Invalid("not UTF-8", path=f"header.{KEY}") from None


def _read_match(route: Route, call: HttpCall, match: str) -> None:
    path = "header.if-match"
    if route.match is IfMatch.NONE:
        raise Invalid(f"{route.name} takes no If-Match", path=path)
    found = _ETAG.fullmatch(match)
    if found is None or (found[1] is None) != (route.match is IfMatch.VERSION):
        raise Invalid("expected the ETag of an answer", path=path)
    if route.match is IfMatch.VERSION:
        call.version = int(found[2])
    elif int(found[1]) != call.caller.core.epoch:
        raise Conflict("this ETag is from before a restore", path=path, hint="read it again")
    else:
        call.head = int(found[2])


def query_of(route: Route, request: Request) -> msgspec.Struct:
    """The parameters of a request. Invalid for one that is unknown, repeated or malformed."""
    given: dict[str, Any] = {}
    lists = _lists_of(route.query)
    for name, value in request.query_params.multi_items():
        if name in lists:
            given[name] = [*given.get(name, ()), value]
            continue
        if name in given:
            raise Invalid("this parameter is given twice", path=f"query.{name[:40]}")
        given[name] = value
    query = converted(given, route.query, "query")
    return query if route.filters is None else filters_given(route.filters, query)


@cache
def _lists_of(kind: type[msgspec.Struct]) -> frozenset[str]:
    """The parameters that may be given more than once."""
    hints = get_type_hints(kind)
    return frozenset(
        name for name, hint in hints.items() if any(get_origin(each) is list for each in (hint, *get_args(hint)))
    )


async def body_of(route: Route, request: Request) -> Any:
    """The body of a request. TooLarge past the limit, before it is read whole; Invalid if it is no such record."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not kind and not route.needs_body and not await read_body(request):
        return route.body()
    if kind != JSON:
        raise Invalid(f"expected a body of type {JSON}", path="header.content-type")
    data = await read_body(request)
    try:
        return msgspec.json.decode(data, type=route.body)
    except msgspec.ValidationError as error:
        raise _invalid(error, "body") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"not JSON: {error}", path="body") from None
    except RecursionError:
        raise TooLarge("nested too deep", path="body") from None


def declared_size(request: Request) -> int:
    """The size that a body says it has; 0 if it says none."""
    length = request.headers.get("content-length", "")
    return int(length) if length.isdigit() and len(length) < 12 else 0


async def read_body(request: Request, most: int = BODY_MAX_BYTES) -> bytes:
    """The bytes of a body, within a limit."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > most:
        raise TooLarge(f"a body has at most {most} bytes", path="body")
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                data += piece
                if len(data) > most:
                    raise TooLarge(f"a body has at most {most} bytes", path="body")
    except TimeoutError:
        raise Invalid(f"the body did not come within {BODY_SECONDS} s", path="body") from None
    return bytes(data)


def converted(given: Mapping[str, Any], kind: Any, path: str) -> Any:
    """Texts as the fields of a record."""
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(error, path) from None


def _invalid(error: msgspec.ValidationError, path: str) -> Invalid:
    says = str(error)
    place, field = _PLACE.search(says), _FIELD.match(says)
    kind = TooLarge if " of length <= " in says else Invalid
    return kind(_PLACE.sub("", says), path=f"{path}{place[1] if place else ''}{f'.{field[1]}' if field else ''}")
