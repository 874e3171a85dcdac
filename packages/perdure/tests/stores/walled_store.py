"""A store on PostgreSQL with a wall around its two tenants, and the URLs of every role that may open it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

import perdure
from perdure.model.ids import new_uid
from perdure.stores.postgres_wall import Roles, WallState, look, raise_wall

SCHEMA = "perdure"


class Walled(NamedTuple):
    """The URLs of a superuser, of the application, of the keeper, and of the owner of the tables (who logs in nowhere else)."""

    root: str
    app: str
    keeper: str
    owner: str
    roles: Roles

    def connect(self, url: str) -> psycopg.Connection:
        return psycopg.connect(url.partition("?")[0], autocommit=True, options=f"-c search_path={SCHEMA}")

    def look(self, url: str) -> WallState:
        with self.connect(url) as raw:
            return look(raw, SCHEMA)


def url_as(url: str, role: str, password: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{role}:{password}@{parts.netloc.rpartition('@')[2]}"))


@pytest.fixture
def walled(postgres_store) -> Iterator[Walled]:
    mark = new_uid().hex()[:10]
    roles = Roles(f"own_{mark}", f"app_{mark}", f"keep_{mark}")
    for tenant in ("acme", "globex"):
        with perdure.open(postgres_store, tenant=tenant) as store:
            store.session("s").say("user", f"a secret of {tenant}")
    with psycopg.connect(postgres_store.partition("?")[0], autocommit=True) as raw:
        raise_wall(raw, SCHEMA, roles)
        for role in roles:
            raw.execute(f"ALTER ROLE {role} LOGIN PASSWORD 'p'")
    urls = [url_as(postgres_store, role, "p") for role in (roles.app, roles.keeper, roles.owner)]
    yield Walled(postgres_store, *urls, roles)
    with psycopg.connect(postgres_store.partition("?")[0], autocommit=True) as raw:
        raw.execute(f"REASSIGN OWNED BY {roles.owner}, {roles.keeper} TO CURRENT_USER")
        for role in roles:
            raw.execute(f"DROP OWNED BY {role}")
            raw.execute(f"DROP ROLE {role}")
