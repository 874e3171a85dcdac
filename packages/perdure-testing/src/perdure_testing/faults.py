"""Faults to put a store to the test with: a network that loses replies, and a process that dies by SIGKILL.

Our own tests call it, and so do the tests of external stores. Afterwards everything acknowledged must be there, once (P1), and
what was not acknowledged once or not at all.
"""

from __future__ import annotations

import contextlib
import enum
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import IO, Protocol, Self, TypeVar

CHUNK_BYTES = 65_536
IDLE = b"Z\x00\x00\x00\x05I"  # with what PostgreSQL ends its reply when no transaction is open (any more)


class Cut(enum.StrEnum):
    """The fate of the request at which a connection is cut."""

    BEFORE = "before"  # it never reaches the server
    UNHEARD = "unheard"  # it reaches the server, and nobody waits for the answer
    REPLY = "reply"  # the server answers, and the answer is lost
    ENDED = "ended"  # a transaction has ended, by COMMIT or by itself, and the reply that says so is lost (PostgreSQL)
    LATER = "later"  # it reaches the server only after `Proxy.release`, when its sender has long given up


class Proxy:
    """A TCP proxy in front of a server: passes everything on until it is told to cut. A context manager.

    `cut(how, nth)` cuts, once, at the n-th request from now (`ENDED`: reply); `cuts` counts the cuts made, `ended` the replies
    that ended a transaction. For any thread.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._mutex = threading.Lock()
        self._armed: tuple[Cut, int] | None = None
        self._links: list[_Link] = []
        self._late: list[Callable[[], None]] = []
        self.cuts = self.ended = 0
        self._acceptor = threading.Thread(target=self._accept, daemon=True, name="proxy")
        self._acceptor.start()

    @property
    def port(self) -> int:
        """Where to connect to instead."""
        return self._listener.getsockname()[1]

    def cut(self, how: Cut, nth: int = 1) -> None:
        """Cut the connection that sends the n-th request from now; 0: none."""
        with self._mutex:
            self._armed = (how, nth) if nth else None

    def release(self) -> None:
        """Let the requests that were kept back (`Cut.LATER`) reach the server now."""
        with self._mutex:
            late, self._late = self._late, []
        for send in late:
            send()

    def close(self) -> None:
        """Cut everything and stop listening. Idempotent."""
        with contextlib.suppress(OSError):
            # Closing alone wakes nobody: the thread would accept for the next socket with its number.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._listener.close()
        with self._mutex:
            links, self._links = self._links, []
        for link in links:
            link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(self._target)
                except OSError:  # the server is down: so is whoever stands in front of it
                    client.close()
                    continue
                link = _Link(self, client, server)
                with self._mutex:
                    self._links.append(link)

    def due(self, *, ended: bool = False) -> Cut | None:
        """Count one request, or one reply that ended a transaction; the cut that is to be made at it, if any."""
        with self._mutex:
            self.ended += ended
            if self._armed is None or (self._armed[0] is Cut.ENDED) is not ended:
                return None
            how, nth = self._armed
            self._armed = (how, nth - 1) if nth > 1 else None
            self.cuts += nth == 1
            return how if nth == 1 else None

    def keep(self, send: Callable[[], None]) -> None:
        """Keep a request back until `release`."""
        with self._mutex:
            self._late.append(send)


class _Link:
    """One connection through the proxy: a thread for each direction."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._deaf = False  # whether the next answer is lost, and the connection with it
        for pump in (self._requests, self._replies):
            threading.Thread(target=pump, daemon=True, name="proxy-link").start()

    def _requests(self) -> None:
        with contextlib.suppress(OSError):
            while chunk := self._client.recv(CHUNK_BYTES):
                how = self._proxy.due()
                if how is Cut.LATER:
                    self._proxy.keep(lambda: self._send_late(chunk))
                    return _shut(self._client)
                if how is Cut.BEFORE:
                    break
                self._deaf = how is Cut.REPLY
                self._server.sendall(chunk)
                if how is Cut.UNHEARD:
                    break
        return self.close()

    def _replies(self) -> None:
        with contextlib.suppress(OSError):
            while chunk := self._server.recv(CHUNK_BYTES):
                if self._deaf or (chunk.endswith(IDLE) and self._proxy.due(ended=True)):
                    break
                self._client.sendall(chunk)
        self.close()

    def _send_late(self, chunk: bytes) -> None:
        with contextlib.suppress(OSError):
            self._server.sendall(chunk)

    def close(self) -> None:
        """Cut both sides."""
        _shut(self._client)
        _shut(self._server)


def _shut(side: socket.socket) -> None:
    with contextlib.suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)
    side.close()


class Between:
    """A `Proxy` in a process of its own, for who must not have threads. It ends with its owner. A context manager."""

    def __init__(self, host: str, port: int) -> None:
        command = [sys.executable, "-m", __name__, host, str(port)]
        self._program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603
        self.port = self._read()

    def cut_ended(self, nth: int = 0) -> int:
        """Lose the n-th reply from now that ends a transaction; none, if 0. Returns how many came since it was last asked."""
        assert self._program.stdin is not None
        self._program.stdin.write(f"{nth}\n")
        self._program.stdin.flush()
        return self._read()

    def _read(self) -> int:
        assert self._program.stdout is not None
        return int(self._program.stdout.readline())

    def close(self) -> None:
        """End it, and cut everything. Idempotent."""
        self._program.kill()
        self._program.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


def _stand_between(host: str, port: int) -> None:
    with Proxy(host, port) as proxy:
        os.write(1, f"{proxy.port}\n".encode())
        before = 0
        for line in sys.stdin:
            count = proxy.ended
            proxy.cut(Cut.ENDED, int(line))
            os.write(1, f"{count - before}\n".encode())
            before = count


class Running(Protocol):
    """A program that was begun, in a session of its own, and prints to us: a `subprocess.Popen`, or what stands for one."""

    pid: int
    stdout: IO[str] | None

    def kill(self) -> None:
        """End it."""
        ...

    def wait(self) -> int:
        """Wait for its end; its exit status."""
        ...


R = TypeVar("R", bound=Running)


def kill_after(program: Running, lines: int) -> list[str]:
    """Hear a program that prints one line for each acknowledged write; SIGKILL it and its group after some.

    Returns all the whole lines that it printed, those that were under way when it died included. A program
    that ends by itself before that is an error.
    """
    acks, status = strike_after(program, lines, lambda program: os.killpg(program.pid, signal.SIGKILL))
    if status != -signal.SIGKILL:
        raise RuntimeError(f"the program ended by itself, with {status}")
    return acks


def strike_after(program: R, lines: int, strike: Callable[[R], None]) -> tuple[list[str], int]:
    """Hear a program that prints one line for each acknowledged write; strike after some, and hear it to its end.

    Returns all the whole lines that it printed, before and after, and its exit status.
    """
    assert program.stdout is not None
    try:
        acks = [program.stdout.readline() for _ in range(lines)]
        strike(program)
        acks += program.stdout.readlines()
    finally:
        program.kill()
        program.stdout.close()
        status = program.wait()
    return [ack.rstrip("\n") for ack in acks if ack.endswith("\n")], status


if __name__ == "__main__":
    _stand_between(sys.argv[1], int(sys.argv[2]))
