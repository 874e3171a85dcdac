"""HTTP that goes wrong on purpose: answers that are cut at a chosen byte, and a way to a server that cuts and refuses.

Used by the tests of whatever speaks HTTP as a client: the tool and its probe, checks, a store on a server.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple, Self

JSON = b"Content-Type: application/json\r\n"
# Each kind of answer, whole. `ends` are those whose body lasts until the connection ends.
WHOLE = {
    "200": b'HTTP/1.1 200 OK\r\n%sContent-Length: 7\r\n\r\n{"n":1}' % JSON,
    "200 in chunks": b'HTTP/1.1 200 OK\r\n%sTransfer-Encoding: chunked\r\n\r\n3\r\n{"n\r\n4;x=1\r\n":1}\r\n0\r\n\r\n'
    % JSON,
    "200 in chunks, with a trailer": (
        b'HTTP/1.1 200 OK\r\n%sTransfer-Encoding: chunked\r\n\r\n7\r\n{"n":1}\r\n0\r\nX: y\r\n\r\n' % JSON
    ),
    "200 empty": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "200 no JSON": b'HTTP/1.1 200 OK\r\n%sContent-Length: 6\r\n\r\n{"n":1' % JSON,
    "200 no UTF-8": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n\xff\xfe",
    "201": b'HTTP/1.1 201 Created\r\nLocation: /orders/12\r\n%sContent-Length: 7\r\n\r\n{"n":1}' % JSON,
    "204": b'HTTP/1.1 204 No Content\r\nETag: "ab"\r\n\r\n',
    "302": b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere.invalid/\r\nContent-Length: 4\r\n\r\nthat",
    "404": b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    "404 with a body": b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone",
    "410": b"HTTP/1.1 410 Gone\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nnone\r\n0\r\n\r\n",
    "500": b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno",
    "503": b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 4\r\n\r\nbusy",
}
ENDS = {
    "200": b'HTTP/1.1 200 OK\r\n%s\r\n{"n":1}' % JSON,
    "404": b"HTTP/1.0 404 Not Found\r\nServer: old\r\n\r\nnone",
}


def cuts(answer: bytes) -> Iterator[bytes]:
    """Every beginning of an answer that is not all of it."""
    return (answer[:length] for length in range(len(answer)))


class RawServer:
    """Answers each request with the bytes that come next, and ends the connection. A context manager."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.requests: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client:
                request = read_message(client)
                if request:
                    self.requests.append(request)
                    client.sendall(self.answers.pop(0) if self.answers else b"")


class Fate(NamedTuple):
    """The fate of a request. upto: so many bytes of its answer come through, negative ones from the end; None: all of them.

    status: the answer is this one, as if a gateway gave it, with this body.
    """

    arrives: bool = True
    upto: int | None = None
    status: int = 0
    body: bytes = b"back"


PASSES, IS_LOST, ANSWER_IS_LOST = Fate(), Fate(arrives=False, upto=0), Fate(upto=0)


class HostileProxy:
    """A way to a server on this machine, on which `fate(number, request)` decides what becomes of each request.

    A context manager. Each request has a connection of its own. port: of the server; another one may take its place.
    """

    def __init__(self, port: int, fate: Callable[[int, bytes], Fate]) -> None:
        self.target = port
        self.fate = fate
        self.count = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            request = read_message(client)
            if not request:
                return
            self.count += 1
            fate = self.fate(self.count, request)
            answer = self._answered(request) if fate.arrives else b""
            if fate.status:
                answer = b"HTTP/1.1 %d Gateway\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (
                    fate.status, len(fate.body), fate.body,
                )  # fmt: skip
            client.sendall(answer[: fate.upto])

    def _answered(self, request: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.target)) as server:
            server.sendall(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            return b"".join(iter(lambda: server.recv(1 << 20), b""))


def read_message(sender: socket.socket) -> bytes:
    """A whole request or answer that says its length; what came of it, if the connection ended before."""
    data = bytearray()
    while b"\r\n\r\n" not in data:
        piece = sender.recv(65_536)
        if not piece:
            return b""
        data += piece
    head, _, body = bytes(data).partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        piece = sender.recv(65_536)
        if not piece:
            return b""
        body += piece
    return head + b"\r\n\r\n" + body
