"""One request as the verbs see it: the store it may use, the parts of its path, and the lists and streams it names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from perdure.effects import operator_verbs
from perdure.errors import Invalid, NotFound, Stale
from perdure.handles.aio.run_handle import AsyncRunHandle
from perdure.handles.aio.session import AsyncScope, AsyncSession
from perdure.handles.aio.store import AsyncStore
from perdure.log.change import Stream
from perdure.model.filters import ListingFilters
from perdure.planes.conversation import sessions
from perdure.planes.execution import runs
from perdure.planes.execution.requests import KeyedRequest, differing, given_of
from perdure.planes.memory import values
from perdure.planes.reading.paging import Page
from perdure.runtime.callers import AsyncCaller, stream_of
from perdure_server.http.serving import Serving, Visitor

# Marks of requests, and addresses that earlier versions kept for A2A: no values of anybody.
HIDDEN_SCOPES = ("requests/", "a2a/")


async def _nothing(_most: int) -> bytes:
    return b""


def moment(text: str) -> int | str:
    """A moment of the past as a parameter gives it: the number of an event, or an instant or age as text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else text


class HttpCall:
    """A request that was let in. key: its Idempotency-Key. version: of a value, by If-Match (0: it must not be there).

    head: the sequence number that the session must be at, by If-Match. read: reads the body, up to so many bytes.
    """

    __slots__ = ("head", "headers", "identity", "key", "parts", "read", "serving", "version")

    def __init__(
        self, serving: Serving, identity: Visitor, parts: Mapping[str, str], headers: Mapping[str, str]
    ) -> None:
        self.serving = serving
        self.identity = identity
        self.parts = parts
        self.headers = headers
        self.key: str | None = None
        self.version: int | None = None
        self.head: int | None = None
        self.read: Callable[[int], Awaitable[bytes]] = _nothing

    @property
    def store(self) -> AsyncStore:
        """The store of the token's tenant, acting as the token's actor."""
        return self.identity.store

    @property
    def caller(self) -> AsyncCaller:
        """The caller behind the store."""
        return self.identity.caller

    async def check_bytes(self, size: int = 0) -> None:
        """Limited if this tenant has stored as many bytes as it may, or would with so many more."""
        await self.serving.admission.check_bytes(self.identity.token.tenant, self.caller, size)

    def request(self, verb: str, body: Any, query: Any = None) -> KeyedRequest:
        """The identity of this request: its verb, the parts of its path, and what its body, parameters and If-Match give."""
        said = {"verb": verb, "path": dict(self.parts)}
        match = differing({"version": self.version, "head": self.head}, {"version": None, "head": None})
        given = {"body": given_of(body), "query": given_of(query), "match": match}
        before = msgspec.to_builtins(body)
        for name in getattr(body, "LATER", frozenset()) - {*(given["body"] or ())}:
            del before[name]
        return KeyedRequest(
            {**said, **{part: value for part, value in given.items() if value}}, {**said, "body": before}
        )

    # -- what the path names -------------------------------------------------------------------------------------

    def number(self, name: str) -> int:
        """A part of the path that is a whole number. Invalid if it is none."""
        text = self.parts[name]
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise Invalid(f"expected a whole number, got {text[:40]!r}", path=f"path.{name}")
        return int(text)

    async def session(self, at: str | None = None) -> AsyncSession:
        """The session that the path names, as it is or as it was. NotFound if there is none: only PUT makes one."""
        found = await self.named_session(self.parts["session"])
        return found if at is None else await found.at(moment(at))

    async def named_session(self, name: str, path: str = "path.session") -> AsyncSession:
        """A session that is there. NotFound if it is not."""
        found = await self.caller.glance(sessions.find_session, name)
        if found is None:
            raise NotFound(f"there is no session {name!r}", path=path, hint="PUT /v1/sessions/{session} makes it")
        return AsyncSession(self.caller, *found)

    async def scope(self, at: str | None = None) -> AsyncScope:
        """The scope that the path names, as it is or as it was. NotFound if there is none."""
        name = self.parts["scope"]
        found = None if name.startswith(HIDDEN_SCOPES) else await self.caller.read(values.find_scope, name)
        if found is None:
            raise NotFound(f"there is no scope {name!r}", path="path.scope", hint="PUT /v1/scopes/{scope} makes it")
        scope = AsyncScope(self.caller, found)
        return scope if at is None else await scope.at(moment(at))

    async def run(self, at: str | None = None) -> AsyncRunHandle[Any]:
        """The run that the path names, as it is or as it was. NotFound if there is none."""
        found = await self.store.run(self.parts["run"])
        return found if at is None else await found.at(moment(at))

    async def stream_of(self, target: str) -> Stream:
        """The stream in which a keyed write keeps its mark."""
        if target == "session":
            return stream_of(await self.session())
        if target == "scope":
            return stream_of(await self.scope())
        if target == "run":
            return await self.caller.read(runs.find, self.parts["run"])
        return (await self.caller.read(operator_verbs.locate, self.parts[target], target))[0]

    # -- lists: cursors carry the epoch ------------------------------------------------------------------------------

    def after(self, cursor: str | None) -> str | None:
        """The cursor of a list that a client gave back. Stale (410) if it is of before a restore, Invalid if it is none."""
        if cursor is None:
            return None
        epoch, dot, inner = cursor.partition(".")
        if not dot or not (epoch.isascii() and epoch.isdigit() and len(epoch) < 12):
            raise Invalid("this is not a cursor of this list", path="query.after", hint="pass the `next` of a page")
        if int(epoch) != self.caller.core.epoch:
            raise Stale("this cursor is from before a restore", path="query.after", hint="start again without a cursor")
        return inner

    def asked(self, filters: ListingFilters) -> dict[str, Any]:
        """The filters of a list as keywords of its verb, the cursor as the store knows it."""
        return {**msgspec.structs.asdict(filters), "after": self.after(filters.after)}

    def after_number(self, given: str | None) -> int | str | None:
        """A sequence number, or the cursor of a page."""
        if given is not None and given.isascii() and given.isdigit() and len(given) <= 18:
            return int(given)
        return self.after(given)

    def paged(self, page: Page[Any]) -> dict[str, Any]:
        """A page as it is answered."""
        following = None if page.next is None else f"{self.caller.core.epoch}.{page.next}"
        return {"items": list(page), "next": following, "damaged": list(page.damaged)}
