"""The connections to a server: requests out, answers in, and again when a connection breaks or a gateway could not reach it.

Requests go one after the other over connections of `model.http_client`, and threads of the store carry async callers. A write has
a key of its own, so it is carried out once however often it is sent. Keeps P1, P15.
"""

from __future__ import annotations

import ipaddress
import json
import os
import ssl
import threading
import time
from contextlib import suppress
from http.client import HTTPResponse
from typing import Any
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from perdure.errors import Error, Invalid, Refused, Unavailable
from perdure.model.http_client import (
    BROKEN,
    HalfAnswer,
    HttpAnswer,
    HttpConnection,
    PlainConnection,
    TlsConnection,
    read_answer,
)
from perdure.remote.answers import read_problem
from perdure.remote.asking import RouteRequest, leaves_open, parameter, unsettled

IDLE_MAX = 64
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.02, 1.0
ANSWER_MAX_BYTES = 256 * 1024 * 1024
ENCODED_TEXT = "UTF-8''"
GATEWAY = (502, 503, 504)  # not now, or nobody knows what became of it


def read_address(url: str) -> SplitResult:
    """The address of a server. Invalid for what is none; Refused where a token would cross a network in the clear."""
    try:
        found = urlsplit(url)
        port = found.port
    except ValueError as error:
        raise Invalid(f"not an address: {error}", path="store") from None
    if not found.hostname or found.query or found.fragment or found.username or found.password or port == 0:
        hint = "https://host[:port][/path]; the token goes into token=, or into PERDURE_TOKEN"
        raise Invalid("not the address of a server", path="store", hint=hint)
    if found.scheme.lower() == "http" and not _is_loopback(found.hostname):
        raise Refused(
            f"{found.hostname} is another machine, and tokens must not cross a network in the clear", path="store",
            hint="use https://",
        )  # fmt: skip
    return found


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def _json(body: dict[str, Any]) -> bytes:
    """A body as JSON. Invalid, with the argument's name, for what is none: nothing is turned into text in silence."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError):
        for name, value in body.items():
            try:
                json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
            except (TypeError, ValueError, RecursionError) as error:
                raise Invalid(f"this cannot be sent: {error}"[:200], path=name) from None
        raise


def header_text(text: str) -> str:
    """A key as a header takes it: as it is, or encoded as in RFC 8187 where a header would change it."""
    is_plain = text.isascii() and text.isprintable() and text == text.strip(' "') and not text.startswith(ENCODED_TEXT)
    return text if is_plain else ENCODED_TEXT + quote(text, safe="")


class Connections:
    """The connections of one open store. Threads may share them: each takes one while it waits for its answer."""

    def __init__(self, url: str, token: str, timeout_seconds: float) -> None:
        self._address = read_address(url)
        self._timeout_seconds = timeout_seconds
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self._tls = ssl.create_default_context() if self._address.scheme.lower() == "https" else None
        self._idle: list[HttpConnection] = []
        self._mutex = threading.Lock()
        self._closed = False
        self._pid = os.getpid()

    def send(self, request: RouteRequest) -> HttpAnswer:
        """Send a request until it is answered, under one key. Raises what the server says.

        Unavailable when nobody answered in time: then a read was not answered, and a write may have been carried out. So may one
        that was refused, if an earlier attempt at it was not answered: the refusal is about the last attempt alone.
        """
        target, body, headers = self._written(request)
        deadline, pause = time.monotonic() + self._timeout_seconds, 0.0
        is_open = False
        while True:
            try:
                answer = self._exchange(request.method, target, body, headers)
            except ssl.SSLCertVerificationError as error:
                why = f"its certificate cannot be trusted: {error.verify_message}"
                trouble: Error = Refused(why, path="store")
                trouble.__cause__, is_final = error, True
            except BROKEN as error:
                trouble, is_final = self._away(error), False
            else:
                if 200 <= answer.status < 300:
                    return answer
                trouble, is_final = read_problem(answer.status, answer.body), answer.status not in GATEWAY
            is_open = leaves_open(trouble, before=is_open)
            if is_final or time.monotonic() + pause >= deadline:
                raise unsettled(trouble, request) if is_open else trouble
            time.sleep(pause)  # not at all the first time: a connection that was idle for long is mostly closed
            pause = min(LAST_PAUSE_SECONDS, 2 * pause or FIRST_PAUSE_SECONDS)

    def _written(self, request: RouteRequest) -> tuple[str, bytes | None, dict[str, str]]:
        given = [
            (name, text) for name, value in request.query.items() if value is not None for text in parameter(value)
        ]
        target = self._address.path.rstrip("/") + request.path + (f"?{urlencode(given)}" if given else "")
        headers = {**self._headers, **request.headers}
        body = request.data
        if request.method != "GET" and request.key is not None:
            headers["Idempotency-Key"] = header_text(request.key)
        if request.body is not None:
            body = _json(request.body)
            headers["Content-Type"] = "application/json"
        return target, body, headers

    def _exchange(self, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> HttpAnswer:
        connection = self._take()
        try:
            connection.request(method, target, body, headers)
            response = connection.getresponse()
            answer = read_answer(response, ANSWER_MAX_BYTES)
            response.close()
        except BaseException:
            connection.close()
            raise
        shows_its_end = answer.has_length and answer.status >= 200  # below 200, the answer is still to come
        self._give_back(connection, keeps=shows_its_end and not answer.is_longer and not response.will_close)
        if answer.is_longer:
            raise Unavailable(f"the answer has more than {ANSWER_MAX_BYTES} bytes", path="answer")
        if not shows_its_end:
            raise HalfAnswer("the answer does not say where it ends")
        return answer

    def begin(self, connection: HttpConnection, request: RouteRequest) -> HTTPResponse:
        """Send a request on a connection of its own; gives the answer as soon as it begins."""
        self._check_own_process()
        target, body, headers = self._written(request)
        connection.request(request.method, target, body, headers)
        return connection.getresponse()

    def _check_own_process(self) -> None:
        if self._pid != os.getpid():
            raise Refused("the store was opened before a fork", path="store", hint="open it again in the child process")

    def _take(self) -> HttpConnection:
        self._check_own_process()
        with self._mutex:
            if self._closed:
                raise Refused("the store is closed", path="store")
            if self._idle:
                return self._idle.pop()
        return self.connect(self._timeout_seconds)

    def connect(self, timeout_seconds: float) -> HttpConnection:
        """A connection of its own."""
        host, port = self._address.hostname or "", self._address.port
        if self._tls is None:
            return PlainConnection(host, port, timeout=timeout_seconds)
        return TlsConnection(host, port, timeout=timeout_seconds, context=self._tls)

    def _give_back(self, connection: HttpConnection, *, keeps: bool) -> None:
        with self._mutex:
            if keeps and not self._closed and len(self._idle) < IDLE_MAX:
                self._idle.append(connection)
                return
        connection.close()

    def _away(self, error: Exception) -> Unavailable:
        says = str(error) or type(error).__name__
        hint = "is the server running, and is this its address?"
        away = Unavailable(f"{self._address.netloc} does not answer: {says}"[:300], path="store", hint=hint)
        away.__cause__ = error
        return away

    def __del__(self) -> None:
        """A store that nobody closed leaves no socket open."""
        with suppress(Exception):
            self.close()

    def close(self) -> None:
        """Close what is idle; what is under way ends by itself."""
        with self._mutex:
            self._closed = True
            idle, self._idle = self._idle, []
        if self._pid == os.getpid():
            for connection in idle:
                connection.close()
