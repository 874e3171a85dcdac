"""A server in this process: an application over a store, tokens of every role, and a client for each."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Self

import httpx2
import uvicorn
from starlette.testclient import TestClient

import perdure
from perdure.doors.http.app import make_app
from perdure.doors.http.places import url_of
from perdure.doors.http.serving import Serving
from perdure.planes.access import tokens
from perdure.planes.access.tokens import CONTROL, TokenRole


def make_token(
    url: str, tenant: str = "default", role: str = "admin", actor: str = "alice", expires: Any = None
) -> str:
    with perdure.open(url_of(url, tenant), tenant=tenant):
        pass
    with perdure.open(url_of(url, CONTROL), tenant=CONTROL) as store:
        return store._caller.write(tokens.create, tenant, TokenRole(role), actor, expires)[0]


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


@contextmanager
def client(url: str, *, role: str = "admin", tenant: str = "default") -> Iterator[TestClient]:
    """A client with a token, in front of an application in this process."""
    text = make_token(url, tenant, role)
    with TestClient(
        make_app(Serving(url, tenant=tenant)), headers=bearer(text), raise_server_exceptions=False
    ) as found:
        yield found


class LiveServer:
    """A server on a port of its own, in a thread of this process."""

    def __init__(
        self, url: str, *, tenant: str = "default", pages: Callable[..., Any] = lambda *_: (), **serving: Any
    ) -> None:
        """pages: makes routes beside the table, of the server and its address."""
        self.serving = Serving(url, tenant=tenant, **serving)
        self._socket = socket.create_server(("127.0.0.1", 0))
        host, port = self._socket.getsockname()
        self.address = f"http://{host}:{port}"
        config = uvicorn.Config(
            make_app(self.serving, pages(self.serving, self.address)), http="httptools", ws="none", lifespan="on",
            log_config=None, access_log=False, timeout_graceful_shutdown=5,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)
        self.http = httpx2.Client(base_url=self.address, timeout=60)

    def __enter__(self) -> Self:
        self._thread.start()
        deadline = time.monotonic() + 60
        while not self._server.started:
            assert self._thread.is_alive(), "the server ended"
            assert time.monotonic() < deadline, "the server did not begin"
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
        self.serving.drain()
        self._server.should_exit = True
        self._thread.join(60)
        self._socket.close()

    def stream(self, path: str, headers: dict[str, str]) -> AbstractContextManager[httpx2.Response]:
        return self.http.stream("GET", path, headers=headers)
