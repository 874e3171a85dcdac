"""Running the server: where it listens, with what, and how it ends. Callers: `perdure serve`, `perdure console`.

It listens on loopback, or elsewhere with TLS or behind a proxy that has it. SIGTERM lets requests under way finish (`drain`);
streams are told to come back elsewhere.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import msgspec
import uvicorn
from starlette.routing import BaseRoute

from perdure.errors import Refused
from perdure_server.http.app import TABLE, make_app
from perdure_server.http.serving import Serving
from perdure_server.http.table import Route

KEEP_ALIVE_SECONDS = 75
CONNECTIONS_MAX = 2_000

log = logging.getLogger("perdure.http")


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server listens. behind_proxy: somebody in front of it has the certificate."""

    host: str = "127.0.0.1"
    port: int = 8930
    certificate: Path | None = None
    private_key: Path | None = None
    behind_proxy: bool = False
    drain_seconds: int = 20

    @property
    def address(self) -> str:
        """The address for people."""
        scheme = "https" if self.certificate else "http"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}"


def check_listening(at: Listening) -> None:
    """Refused where tokens would cross a network in the clear."""
    if not is_loopback(at.host) and at.certificate is None and not at.behind_proxy:
        raise Refused(
            f"{at.host} is no loopback address, and tokens must not cross a network in the clear", path="host",
            hint="give --tls-certificate and --tls-key, or --behind-proxy if a proxy in front of it has the certificate",
        )  # fmt: skip


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def run(
    serving: Serving, at: Listening, pages: Sequence[BaseRoute] = (), routes: Sequence[Route] = TABLE,
    sockets: list[socket.socket] | None = None,
) -> None:  # fmt: skip
    """Serve until the process is told to end. sockets: that listen already, for a port that the system chose."""
    check_listening(at)
    config = uvicorn.Config(
        make_app(serving, pages, routes), host=at.host, port=at.port, http="httptools", loop="uvloop", ws="none",
        lifespan="on", log_config=None, log_level=logging.WARNING, access_log=False, server_header=False,
        proxy_headers=at.behind_proxy, forwarded_allow_ips="127.0.0.1" if at.behind_proxy else "",
        ssl_certfile=at.certificate, ssl_keyfile=at.private_key, timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=at.drain_seconds, limit_concurrency=CONNECTIONS_MAX,
    )  # fmt: skip
    DrainingServer(config, serving).run(sockets)


class DrainingServer(uvicorn.Server):
    """A server that ends its streams as soon as it is told to end: they would last as long as it waits for them."""

    def __init__(self, config: uvicorn.Config, serving: Serving) -> None:
        super().__init__(config)
        self._serving = serving

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Told to end by a signal."""
        self._serving.drain()
        super().handle_exit(sig, frame)
