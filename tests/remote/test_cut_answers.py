"""An answer that is cut off in its middle is no answer: the request is sent again (P1)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from perdure.remote.asking import get
from perdure.remote.connection import Connections

BODY = b'{"items": []}'


@pytest.fixture(params=[0, 5])
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    """A server that cuts its first answer off after so many bytes of the body."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for sent in (request.param, len(BODY)):
                client, _ = server.accept()
                with client:
                    client.recv(65_536)
                    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY[:sent])

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def test_an_answer_that_is_cut_off_is_asked_for_again(port: int) -> None:
    connection = Connections(f"http://127.0.0.1:{port}", "a-token", 10.0)
    try:
        assert connection.send(get("/v1/feed", bytes)) == BODY
    finally:
        connection.close()
