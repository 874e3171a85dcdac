"""A server in this process: an application over a store, tokens of every role, and a client for each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
