"""The HTTP client of Perdure: it takes no part of an answer for the whole, and has one deadline for everything.

An answer is whole when an empty line ended its headers, and its body had its Content-Length, its last chunk, or a status that
has none. `http.client` ends headers wherever the connection ends, without a word: half a 404 would be a 404. A body that lasts
until the connection ends does not show whether it is whole (`has_length`). Nothing is sent twice in hiding.

Callers: the ready HTTP tool and its probe, checks of pages (`exchange`), and stores on a server, whose connections live longer
than one request. Keeps P4, P15.
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
from email.message import Message
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

BROKEN = (OSError, http.client.HTTPException)
PIECE_BYTES = 64 * 1024
REASON_MAX_CHARS = 300
REDIRECTS_MAX = 5
SAFE_METHODS = frozenset({"GET", "HEAD"})
HTTP_URL = re.compile(r"https?://[!-~]+", re.ASCII)


class HalfAnswer(http.client.HTTPException):
    """The connection ended inside an answer."""


class NotSent(Exception):
    """There was no connection, so nothing was sent."""


class NotAnswered(Exception):
    """The request may have been sent, and there is no whole answer."""


class HttpAnswer(NamedTuple):
    """A whole answer. is_longer: the body is only the beginning. has_length: the answer itself said where its body ends."""

    status: int
    headers: Message
    body: bytes
    is_longer: bool
    has_length: bool


class _AnswerStream:
    """The stream of an answer. HalfAnswer for a line that the end of the connection cut off, or that never came."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readline(self, limit: int = -1) -> bytes:
        """The next line: of the status, the headers, the sizes of chunks, the trailer."""
        line: bytes = self._stream.readline(limit)
        if not line.endswith(b"\n") and len(line) != limit:
            raise HalfAnswer("the connection ended inside the answer")
        return line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class WholeResponse(http.client.HTTPResponse):
    """An answer as it comes in. Its headers are whole, or it does not begin."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fp: Any = _AnswerStream(self.fp)


class PlainConnection(http.client.HTTPConnection):
    """A connection in the clear."""

    response_class = WholeResponse


class TlsConnection(http.client.HTTPSConnection):
    """A connection over TLS."""

    response_class = WholeResponse


HttpConnection = PlainConnection | TlsConnection


def read_answer(response: Any, most_bytes: int) -> HttpAnswer:
    """The rest of an answer that has begun; of a long body the first bytes. Raises HalfAnswer, and what the connection raises."""
    body = bytearray()
    while len(body) <= most_bytes and (piece := response.read1(PIECE_BYTES)):
        body += piece
    is_longer = len(body) > most_bytes
    if response.length and not is_longer:
        raise HalfAnswer(f"the connection ended {response.length} bytes before the answer")
    return HttpAnswer(response.status, response.headers, bytes(body[:most_bytes]), is_longer, _has_length(response))


def _has_length(response: Any) -> bool:
    """Whether an answer says where its body ends: once, and in a way that is read here."""
    is_coded = response.headers.get("Transfer-Encoding") is not None
    lengths = {length.strip() for length in response.headers.get_all("Content-Length", ())}
    return response.chunked or (response.length is not None and not is_coded and len(lengths) <= 1)


# -- one request -----------------------------------------------------------------------------------------------------------


def exchange(
    request: urllib.request.Request, seconds: float, most_bytes: int, *, redirects: bool = False
) -> HttpAnswer:
    """Send a request once, by the proxy of the environment if there is one. Raises NotSent and NotAnswered.

    most_bytes: of the body. redirects: follow those of a GET or HEAD within its origin. Elsewhere the other side would choose
    whom this machine asks.
    """
    with _Wire(seconds) as wire:
        try:
            with _opened(wire, request, redirects=redirects) as response:
                answer = read_answer(response, most_bytes)
            if wire.cut and not answer.has_length:
                raise TimeoutError
        except (*BROKEN, ValueError) as error:
            reason = getattr(error, "reason", error)
            is_late = wire.cut or isinstance(reason, TimeoutError)
            why = f"no answer within {seconds:g} s" if is_late else f"{reason}"[:REASON_MAX_CHARS]
            raise (NotAnswered if wire.connected else NotSent)(why) from error
        return answer


def _opened(wire: _Wire, request: urllib.request.Request, *, redirects: bool) -> Any:
    """The response, also where urllib takes its status for an error."""
    opener = urllib.request.build_opener(_Http(wire), _Https(wire), _Redirects(follows=redirects))
    try:
        return opener.open(request, timeout=wire.seconds_left())
    except urllib.error.HTTPError as error:
        return error


def origin_of(url: str) -> str:
    """The scheme, host and port of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


class _Wire:
    """The connections of one request: what was sent, and the deadline, at which they are cut."""

    def __init__(self, seconds: float) -> None:
        self.connected = False  # from here on something may have been sent
        self.cut = False
        self._ends = time.monotonic() + seconds
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def seconds_left(self) -> float:
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
        for sock in self._sockets:
            try:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # the plain one: TLS must not talk any more
            except OSError:
                continue  # it is closed already


class _Http(urllib.request.HTTPHandler):
    def __init__(self, wire: _Wire) -> None:
        super().__init__()
        self._wire = wire

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_held(PlainConnection, self._wire), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, wire: _Wire) -> None:
        # Newer Pythons would load the trusted roots here, for every request; `https_open` has its own context.
        super().__init__(context=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        self._wire = wire

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_held(TlsConnection, self._wire), req, context=ssl.create_default_context())


def _held(kind: type[http.client.HTTPConnection], wire: _Wire) -> Any:
    """That class of connections, held by the wire as soon as they stand."""

    class Held(kind):
        def connect(self) -> None:
            super().connect()
            wire.hold(self)

    return Held


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections = REDIRECTS_MAX

    def __init__(self, *, follows: bool) -> None:
        super().__init__()
        self._is_followed = follows

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if (
            req.get_method() not in SAFE_METHODS
            or not HTTP_URL.fullmatch(newurl)
            or origin_of(newurl) != origin_of(req.full_url)
        ):
            return None  # the answer itself is what counts
        return super().redirect_request(req, fp, code, msg, headers, newurl)
