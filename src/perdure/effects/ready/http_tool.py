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

import http.client
import re
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final, Self
from urllib.parse import quote, urlsplit

import msgspec

from perdure.effects.ready.checks import seconds, shortened
from perdure.effects.tool import Probe, Tool, tool
from perdure.errors import Error, Failed, InDoubt, Invalid, Unavailable
from perdure.model.limits import KEY_MAX_CHARS, check_name
from perdure.model.records.effects import Absent, Happened, Unknown, Verdict
from perdure.model.values import encode
from perdure.planes.reading.durations import Duration

KEY_HEADER: Final = "Idempotency-Key"
BODY_MAX_BYTES: Final = 1024 * 1024  # of an answer; what is longer is cut, and says so
TIMEOUT_MAX_SECONDS: Final = 300.0
_LATER = frozenset({425, 429})
_DOUBT = frozenset({301, 302, 408, 409})
_GONE = frozenset({404, 410})
_METHODS = frozenset(each.value for each in http.HTTPMethod) - {"CONNECT", "TRACE"}
_SAFE = frozenset({"GET", "HEAD"})
_OURS = frozenset({"idempotency-key", "host", "content-length", "transfer-encoding", "connection"})
_SECRET = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key"})
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_URL = re.compile(r"https?://[!-~]+", re.ASCII)
_HOLE = re.compile(r"\{(\w+)\}")
_CHUNK_BYTES = 64 * 1024

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
    only = None if origin is None else _origin(_url(origin, "origin"))
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
        if only is not None and _origin(_url(url)) != only:
            raise Invalid(f"this tool sends to {only} only", path="url")
        hidden = {} if secrets is None else _headers(secrets(), "secrets", forbidden=_OURS)
        return _answered(_request(method, url, key, body, headers, hidden), limit)

    declared = tool(
        kind="keyed" if probe is None else None, name=name, probe=probe, timeout=TIMEOUT_MAX_SECONDS + 30,
        lands_within=lands_within, keeps_keys=keeps_keys, retries=retries, fails=(Invalid,),
    )  # fmt: skip
    return declared(request)


http_request = http_tool("http_request")
http_request.__doc__ = """Send one request with `Idempotency-Key: key`; returns {"status", "headers", "body", "truncated"}.

method, url: a redirect of a GET or HEAD is followed within its origin, any other is not. body: text or bytes as they are,
anything else as JSON. The answer's body is a value if it is JSON, else text or bytes; of one above 1 MiB the beginning. Never
sends twice by itself.
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

    def probe(*, key: str = "", **args: Any) -> Verdict:
        hidden = {} if secrets is None else _headers(secrets(), "secrets", forbidden=_OURS)
        try:
            answer = _answered(_request("GET", _filled(url, {**args, "key": key}), None, None, None, hidden), limit)
        except Failed as error:
            return Absent(error.message) if error.facts.get("status") in _GONE else Unknown(str(error))
        except Error as error:
            return Unknown(str(error))
        return _verdict(answer, found)

    return probe


def _verdict(answer: Mapping[str, Any], found: Callable[[Any], Any] | None) -> Verdict:
    if answer["truncated"]:
        return Unknown(f"the answer is longer than {BODY_MAX_BYTES} bytes")
    result = answer if found is None else found(answer["body"])
    return Absent("it is not in the answer") if result is None else Happened(result)


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
    if not (isinstance(url, str) and _URL.fullmatch(url)):
        raise Invalid(f"expected a URL such as 'https://api.example.org/orders', got {url!r:.80}", path=path)
    try:
        parts, _ = urlsplit(url), urlsplit(url).port
    except ValueError as error:
        raise Invalid(f"no URL: {error}", path=path) from None
    if not parts.hostname or "@" in parts.netloc:
        raise Invalid("expected a host, and no name or password before it", path=path)
    return url


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


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


# The wire ----------------------------------------------------------------------------------------------------


class _Wire:
    """The connections of one call: what was sent, and the deadline, at which they are cut."""

    def __init__(self, limit: float) -> None:
        self.connected = False  # from here on something may have been sent
        self.cut = False
        self._ends = time.monotonic() + limit
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(limit, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def left(self) -> float:
        """Seconds until the deadline; never nothing, as no timeout would be for ever."""
        return max(self._ends - time.monotonic(), 0.001)

    def hold(self, connection: http.client.HTTPConnection) -> None:
        """Connected, and nothing sent yet. TimeoutError if that took too long: then nothing is sent."""
        self._sockets.append(connection.sock)
        if self.cut:
            raise TimeoutError("the deadline passed before the connection stood")
        self.connected = True

    def _cut(self) -> None:
        self.cut = True
        for each in self._sockets:
            try:
                socket.socket.shutdown(each, socket.SHUT_RDWR)  # the plain one: TLS must not talk any more
            except OSError:
                continue  # it is closed already

    def opener(self) -> urllib.request.OpenerDirector:
        """An opener whose connections this wire holds."""
        return urllib.request.build_opener(_Http(self), _Https(self), _Redirects())


class _Http(urllib.request.HTTPHandler):
    def __init__(self, wire: _Wire) -> None:
        super().__init__()
        self._wire = wire

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_held(http.client.HTTPConnection, self._wire), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, wire: _Wire) -> None:
        super().__init__()
        self._wire = wire

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_held(http.client.HTTPSConnection, self._wire), req, context=ssl.create_default_context())


def _held(kind: type[http.client.HTTPConnection], wire: _Wire) -> Any:
    """That class of connections, held by the wire as soon as they stand."""

    class Held(kind):
        def connect(self) -> None:
            super().connect()
            wire.hold(self)

    return Held


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a GET or HEAD within its origin. Elsewhere the other side would choose whom this machine asks, and guards and
    `origin=` have seen the first URL only.
    """

    max_redirections = 5

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if req.get_method() not in _SAFE or not _URL.fullmatch(newurl) or _origin(newurl) != _origin(req.full_url):
            return None  # the answer itself is what counts
        return super().redirect_request(req, fp, code, msg, headers, newurl)


# What comes back ---------------------------------------------------------------------------------------------


def _answered(request: urllib.request.Request, limit: float) -> dict[str, Any]:
    """Send it once and read the answer as a yes, a no, or doubt."""
    with _Wire(limit) as wire:
        try:
            with _opened(wire, request) as response:
                return _result(response, wire, safe=request.get_method() in _SAFE)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _unanswered(error, wire, limit) from error


def _opened(wire: _Wire, request: urllib.request.Request) -> Any:
    """The response, also where urllib takes its status for an error."""
    try:
        return wire.opener().open(request, timeout=wire.left())
    except urllib.error.HTTPError as error:
        return error


def _unanswered(error: Exception, wire: _Wire, limit: float) -> Unavailable | InDoubt:
    reason = getattr(error, "reason", error)
    late = wire.cut or isinstance(reason, TimeoutError)
    why = f"no answer within {limit:g} s" if late else shortened(str(reason))
    if wire.connected:
        return InDoubt(f"sent, and then: {why}", path="url", hint="call it again with the same key")
    return Unavailable(f"no connection: {why}", path="url")


def _result(response: Any, wire: _Wire, *, safe: bool) -> dict[str, Any]:
    data = _read(response)
    status, headers = response.status, response.headers
    if safe and 300 <= status < 400:
        raise _moved(status, headers.get("Location"))
    if not (200 <= status < 300 or status == 303):
        raise _refusal(status, data, headers)
    cut = len(data) > BODY_MAX_BYTES
    if wire.cut or (response.length and not cut):  # the rest of the announced length
        raise http.client.IncompleteRead(data)
    kept = {name: headers[name] for name in ("Content-Type", "Location", "ETag") if "\0" not in headers.get(name, "\0")}
    body = _value(data[:BODY_MAX_BYTES], headers.get_content_type(), whole=not cut)
    return {"status": status, "headers": kept, "body": body, "truncated": cut}


def _read(response: Any) -> bytes:
    """The body; of a long one a little more than is kept."""
    data = bytearray()
    while len(data) <= BODY_MAX_BYTES and (piece := response.read1(_CHUNK_BYTES)):
        data += piece
    return bytes(data)


def _value(data: bytes, kind: str, *, whole: bool) -> Any:
    """JSON as a value, other text as text, the rest, and what could not be kept so, as bytes."""
    try:
        if whole and (kind == "application/json" or kind.endswith("+json")):
            parsed = msgspec.json.decode(data)
            encode(parsed)
            return parsed
    except (ValueError, RecursionError, Invalid):  # msgspec's own errors are ValueErrors
        pass
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data
    return data if "\0" in text else text


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


def _refusal(status: int, data: bytes, headers: Mapping[str, str]) -> Error:
    said = f"{status}: {shortened(data.decode(errors='replace').replace(chr(0), ' '))}".removesuffix(": ")
    if status in _LATER:
        later = headers.get("Retry-After")
        hint = f"it says: retry after {later:.40}" if later else ""
        return Unavailable(
            said, path="url", hint=hint, status=status, retry_after=_seconds_until(later, headers.get("Date"))
        )
    if status in _DOUBT or not 200 <= status < 500:  # below 200: not the answer yet
        moved = headers.get("Location") if status in (301, 302) else None
        hint = f"it has moved to {moved:.200}" if moved else "call it again with the same key"
        return InDoubt(said, path="url", hint=hint, status=status)
    return Failed(said, code=f"Http{status}", path="url", status=status)
