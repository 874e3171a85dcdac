"""Where the tenants of a server lie: all in one PostgreSQL store, or on SQLite each in a file of its own. Keeps P11."""

from __future__ import annotations

import re
from functools import cache

from perdure.errors import Invalid, Refused
from perdure.planes.access.tokens import CONTROL
from perdure.stores.url import parse, without_password

PLACE = "{tenant}"
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


def url_of(url: str, tenant: str) -> str:
    """The URL of the store that holds a tenant. Invalid for a name that cannot be a file."""
    if PLACE not in url:
        return url
    if tenant != CONTROL and not _FILE_NAME.fullmatch(tenant):
        hint = "letters, digits, dots, dashes and underscores, at most 64"
        raise Invalid(f"{tenant!r} cannot be the name of a file", path="tenant", hint=hint)
    return url.replace(PLACE, tenant)


def check_serves(url: str, served: str, tenant: str, *, alone: bool = False) -> None:
    """Refused for a second tenant in one file: nothing but our own predicates would stand between the two.

    alone: only the one tenant is served, wherever it lies.
    """
    if PLACE not in url and (alone or not _holds_tenants(url)) and tenant != served:
        hint = f"serve sqlite:///folder/{PLACE}.db, a file for each tenant, or PostgreSQL"
        raise Refused(f"{without_password(url)} is served for the tenant {served!r} alone", path="tenant", hint=hint)


@cache
def _holds_tenants(url: str) -> bool:
    """Asked at every request, of the one URL that is served."""
    return parse(url).holds_tenants
