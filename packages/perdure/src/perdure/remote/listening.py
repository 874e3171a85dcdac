"""News from a server: its event stream, followed by a thread for all who wait, and begun again wherever it is cut.

The server numbers what it tells (`id:`), and a stream that was cut continues after the last number, so whatever was recorded
meanwhile is told at once. The stream says only that something came: each waiting verb reads it through its own route. A thread
lives while somebody waits, and a while longer. Callers: `core`. Keeps P15.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from http.client import HTTPResponse
from typing import NamedTuple

from perdure.errors import Error
from perdure.model import threads
from perdure.model.http_client import BROKEN, HttpConnection
from perdure.remote.asking import get
from perdure.remote.connection import FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS, Connections

SILENCE_SECONDS = 45.0  # the server says every 15 seconds that it is alive
IDLE_SECONDS = 60.0  # after which a stream that nobody waits for ends
OK, GONE, BUSY = 200, 410, (408, 425, 429)


class StreamMessage(NamedTuple):
    """A message of an event stream: its place, and whether it says more than that the server is alive."""

    place: str
    has_data: bool


class StreamNews:
    """One stream, or none while nobody waits. run: tells only of that run."""

    def __init__(self, connections: Connections, run: str | None) -> None:
        self.heard = 0
        self.is_deaf = False
        self._connections = connections
        self._asked = get("/v1/stream", None, form="news", run=run)
        self._place = ""  # the last number of the server
        self._next = _future()
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None
        self._connection: HttpConnection | None = None
        self._wanted_until = 0.0
        self._ended = threading.Event()

    def after(self, heard: int) -> Future[None]:
        """Done when more was heard than that."""
        with self._mutex:
            self._wanted_until = time.monotonic() + IDLE_SECONDS
            if self._thread is None and not self.is_deaf and not self._ended.is_set():
                self._thread = threads.begin(self._follow, "perdure-news")
            if heard == self.heard and not self.is_deaf:
                return self._next
        told = _future()
        told.set_result(None)
        return told

    @property
    def is_idle(self) -> bool:
        """Whether no thread follows it."""
        return self._thread is None

    def close(self) -> None:
        """End the stream, and let everybody who waits for it look a last time. Calling it again does nothing."""
        self._ended.set()
        with self._mutex:
            thread, connection = self._thread, self._connection
        if connection is not None:
            _hang_up(connection)
        if thread is not None and thread is not threading.current_thread():
            thread.join(1.0)
        self._go_deaf()

    # -- the thread --------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        pause = 0.0
        while not self._ended.wait(pause) and not self.is_deaf and not self._is_left():
            before = self._place
            with suppress(*BROKEN):
                self._listen()
            pause = 0.0 if self._place != before else min(LAST_PAUSE_SECONDS, 2 * pause or FIRST_PAUSE_SECONDS)

    def _is_left(self) -> bool:
        """Whether nobody has waited for a while; then the next one begins another thread."""
        with self._mutex:
            if time.monotonic() < self._wanted_until:
                return False
            self._thread = None
            self._place = ""  # one who waits then hears at once: nobody listened in between
            return True

    def _listen(self) -> None:
        """One connection, until it ends."""
        connection = self._connections.connect(SILENCE_SECONDS)
        self._connection = connection
        try:
            headers = {"Accept": "text/event-stream", **({"Last-Event-ID": self._place} if self._place else {})}
            answer = self._connections.begin(connection, self._asked._replace(headers=headers))
            if answer.status == OK:
                self._hear(answer)
            elif answer.status == GONE:  # the store was restored: each waiting verb is told so by its own route
                self._place = ""
            elif answer.status < 500 and answer.status not in BUSY:
                self._go_deaf()
        except Error:
            self._go_deaf()
        finally:
            self._connection = None
            connection.close()

    def _hear(self, answer: HTTPResponse) -> None:
        if not self._place:
            self._tell()  # a stream without a place begins now: something may have come before
        for told in _messages(answer):
            self._place = told.place or self._place
            if told.has_data:
                self._tell()
            if self._ended.is_set() or time.monotonic() >= self._wanted_until:
                return

    def _tell(self) -> None:
        with self._mutex:
            self.heard += 1
            told, self._next = self._next, _future()
        told.set_result(None)

    def _go_deaf(self) -> None:
        self.is_deaf = True
        self._tell()


class StoreNews:
    """The streams of one open store, by what they tell of."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._streams: dict[str | None, StreamNews] = {}
        self._mutex = threading.Lock()

    def of(self, run: str | None) -> StreamNews:
        """The news of the store, or of a run. Nothing is asked of the server until somebody waits for them."""
        with self._mutex:
            kept = {name: each for name, each in self._streams.items() if name == run or not each.is_idle}
            self._streams = kept
            return kept.setdefault(run, StreamNews(self._connections, run))

    def close(self) -> None:
        """End all of them."""
        with self._mutex:
            streams = [*self._streams.values()]
        for each in streams:
            each.close()


def _future() -> Future[None]:
    """A future that nobody who waits for it can cancel: others wait for it, too."""
    made: Future[None] = Future()
    made.set_running_or_notify_cancel()
    return made


def _hang_up(connection: HttpConnection) -> None:
    """End a connection from another thread: whoever reads from it reads its end."""
    with suppress(OSError, AttributeError):
        connection.sock.shutdown(socket.SHUT_RDWR)


def _messages(lines: Iterable[bytes]) -> Iterator[StreamMessage]:
    """The messages of a stream. One that was cut off is none: its end, an empty line, is missing."""
    place, has_data = "", False
    for line in lines:
        name, _, value = line.rstrip(b"\r\n").partition(b":")
        if line in (b"\n", b"\r\n"):
            yield StreamMessage(place, has_data)
            has_data = False
        elif name == b"id" and line.endswith(b"\n"):
            place = value.strip().decode("ascii", "replace")
        elif name == b"data":
            has_data = True
