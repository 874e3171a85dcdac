"""One server for all contract tests of a process: each test is a tenant of its own, in a file of its own."""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path
from typing import Any

import perdure
from doors.http.serving_kit import LiveServer
from perdure.planes.access import tokens
from perdure.planes.access.tokens import CONTROL, TokenRole
from perdure_testing.openers import AsyncOpener, Opener

_NUMBERS = itertools.count()


class ContractServer:
    """A server on SQLite files, and tokens for whoever a test wants to be."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT"))
        self._options: dict[str, dict[str, Any]] = {}
        files = f"sqlite:///{Path(self._folder.name)}/{{tenant}}.db"
        self._live = LiveServer(files, options=lambda tenant: self._options[tenant])
        self._live.__enter__()
        self._control = perdure.open(files.replace("{tenant}", CONTROL), tenant=CONTROL)
        self._tokens: dict[tuple[str, str], str] = {}
        self.url = str(self._live.http.base_url).rstrip("/")

    def token(self, tenant: str, actor: str, options: dict[str, Any]) -> str:
        """The token of an actor in a tenant, whose store is opened with these options."""
        self._options.setdefault(tenant, options)
        if (tenant, actor) not in self._tokens:
            made, _ = self._control._caller.write(tokens.create, tenant, TokenRole.ADMIN, actor)
            self._tokens[tenant, actor] = made
        return self._tokens[tenant, actor]

    def close(self) -> None:
        self._control.close()
        self._live.__exit__()
        self._folder.cleanup()


class RemoteOpener(Opener):
    """Opens a tenant of the server: `actor` and `tenant` choose the token, as they are nobody's to choose over a network."""

    def __init__(self, server: ContractServer, folder: Path) -> None:
        super().__init__(server.url)
        self._server = server
        self._name = f"t{next(_NUMBERS)}"
        self._folder = folder
        self.options = {}

    def _given(self, given: dict[str, Any]) -> dict[str, Any]:
        rest = dict(given)
        tenant, actor = rest.pop("tenant", ""), rest.pop("actor", "me")
        if rest.get("clock") is self.clock:
            del rest["clock"]
        kept = {"clock": self.clock, "artifacts": f"file://{self._folder}/blobs"}
        name = f"{self._name}.{tenant}" if tenant else self._name
        return {"token": self._server.token(name, actor, kept), **rest}

    def __call__(self, **options: Any) -> Any:
        return perdure.open(self.url, **self._given(options))


class AsyncRemoteOpener(RemoteOpener, AsyncOpener):
    async def __call__(self, **options: Any) -> Any:  # type: ignore[override]
        return await perdure.aopen(self.url, **self._given(options))
