"""All routes of a table as one: found by the parts of the path instead of one after the other. Callers: `app`.

Starlette tries routes in their order, each by a regular expression: with so many that was a quarter of a request's CPU. Here
the parts of the path lead to the few that can match, in their order, and those decide as ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

FOUND = "perdure.route"
_ANY = "{}"
_END = "/"  # no part of a path contains one


class RouteIndex(BaseRoute):
    """Routes whose parameters are each a part of the path."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._tree: dict[str, Any] = {}
        for number, route in enumerate(routes):
            node = self._tree
            for part in route.path.split("/"):
                node = node.setdefault(_ANY if part.startswith("{") else part, {})
            node.setdefault(_END, []).append((number, route))

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """The first route that matches whole, else the methods of those that match but for theirs."""
        allowed: set[str] = set()
        for _, route in sorted(_under(self._tree, scope["path"].split("/"), 0), key=lambda each: each[0]):
            match, child = route.matches(scope)
            if match is Match.FULL:
                return match, {**child, FOUND: route}
            if match is Match.PARTIAL:
                allowed |= route.methods or set()
        return (Match.PARTIAL, {FOUND: allowed}) if allowed else (Match.NONE, {})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the route that was found. 405 names every method that its path has."""
        found = scope[FOUND]
        if isinstance(found, set):
            raise HTTPException(405, headers={"Allow": ", ".join(sorted(found))})
        await found.handle(scope, receive, send)


def _under(node: dict[str, Any], parts: list[str], at: int) -> Iterator[tuple[int, Route]]:
    """The routes that the parts of a path lead to, from one of them on."""
    if at == len(parts):
        yield from node.get(_END, ())
        return
    for key in (parts[at], _ANY):
        if key in node:
            yield from _under(node[key], parts, at + 1)
