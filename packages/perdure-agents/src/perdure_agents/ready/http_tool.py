"""An HTTP request with an idempotency key: sent once per call, its answer read as a yes, a no or doubt.

Called through the ledger (`session.act(http_request, "POST", url, body=…)`). Keeps P3, P4 and P15: nothing is sent again in
hiding, one deadline holds for everything, and answers are bounded. Arguments are recorded: what is secret comes from
`http_tool(secrets=…)`, when it is sent, and goes to one origin only.

    answer                                               means
    2xx, 303                                             it happened: the result
    425, 429, and no connection                          nothing was done: Unavailable, later
    other 4xx, 300, 304 to 308, any 3xx to a GET         a clear no: Failed (a redirect within the origin is followed first)
    1xx, 408, 409, 5xx, 301 and 302 (not to a GET), no answer, half an answer    not known: InDoubt; called again with the key
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from http import HTTPMethod, HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from perdure.effects.tool import Probe, Tool, tool
from perdure.errors import Error, Failed, InDoubt, Invalid, Unavailable
from perdure.model.http_client import (
    HTTP_URL,
    SAFE_METHODS,
    HttpAnswer,
    NotAnswered,
    NotSent,
    exchange,
    origin_of,
)
from perdure.model.limits import KEY_MAX_CHARS, check_name
from perdure.model.records.effects import Absent, Happened, Unknown
from perdure.model.values import encode
from perdure.planes.reading.durations import Duration
from perdure_agents.ready.checks import seconds, shortened

KEY_HEADER: Final = "Idempotency-Key"
BODY_MAX_BYTES: Final = 1024 * 1024  # of an answer; what is longer is cut, and says so
TIMEOUT_MAX_SECONDS: Final = 300.0
_LATER = frozenset({425, 429})
_DOUBT = frozenset({301, 302, 408, 409})
_GONE = frozenset({404, 410})
_METHODS = frozenset(each.value for each in HTTPMethod) - {"CONNECT", "TRACE"}
_OURS = frozenset({"idempotency-key", "host", "content-length", "transfer-encoding", "connection"})
_SECRET = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key"})
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_HOLE = re.compile(r"\{(\w+)\}")

Secrets = Callable[[], Mapping[str, str]]


def http_tool(
    name: str, *, origin: str | None = None, secrets: Secrets | None = None, probe: Probe | None = None,
    keeps_keys: Duration = "24h", retries: int = 3, lands_within: Duration = "60s",
) -> Tool:  # fmt: skip
    """Make a tool `(method, url, *, key, body=None, headers=None, timeout=30)`; see `http_request`.

    It is keyed; with `probe` (see `http_probe`) doubt is settled by asking, as many services know of no keys. origin: the
    only one that it may send to, as in "https://api.example.org". secrets: called for every request, gives headers that
    are sent and never recorded; needs an origin. keeps_keys: how long the other side remembers keys.
    """
    only = None if origin is None else origin_of(_url(origin, "origin"))
    if secrets is not None and only is None:
        raise Invalid("secrets need an origin, so that they go nowhere else", path="origin")

    def request(
        method: str,
        url: str,
        *,
        key: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: Duration = 30,
    ) -> dict[str, Any]:
        """Send one request; see `http_request`."""
        limit = seconds(timeout, TIMEOUT_MAX_SECONDS)
        if only is not None and origin_of(_url(url)) != only:
            raise Invalid(f"this tool sends to {only} only", path="url")
        hidden = {} if secrets is None else _headers(secrets(), "secrets", forbidden=_OURS)
        outgoing = _request(method, url, key, body, headers, hidden)
        return _result(_sent(outgoing, limit), safe=method in SAFE_METHODS)

    declared = tool(
        kind="keyed" if probe is None else None, name=name, probe=probe, timeout=TIMEOUT_MAX_SECONDS + 30,
        lands_within=lands_within, keeps_keys=keeps_keys, retries=retries, fails=(Invalid,),
    )  # fmt: skip
    return declared(request)


http_request = http_tool("http_request")
http_request.__doc__ = """Send one request with `Idempotency-Key: key`; returns its answer, as
{"status", "headers", "body", "truncated", "length_unknown"}.

method, url: a redirect of a GET or HEAD is followed within its origin, any other is not. body: text or bytes as they are,
anything else as JSON. The answer's body is a value if it is JSON, else text or bytes; of one above 1 MiB the beginning.
length_unknown: it lasted until the connection ended, so it may be cut. Never sends twice by itself.
Raises Invalid and Failed (a clear no, with its status), Unavailable (nothing was done), InDoubt: see the table of this module.
"""


def http_probe(
    url: str, *, found: Callable[[Any], Any] | None = None, secrets: Secrets | None = None, timeout: Duration = 10
) -> Probe:
    """Make a probe that asks by GET: Happened with what `found` makes of the body, Absent for None, 404 and 410, else Unknown.

    url: with `{key}` and the names of the tool's arguments in it, which are quoted: "https://…/orders/{key}".
    """
    limit = seconds(timeout, TIMEOUT_MAX_SECONDS)
    _url(_HOLE.sub("x", url))

    def probe(*, key: str = "", **args: Any) -> Happened | Absent | Unknown:
        hidden = {} if secrets is None else _headers(secrets(), "secrets", forbidden=_OURS)
        try:
            answer = _sent(_request("GET", _filled(url, {**args, "key": key}), None, None, None, hidden), limit)
            if not answer.has_length or answer.is_longer or answer.status == HTTPStatus.PARTIAL_CONTENT:
                return Unknown("the answer is a part, too long to be read whole, or of unknown length")
            if answer.status in _GONE:
                return Absent(_refusal(answer).message)
            result = _result(answer, safe=True)
        except Error as error:
            return Unknown(str(error))
        if not answer.body or not _is_what_it_says(answer):
            return Unknown("the answer is empty, or not what its media type says")
        value = result if found is None else found(result["body"])
        return Absent("it is not in the answer") if value is None else Happened(value)

    return probe


def _filled(url: str, args: Mapping[str, Any]) -> str:
    def value(hole: re.Match[str]) -> str:
        if hole[1] not in args:
            raise Invalid(f"the tool has no argument {hole[1]!r}", path="url")
        return quote(str(args[hole[1]]), safe="")

    return _HOLE.sub(value, url)


# What goes out -----------------------------------------------------------------------------------------------


def _request(
    method: object,
    url: object,
    key: str | None,
    body: Any,
    headers: Mapping[str, str] | None,
    hidden: Mapping[str, str],
) -> urllib.request.Request:
    if method not in _METHODS:
        raise Invalid(f"expected one of {', '.join(sorted(_METHODS))}; got {method!r}", path="method")
    data, kind = _body(body)
    sent = {**kind, **_headers(headers or {}, "headers", forbidden=_OURS | _SECRET), **hidden}
    if key is not None:
        sent[KEY_HEADER] = quote(check_name(key, "key", KEY_MAX_CHARS), safe="/:@+=,~ ")
    return urllib.request.Request(_url(url), data=data, headers=sent, method=str(method))  # noqa: S310


def _url(url: object, path: str = "url") -> str:
    """A URL that is one line and leads to a host. Invalid otherwise, and with a password in it: it would be recorded."""
    if not (isinstance(url, str) and HTTP_URL.fullmatch(url)):
        raise Invalid(f"expected a URL such as 'https://api.example.org/orders', got {url!r:.80}", path=path)
    try:
        parts, _ = urlsplit(url), urlsplit(url).port
    except ValueError as error:
        raise Invalid(f"no URL: {error}", path=path) from None
    if not parts.hostname or "@" in parts.netloc:
        raise Invalid("expected a host, and no name or password before it", path=path)
    return url


def _headers(headers: object, path: str, *, forbidden: frozenset[str]) -> dict[str, str]:
    if not isinstance(headers, Mapping):
        raise Invalid(f"expected a dict of texts, got {type(headers).__name__}", path=path)
    for name, value in headers.items():
        if not (_is_text(name) and _HEADER.fullmatch(name) and _is_text(value)):
            raise Invalid(f"no header: {name!r:.40}", path=path)
        if name.lower() in _SECRET & forbidden:
            raise Invalid(f"{name} would be recorded", path=path, hint="give it by http_tool(…, origin=…, secrets=…)")
        if name.lower() in forbidden:
            raise Invalid(f"{name} is set by Perdure", path=path)
    return dict(headers)


def _is_text(text: object) -> bool:
    return isinstance(text, str) and text.isascii() and text.isprintable()


def _body(body: Any) -> tuple[bytes | None, dict[str, str]]:
    if body is None or isinstance(body, bytes):
        return body, {} if body is None else {"Content-Type": "application/octet-stream"}
    if isinstance(body, str):
        return body.encode(), {"Content-Type": "text/plain; charset=utf-8"}
    encode(body, "body")
    return msgspec.json.encode(body), {"Content-Type": "application/json"}


# What comes back ---------------------------------------------------------------------------------------------


def _sent(request: urllib.request.Request, limit: float) -> HttpAnswer:
    """The whole answer. Unavailable if nothing was sent, InDoubt for anything less."""
    try:
        return exchange(request, limit, BODY_MAX_BYTES, redirects=True)
    except NotSent as error:
        raise Unavailable(f"no connection: {error}", path="url") from error
    except NotAnswered as error:
        raise InDoubt(f"sent, and then: {error}", path="url", hint="call it again with the same key") from error


def _result(answer: HttpAnswer, *, safe: bool) -> dict[str, Any]:
    """A whole answer as a yes; any other raises what it means."""
    status, headers = answer.status, answer.headers
    is_moved = safe and 300 <= status < 400
    if is_moved or not (200 <= status < 300 or status == 303):
        error = _moved(status, headers.get("Location")) if is_moved else _refusal(answer)
        if not answer.has_length:
            error.facts["length_unknown"] = True
        raise error
    kept_headers = {
        name: headers[name] for name in ("Content-Type", "Location", "ETag") if "\0" not in headers.get(name, "\0")
    }
    return {
        "status": status, "headers": kept_headers, "body": _value(answer), "truncated": answer.is_longer,
        "length_unknown": not answer.has_length,
    }  # fmt: skip


def _value(answer: HttpAnswer) -> Any:
    """JSON as a value, other text as text, the rest, and what could not be kept so, as bytes."""
    if not answer.is_longer and _is_json(answer):
        with suppress(ValueError, RecursionError, Invalid):  # msgspec's own errors are ValueErrors
            parsed = msgspec.json.decode(answer.body)
            encode(parsed)
            return parsed
    try:
        text = answer.body.decode()
    except UnicodeDecodeError:
        return answer.body
    return answer.body if "\0" in text else text


def _is_json(answer: HttpAnswer) -> bool:
    kind = answer.headers.get_content_type()
    return kind == "application/json" or kind.endswith("+json")


def _is_what_it_says(answer: HttpAnswer) -> bool:
    """Whether a body is what its media type says, where that shows: JSON, and text in its charset."""
    try:
        if _is_json(answer):
            msgspec.json.decode(answer.body)
        elif answer.headers.get("Content-Type", "").lower().startswith("text/"):
            answer.body.decode(answer.headers.get_content_charset("utf-8"))
    except (ValueError, LookupError, RecursionError):
        return False
    return True


def _seconds_until(later: str | None, now: str | None) -> int:
    """The wait that Retry-After asks for: seconds, or an instant by the other side's own clock. 0 for what says neither."""
    if later is None:
        return 0
    if later.strip().isdecimal() and later.isascii():
        return int(later[:10])
    try:
        return max(int((parsedate_to_datetime(later) - parsedate_to_datetime(now or "")).total_seconds()), 0)
    except (ValueError, TypeError, OverflowError):
        return 0


def _moved(status: int, where: str | None) -> Failed:
    """The answer to a GET that is not followed: it did nothing, so this is no doubt."""
    hint = f"it leads to {where:.200}; call that URL if you trust it" if where else ""
    return Failed(
        f"{status}: a redirect that is not followed", code=f"Http{status}", path="url", hint=hint, status=status
    )


def _refusal(answer: HttpAnswer) -> Error:
    status, headers = answer.status, answer.headers
    message = f"{status}: {shortened(answer.body.decode(errors='replace').replace(chr(0), ' '))}".removesuffix(": ")
    if status in _LATER:
        later = headers.get("Retry-After")
        hint = f"it says: retry after {later:.40}" if later else ""
        return Unavailable(
            message, path="url", hint=hint, status=status, retry_after=_seconds_until(later, headers.get("Date"))
        )
    if status in _DOUBT or not 200 <= status < 500:  # below 200: not the answer yet
        moved = headers.get("Location") if status in (301, 302) else None
        hint = f"it has moved to {moved:.200}" if moved else "call it again with the same key"
        return InDoubt(message, path="url", hint=hint, status=status)
    return Failed(message, code=f"Http{status}", path="url", status=status)
