"""A network that loses replies: what is cut, and what is not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from perdure_testing.faults import IDLE, Between, Proxy

READY, BUSY = IDLE, IDLE[:-1] + b"T"


@pytest.fixture
def server() -> Iterator[int]:
    """Answers every request with itself."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def serve(listener: socket.socket) -> None:
    try:
        while True:
            threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()
    except OSError:
        return


def echo(connection: socket.socket) -> None:
    with connection:
        while chunk := connection.recv(100):
            connection.sendall(chunk)


def said(connection: socket.socket, words: bytes) -> bytes:
    connection.sendall(words)
    return connection.recv(100)


def test_the_nth_reply_that_ends_a_transaction_is_lost_and_its_connection(server: int) -> None:
    with Between("127.0.0.1", server) as between:
        between.cut_ended(2)
        with socket.create_connection(("127.0.0.1", between.port)) as one:
            assert [said(one, words) for words in (BUSY, READY, BUSY, READY)] == [BUSY, READY, BUSY, b""]
        with socket.create_connection(("127.0.0.1", between.port)) as two:
            assert said(two, READY) == READY
        assert between.cut_ended() == 3
        assert between.cut_ended() == 0


def test_what_is_closed_takes_no_connection_of_others(server: int) -> None:
    """A thread that still accepted by a number would take those of the next one that gets it."""
    with Proxy("127.0.0.1", server) as proxy, socket.create_connection(("127.0.0.1", proxy.port)) as one:
        assert said(one, READY) == READY
    assert "proxy" not in {thread.name for thread in threading.enumerate()}


def test_nothing_is_lost_unless_it_is_told_to(server: int) -> None:
    with Between("127.0.0.1", server) as between, socket.create_connection(("127.0.0.1", between.port)) as one:
        assert [said(one, READY) for _ in range(3)] == [READY] * 3
