"""The table of routes: for each verb its method, path, the right that it needs, and the records that go in and come out.

The handlers (`app`), the OpenAPI document (`openapi`), the matrix of roles in the tests and the docs are made from it.
Verbs enter it with `@route` where they are written. Keeps P11: a route without a right cannot be declared, and a role has
only the rights that stand here.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Callable
from http import HTTPMethod
from typing import Any, NamedTuple, TypeVar, get_type_hints

import msgspec

from perdure.model.filters import FilterRecord
from perdure.planes.access.tokens import TokenRole
from perdure.verbs.declaring import Right
from perdure_server.http.queries import parameters_of

DELETE = HTTPMethod.DELETE.value

F = TypeVar("F", bound=Callable[..., Any])


RIGHTS: dict[TokenRole, frozenset[Right]] = {
    TokenRole.VIEWER: frozenset({Right.READ}),
    TokenRole.WRITER: frozenset({Right.READ, Right.WRITE}),
    TokenRole.OPERATOR: frozenset({Right.READ, Right.OPERATE}),
    TokenRole.WORKER: frozenset({Right.READ, Right.WORK}),
    TokenRole.AUDITOR: frozenset({Right.READ, Right.AUDIT}),
    TokenRole.ADMIN: frozenset(Right),
}


class MarkedIn(enum.StrEnum):
    """The stream in which a keyed write keeps its mark: the one that the path names."""

    SESSION = "session"
    SCOPE = "scope"
    RUN = "run"
    EFFECT = "effect"
    ASK = "ask"


class IfMatch(enum.StrEnum):
    """The version that If-Match names: of the session's head, of a value, or none."""

    NONE = "none"
    HEAD = "head"
    VERSION = "version"


class NoQuery(msgspec.Struct, forbid_unknown_fields=True):
    """No parameters."""


class Route(NamedTuple):
    """One verb as a route. target: the verb is written inside one transaction, `verb(tx, call, body)`, and is carried out
    once for an Idempotency-Key, whose mark lies in that stream. Without a target it is a coroutine `verb(call, …)`.

    takes_key: an Idempotency-Key is taken; by a verb without a target as its own `key=`. filters: the record of a listing, which
    the verb gets instead of its parameters. names_damage: the answer is a plain list, and a header names the rows that it leaves
    out, because they cannot be read.
    """

    name: str
    method: str
    path: str
    right: Right
    verb: Callable[..., Any]
    answer: Any
    query: type[msgspec.Struct]
    filters: type[FilterRecord] | None
    body: Any
    status: int
    target: MarkedIn | None
    takes_key: bool
    tag: str
    media_type: str
    match: IfMatch
    takes: str
    names_damage: bool

    @property
    def about(self) -> str:
        """The first sentence of its description."""
        return inspect.getdoc(self.verb) or self.name

    @property
    def grows(self) -> bool:
        """Whether it may be refused because a tenant has stored too much. Not what ends things that were begun, nor deletes."""
        return self.right is Right.WRITE and self.method != DELETE and self.target is not MarkedIn.EFFECT

    @property
    def needs_body(self) -> bool:
        """Whether a body must be sent: a field of it has no default."""
        return any(each.required for each in msgspec.structs.fields(self.body))

    @property
    def parameters(self) -> list[str]:
        """The names in its path."""
        return re.findall(r"{(\w+)}", self.path)


ROUTES: list[Route] = []


def route(
    method: str,
    path: str,
    right: Right,
    answer: Any = None,
    *,
    status: int = 200,
    target: MarkedIn | None = None,
    takes_key: bool = False,
    media_type: str = "application/json",
    match: IfMatch | None = None,
    takes: str = "",
    names_damage: bool = False,
    into: list[Route] = ROUTES,
) -> Callable[[F], F]:
    """Enter a verb into the table. Its parameters `query` and `body` say by their types what it takes.

    takes: the media type of a body that the verb reads itself.
    into: a table of another door, such as the console's, which is then passed to `make_app`.
    """

    def enter(verb: F) -> F:
        hints = get_type_hints(verb)
        query = hints.get("query", NoQuery)
        filters = query if issubclass(query, FilterRecord) else None
        tag = path.split("/")[2] if path.startswith("/v1/") else "server"
        entry = Route(
            name=verb.__name__, method=method, path=path, right=right, verb=verb, answer=answer,
            query=parameters_of(filters) if filters else query, filters=filters, body=hints.get("body"), status=status,
            target=target, takes_key=takes_key or target is not None, tag=tag, media_type=media_type,
            takes=takes, match=match or (IfMatch.HEAD if target is MarkedIn.SESSION else IfMatch.NONE),
            names_damage=names_damage,
        )  # fmt: skip
        into.append(entry)
        return verb

    return enter
