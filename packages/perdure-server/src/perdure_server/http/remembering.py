"""Memories of sessions and scopes: one function a verb, of which the table makes a route for each of the two.

A write is one transaction (`carrying`). Callers: `table`, by import.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from perdure.handles.aio.session import AsyncScope, AsyncSession
from perdure.handles.atomic import Atomic
from perdure.handles.sync.session import Scope, Session
from perdure.model.records.memories import MemoryRecord
from perdure_server.http.answers import Paged
from perdure_server.http.call import HttpCall
from perdure_server.http.inputs import ConfirmInput, CorrectionInput, ForgetInput, MemoryInput, SupersedeInput
from perdure_server.http.queries import PastQuery, StreamMemoriesQuery
from perdure_server.http.table import MarkedIn, Right, route
from perdure_server.http.writing import scope_in, session_in

Holder = Session | Scope
AsyncHolder = AsyncSession | AsyncScope
SESSION, SCOPE = "/v1/sessions/{session}", "/v1/scopes/{scope}"


def _write(
    path: str, in_scope: str, about_scope: str, *, status: int = 200
) -> Callable[[Callable[[Holder, HttpCall, Any], Any]], None]:
    """Enter a write of sessions, and that of scopes under another name and description."""

    def enter(verb: Callable[[Holder, HttpCall, Any], Any]) -> None:
        def of_session(tx: Atomic, call: HttpCall, body: Any) -> Any:
            return verb(session_in(tx, call), call, body)

        def of_scope(tx: Atomic, call: HttpCall, body: Any) -> Any:
            return verb(scope_in(tx, call), call, body)

        body = verb.__annotations__["body"]
        options = {"right": Right.WRITE, "answer": MemoryRecord, "status": status}
        route("POST", SESSION + path, target=MarkedIn.SESSION, **options)(_named(of_session, verb, body=body))
        route("POST", SCOPE + path, target=MarkedIn.SCOPE, **options)(
            _named(of_scope, verb, in_scope, about_scope, body=body)
        )

    return enter


def _read(
    path: str, answer: Any, in_scope: str, about_scope: str
) -> Callable[[Callable[[AsyncHolder, HttpCall, Any], Awaitable[Any]]], None]:
    """Enter a read of sessions, and that of scopes under another name and description."""

    def enter(verb: Callable[[AsyncHolder, HttpCall, Any], Awaitable[Any]]) -> None:
        async def of_session(call: HttpCall, query: Any) -> Any:
            return await verb(await call.session(query.at), call, query)

        async def of_scope(call: HttpCall, query: Any) -> Any:
            return await verb(await call.scope(query.at), call, query)

        query = verb.__annotations__["query"]
        route("GET", SESSION + path, Right.READ, answer)(_named(of_session, verb, query=query))
        route("GET", SCOPE + path, Right.READ, answer)(_named(of_scope, verb, in_scope, about_scope, query=query))

    return enter


def _named(made: Any, verb: Callable[..., Any], name: str = "", about: str = "", **takes: Any) -> Any:
    """A function as the table reads it: its name, its description, and the types of what it takes."""
    made.__name__, made.__doc__ = name or verb.__name__, about or verb.__doc__
    made.__annotations__ |= takes
    made.__module__ = verb.__module__
    return made


@_write(
    "/memories",
    "remember_in_scope",
    "Record a memory in a scope, where every session that is labelled with its name reads it.",
    status=201,
)
def remember(holder: Holder, _call: HttpCall, body: MemoryInput) -> Any:
    """Record a memory that outlives this session."""
    made = holder.remember(
        body.text, kind=body.kind, key=body.key, source=body.source, about=body.about, tags=body.tags,
        confidence=body.confidence, valid_from=body.valid_from, valid_to=body.valid_to,
    )  # fmt: skip
    return made.record


@_read("/memories", Paged[MemoryRecord], "list_scope_memories", "The memories of this very scope, newest first.")
async def list_session_memories(holder: AsyncHolder, call: HttpCall, query: StreamMemoriesQuery) -> Any:
    """The memories of this very session, newest first."""
    asked = call.asked(query)
    del asked["at"]
    return call.paged((await holder.memories(**asked)).each(lambda each: each.record))


@_read("/memories/{seq}", MemoryRecord, "get_scope_memory", "A memory of a scope.")
async def get_memory(holder: AsyncHolder, call: HttpCall, query: PastQuery) -> Any:  # noqa: ARG001 - the past is the holder's
    """A memory of a session."""
    return (await holder.memory(call.number("seq"))).record


@_write(
    "/memories/{seq}/supersede",
    "supersede_scope_memory",
    "Replace a memory of a scope by a new text, which is answered.",
    status=201,
)
def supersede_memory(holder: Holder, call: HttpCall, body: SupersedeInput) -> Any:
    """Replace a memory by a new text, which is answered; the old one stays readable."""
    new = holder.memory(call.number("seq")).supersede(
        body.text, because=body.because, key=body.key, kind=body.kind, source=body.source, about=body.about,
        tags=body.tags, confidence=body.confidence, valid_from=body.valid_from, valid_to=body.valid_to,
    )  # fmt: skip
    return new.record


@_write("/memories/{seq}/confirm", "confirm_scope_memory", "Confirm that a memory of a scope still holds.")
def confirm_memory(holder: Holder, call: HttpCall, body: ConfirmInput) -> Any:
    """Confirm that a memory still holds."""
    return holder.memory(call.number("seq")).confirm(body.because, about=body.about).record


@_write("/memories/{seq}/forget", "forget_scope_memory", "Hide a memory of a scope from recall and search.")
def forget_memory(holder: Holder, call: HttpCall, body: ForgetInput) -> Any:
    """Hide a memory from recall and search; it stays in the log."""
    return holder.memory(call.number("seq")).forget(body.because, about=body.about).record


@_write(
    "/corrections",
    "correct_in_scope",
    "Record a correction in a scope, and the rule that follows from it. Answers the rule.",
    status=201,
)
def correct(holder: Holder, _call: HttpCall, body: CorrectionInput) -> Any:
    """Record that somebody corrected the agent, and the rule that follows from it. Answers the rule."""
    made = holder.correct(body.text, rule=body.rule, key=body.key, source=body.source, about=body.about, tags=body.tags)
    return made.record
