"""Reading sessions and what they hold: one route a verb. Callers: `table`, by import."""

from __future__ import annotations

from typing import Any

from perdure.errors import Invalid, NotFound
from perdure.model.records.conversation import Turn
from perdure.model.records.decisions import Reference
from perdure.model.records.differences import SessionDiff
from perdure.model.records.tasks import TaskRecord
from perdure.model.refs import Ref
from perdure.model.values import to_plain
from perdure.planes.conversation import turns
from perdure.verbs.declaring import Right
from perdure_server.http.answers import (
    EventAnswer,
    Paged,
    ScopeAnswer,
    SessionAnswer,
    event_answer,
    session_answer,
)
from perdure_server.http.call import HttpCall, moment
from perdure_server.http.queries import (
    DiffQuery,
    PastQuery,
    RefQuery,
    SessionEventsQuery,
    SessionTasksQuery,
    StateQuery,
    TranscriptQuery,
    TurnsQuery,
)
from perdure_server.http.table import route


@route("GET", "/v1/sessions/{session}", Right.READ, SessionAnswer)
async def get_session(call: HttpCall, query: PastQuery) -> Any:
    """A session with its goal and pins; at a moment of the past if one is given."""
    session = await call.session(query.at)
    return session_answer(await session.info(), session.uid)


@route("GET", "/v1/scopes/{scope}", Right.READ, ScopeAnswer)
async def get_scope(call: HttpCall, query: PastQuery) -> Any:
    """A scope, if it exists."""
    scope = await call.scope(query.at)
    return ScopeAnswer(scope.name, scope.uid)


@route("GET", "/v1/sessions/{session}/turns", Right.READ, Paged[Turn])
async def list_turns(call: HttpCall, query: TurnsQuery) -> Any:
    """Turns in order: the last ones, or those after or before a sequence number."""
    return call.paged(
        await (await call.session(query.at))._read(
            turns.shown, last=query.last, after=call.after_number(query.after), before=call.after_number(query.before),
            about=query.about, limit=query.limit,
        )
    )  # fmt: skip


@route("GET", "/v1/sessions/{session}/transcript", Right.READ, dict[str, Any])
async def get_transcript(call: HttpCall, query: TranscriptQuery) -> Any:
    """The conversation as messages that a provider accepts."""
    found = await (await call.session(query.at)).transcript(query.format, full=query.full, last=query.last)
    return {"messages": list(found), "system": found.system}


@route("GET", "/v1/sessions/{session}/summaries/{seq}/lacking", Right.READ, list[str])
async def list_lacking(call: HttpCall, query: PastQuery) -> Any:
    """The identifiers in the turns of a summary that neither its text nor its keys mention."""
    session, seq = await call.session(query.at), call.number("seq")
    for cover in await session.covers(nested=True):
        if cover.seq == seq:
            return await session.lacking(cover)
    raise NotFound(f"there is no summary {seq}", path="path.seq")


@route("GET", "/v1/sessions/{session}/events", Right.READ, Paged[EventAnswer])
async def list_session_events(call: HttpCall, query: SessionEventsQuery) -> Any:
    """The events of a session after a sequence number, in order."""
    found = await (await call.session(query.at)).events(
        call.after_number(query.after) or 0, query.kind, emitted=query.emitted, about=query.about, limit=query.limit
    )
    return call.paged(found.each(event_answer))


@route("GET", "/v1/sessions/{session}/diff", Right.READ, SessionDiff)
async def diff_sessions(call: HttpCall, query: DiffQuery) -> Any:
    """The difference from a point of a session to another point, or to another session."""
    if query.other is None and query.at is None and query.other_at is None:
        raise Invalid("name a moment (`at`), another session (`other`), or both", path="query")
    other = await (call.session() if query.other is None else call.named_session(query.other, "query.other"))
    if query.other_at is not None:
        other = await other.at(moment(query.other_at))
    return await (await call.session(query.at)).diff(other)


# -- values ------------------------------------------------------------------------------------------------------


# -- plan and decisions --------------------------------------------------------------------------------------------


@route("GET", "/v1/sessions/{session}/referring", Right.READ, Paged[Reference])
async def list_referring_to(call: HttpCall, query: RefQuery) -> Any:
    """The things that refer to an event of any stream, in all sessions."""
    found = await (await call.session()).referring(
        Ref(query.uid, query.seq), limit=query.limit, after=call.after(query.after)
    )
    return call.paged(found)


@route("GET", "/v1/sessions/{session}/tasks", Right.READ, Paged[TaskRecord])
async def list_session_tasks(call: HttpCall, query: SessionTasksQuery) -> Any:
    """The tasks of a session, newest first; or those that are ready."""
    asked = call.asked(query)
    session = await call.session(asked.pop("at"))
    if asked.pop("ready"):
        found = await session.ready(limit=query.limit, label=query.label)
        return {"items": [each.record for each in found], "next": None, "damaged": list(found.damaged)}
    page = await session.tasks(**asked)
    return call.paged(page.each(lambda each: each.record))


# -- checkpoints and artifacts -------------------------------------------------------------------------------------


@route("GET", "/v1/sessions/{session}/checkpoints/{seq}/state", Right.READ, Any)
async def get_checkpoint_state(call: HttpCall, query: PastQuery) -> Any:
    """The state that a checkpoint holds."""
    return to_plain(await (await call.session(query.at)).restore(call.number("seq")), from_store=True)


@route("GET", "/v1/sessions/{session}/state", Right.READ, Any)
async def get_state(call: HttpCall, query: StateQuery) -> Any:
    """The state of the newest checkpoint of a name, or of the one that has a key."""
    session, none = await call.session(query.at), object()
    found = await session.restore(name=query.name, key=query.key, default=none)
    if found is none:
        raise NotFound("there is no such checkpoint", path="query.name" if query.key is None else "query.key")
    return to_plain(found, from_store=True)
