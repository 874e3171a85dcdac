"""A server in this process: an application over a store, tokens of every role, and a client for each."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, NamedTuple, Self
from urllib.parse import unquote

import httpx2
import uvicorn
from msgspec.json import encode
from starlette.testclient import TestClient

import perdure
from perdure.planes.access import tokens
from perdure.planes.access.tokens import CONTROL, TokenRole
from perdure.runtime.callers import caller_of
from perdure_server.http.app import make_app
from perdure_server.http.places import url_of
from perdure_server.http.serving import Serving


def make_token(
    url: str, tenant: str = "default", role: str = "admin", actor: str = "alice", expires: Any = None
) -> str:
    with perdure.open(url_of(url, tenant), tenant=tenant):
        pass
    with perdure.open(url_of(url, CONTROL), tenant=CONTROL) as store:
        return caller_of(store).write(tokens.create, tenant, TokenRole(role), actor, expires)[0]


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


class Answer(NamedTuple):
    """The answer of an application."""

    status_code: int
    text: str


class DirectClient:
    """Calls an application as a server would, on a loop of its own: of thousands of requests, a client takes most of the time."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def __enter__(self) -> Self:
        self._ours = ExitStack()
        self._loop = self._ours.enter_context(asyncio.Runner())
        lifespan = self._app.router.lifespan_context(self._app)
        self._loop.run(lifespan.__aenter__())
        self._ours.callback(lambda: self._loop.run(lifespan.__aexit__(None, None, None)))
        return self

    def __exit__(self, *_: object) -> None:
        self._ours.close()

    def request(self, method: str, url: str, headers: dict[str, str], json: Any = None) -> Answer:
        """Its answer, whole; an error that the application lets through is a 500."""
        return self._loop.run(self._answered(method, url, headers, json))

    async def _answered(self, method: str, url: str, headers: dict[str, str], json: Any) -> Answer:
        path, _, query = url.partition("?")
        given = {"host": "testserver", "content-type": "application/json", **headers}
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": unquote(path), "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
            "client": ("testclient", 50000), "server": ("testserver", 80), "state": {},
        }  # fmt: skip
        sent: list[dict[str, Any]] = []
        body = b"" if json is None else encode(json)
        received = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> Any:
            return next(received, None) or await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        try:
            await self._app(scope, receive, send)
        except Exception as error:  # as a server would, which goes on
            return Answer(500, repr(error))
        return Answer(sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:]).decode(errors="replace"))


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
