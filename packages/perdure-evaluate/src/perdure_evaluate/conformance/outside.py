"""The outside world of a worker under test: an HTTP server that counts what really arrived.

One for each worker, so that after a worker was killed it is known when nothing of it can arrive any more: its connections have
ended. Faults may strike here too, while a call is under way. Callers: the rig.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PATIENCE_SECONDS = 30.0


class Arrivals:
    """All that arrived, over all workers: how often, and under which keys."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self.calls: Counter[str] = Counter()
        self.keys: defaultdict[str, set[str]] = defaultdict(set)
        self.steps: Counter[str] = Counter()

    def arrive(self, what: str, key: str | None) -> int:
        """A call arrives. With a key it arrives once, as at services that deduplicate."""
        with self._mutex:
            if key is None:
                self.calls[what] += 1
            else:
                self.keys[what].add(key)
            return self.count_of(what)

    def count_of(self, what: str) -> int:
        """How often a thing was done."""
        return self.calls[what] + len(self.keys.get(what, ()))

    def step(self, what: str) -> int:
        """A step ran."""
        with self._mutex:
            self.steps[what] += 1
            return self.steps[what]


class Severed(Exception):
    """The connection ends here, without an answer."""


class LocalServer(ThreadingHTTPServer):
    """A server on a port of its own, which knows how many connections are open."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, connection: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), connection)
        self._mutex = threading.Lock()
        self.open_connections = 0
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """One connection, from its beginning to its end."""
        with self._mutex:
            self.open_connections += 1
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._mutex:
                self.open_connections -= 1

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that was cut is no error."""

    def close(self) -> None:
        """End it."""
        self.shutdown()
        self.server_close()

    def until_quiet(self) -> None:
        """Until no connection is left: of a client that was killed, and whatever it had sent by then, is read."""
        with socket.create_connection(("127.0.0.1", self.server_address[1]), PATIENCE_SECONDS) as barrier:
            barrier.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")  # accepted after whatever came before
            while barrier.recv(4096):
                pass
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.open_connections and time.monotonic() < deadline:
            time.sleep(0.002)


class JsonConnection(BaseHTTPRequestHandler):
    """Answers JSON, with connections that are kept."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the base class
        """Say nothing."""

    def body(self) -> bytes:
        """The body of the request."""
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def reply(self, status: int, body: bytes, content_type: str = "application/json") -> None:
        """Answer."""
        self.send_response(status)
        if status != HTTPStatus.NO_CONTENT:
            self.send_header("content-type", content_type)
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def outside(arrivals: Arrivals, strike: Callable[[str], None]) -> LocalServer:
    """The outside world of one worker. strike: called before and after a call is counted; raises Severed to end it there."""

    class Outside(JsonConnection):
        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            what = query.get("what", [""])[0]
            self.reply(200, json.dumps({"arrived": arrivals.count_of(what)}).encode())

        def do_POST(self) -> None:
            body = json.loads(self.body())
            if self.path == "/step":
                self.reply(200, json.dumps({"ran": arrivals.step(body["what"])}).encode())
                return
            try:
                strike("outside-before")
                arrived = arrivals.arrive(body["what"], body.get("key"))
                strike("outside-after")
            except Severed:
                self.close_connection = True
                return
            self.reply(200, json.dumps({"arrived": arrived}).encode())

    return LocalServer(Outside)
