"""Reading sessions and what they hold: one route a verb. Callers: `table`, by import."""

from __future__ import annotations

from typing import Any

from perdure.doors.http.answers import EventAnswer, Paged, event_answer
from perdure.doors.http.call import HttpCall
from perdure.doors.http.queries import (
    CheckpointsQuery,
    DiffQuery,
    EntriesQuery,
    PageQuery,
    PastQuery,
    SessionEventsQuery,
    SessionTasksQuery,
    TranscriptQuery,
    TurnsQuery,
)
from perdure.doors.http.table import Right, route
from perdure.errors import Invalid, NotFound
from perdure.handles.aio.session import AsyncSession
from perdure.model.filters import ArtifactFilters, DecisionFilters, SessionDecisionFilters, SessionFilters, TaskFilters
from perdure.model.records.artifacts import ArtifactRecord
from perdure.model.records.checkpoints import CheckpointRecord
from perdure.model.records.conversation import Cover, Origin, Pending, SessionHeader, SessionRecord, Turn
from perdure.model.records.decisions import DecisionRecord, Reference
from perdure.model.records.differences import SessionDiff
from perdure.model.records.tasks import TaskRecord
from perdure.model.records.values import Entry
from perdure.model.values import to_plain


def moment(text: str) -> int | str:
    """A moment of the past as a parameter gives it: the number of an event, or an instant or age as text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else text


async def session_at(call: HttpCall, at: str | None) -> AsyncSession:
    """The session of the path, as it is or as it was."""
    session = await call.session()
    return session if at is None else await session.at(moment(at))


@route("GET", "/v1/sessions", Right.READ, Paged[SessionHeader])
async def list_sessions(call: HttpCall, query: SessionFilters) -> Any:
    """Sessions, newest first."""
    return call.paged(await call.store.sessions(**call.asked(query)))


@route("GET", "/v1/sessions/{session}", Right.READ, SessionRecord)
async def get_session(call: HttpCall, query: PastQuery) -> Any:
    """A session with its goal and pins; at a moment of the past if one is given."""
    return await (await session_at(call, query.at)).info()


@route("GET", "/v1/sessions/{session}/turns", Right.READ, Paged[Turn])
async def list_turns(call: HttpCall, query: TurnsQuery) -> Any:
    """Turns in order: the last ones, or those after or before a sequence number."""
    return call.paged(
        await (await call.session()).turns(
            query.last, after=call.after_number(query.after), before=call.after_number(query.before), limit=query.limit
        )
    )


@route("GET", "/v1/sessions/{session}/transcript", Right.READ, dict[str, Any])
async def get_transcript(call: HttpCall, query: TranscriptQuery) -> Any:
    """The conversation as messages that a provider accepts."""
    found = await (await call.session()).transcript(query.format, full=query.full, last=query.last)
    return {"messages": list(found), "system": found.system}


@route("GET", "/v1/sessions/{session}/pending", Right.READ, Pending | None)
async def get_pending(call: HttpCall) -> Any:
    """The open end of the conversation: calls without a result, or a turn without an answer; null if there is none."""
    return await (await call.session()).pending()


@route("GET", "/v1/sessions/{session}/summaries", Right.READ, list[Cover])
async def list_summaries(call: HttpCall) -> Any:
    """The summaries that stand, in the order of what they cover."""
    return await (await call.session()).covers()


@route("GET", "/v1/sessions/{session}/events", Right.READ, Paged[EventAnswer])
async def list_session_events(call: HttpCall, query: SessionEventsQuery) -> Any:
    """The events of a session after a sequence number, in order."""
    found = await (await call.session()).events(
        call.after_number(query.after) or 0, query.kind, emitted=query.emitted, limit=query.limit
    )
    return call.paged(found.each(event_answer))


@route("GET", "/v1/sessions/{session}/origin", Right.READ, Origin | None)
async def get_origin(call: HttpCall) -> Any:
    """The session that this one was forked from, and where; null if it began by itself."""
    return await (await call.session()).origin()


@route("GET", "/v1/sessions/{session}/diff", Right.READ, SessionDiff)
async def diff_sessions(call: HttpCall, query: DiffQuery) -> Any:
    """The difference from a point of a session to another point, or to another session."""
    if query.other is None and query.at is None and query.other_at is None:
        raise Invalid("name a moment (`at`), another session (`other`), or both", path="query")
    other = await (call.session() if query.other is None else call.named_session(query.other, "query.other"))
    if query.other_at is not None:
        other = await other.at(moment(query.other_at))
    return await (await session_at(call, query.at)).diff(other)


# -- values ------------------------------------------------------------------------------------------------------


@route("GET", "/v1/sessions/{session}/values", Right.READ, Paged[Entry])
async def list_values(call: HttpCall, query: EntriesQuery) -> Any:
    """The values of a session, by name."""
    session = await call.session()
    return call.paged(await session.entries(prefix=query.prefix, limit=query.limit, after=call.after(query.after)))


@route("GET", "/v1/sessions/{session}/values/{name}", Right.READ, Entry)
async def get_value(call: HttpCall, query: PastQuery) -> Any:
    """A value with its version and age. Its ETag is the version."""
    return _found(await (await session_at(call, query.at)).entry(call.parts["name"]), call)


@route("GET", "/v1/scopes/{scope}/values", Right.READ, Paged[Entry])
async def list_scope_values(call: HttpCall, query: EntriesQuery) -> Any:
    """The values of a scope, by name."""
    scope = await call.scope()
    return call.paged(await scope.entries(prefix=query.prefix, limit=query.limit, after=call.after(query.after)))


@route("GET", "/v1/scopes/{scope}/values/{name}", Right.READ, Entry)
async def get_scope_value(call: HttpCall) -> Any:
    """A value of a scope. Its ETag is the version."""
    return _found(await (await call.scope()).entry(call.parts["name"]), call)


def _found(entry: Entry | None, call: HttpCall) -> Entry:
    if entry is None:
        raise NotFound(f"there is no value {call.parts['name']!r}", path="path.name")
    return entry


# -- plan and decisions --------------------------------------------------------------------------------------------


@route("GET", "/v1/sessions/{session}/decisions", Right.READ, Paged[DecisionRecord])
async def list_session_decisions(call: HttpCall, query: SessionDecisionFilters) -> Any:
    """The decisions of a session, newest first."""
    session = await call.session()
    found = await session.decisions(**call.asked(query))
    return call.paged(found.each(lambda each: each.record))


@route("GET", "/v1/sessions/{session}/decisions/{seq}", Right.READ, DecisionRecord)
async def get_decision(call: HttpCall) -> Any:
    """A decision."""
    return (await (await call.session()).decision(call.number("seq"))).record


@route("GET", "/v1/sessions/{session}/decisions/{seq}/referring", Right.READ, Paged[Reference])
async def list_referring(call: HttpCall, query: PageQuery) -> Any:
    """The things that refer to a decision, in all sessions."""
    decision = await (await call.session()).decision(call.number("seq"))
    return call.paged(await decision.referred_by(limit=query.limit, after=call.after(query.after)))


@route("GET", "/v1/decisions", Right.READ, Paged[DecisionRecord])
async def list_decisions(call: HttpCall, query: DecisionFilters) -> Any:
    """The decisions of all sessions, newest first."""
    found = await call.store.decisions(**call.asked(query))
    return call.paged(found.each(lambda each: each.record))


@route("GET", "/v1/sessions/{session}/tasks", Right.READ, Paged[TaskRecord])
async def list_session_tasks(call: HttpCall, query: SessionTasksQuery) -> Any:
    """The tasks of a session, newest first; or those that are ready."""
    session, asked = await call.session(), call.asked(query)
    if asked.pop("ready"):
        found = await session.ready(limit=query.limit, label=query.label)
        return {"items": [each.record for each in found], "next": None, "damaged": []}
    page = await session.tasks(**asked)
    return call.paged(page.each(lambda each: each.record))


@route("GET", "/v1/sessions/{session}/tasks/{task}", Right.READ, TaskRecord)
async def get_task(call: HttpCall) -> Any:
    """A task."""
    return (await (await call.session()).get_task(call.number("task"))).record


@route("GET", "/v1/tasks", Right.READ, Paged[TaskRecord])
async def list_tasks(call: HttpCall, query: TaskFilters) -> Any:
    """The tasks of all sessions, newest first."""
    found = await call.store.tasks(**call.asked(query))
    return call.paged(found.each(lambda each: each.record))


# -- checkpoints and artifacts -------------------------------------------------------------------------------------


@route("GET", "/v1/sessions/{session}/checkpoints", Right.READ, Paged[CheckpointRecord])
async def list_checkpoints(call: HttpCall, query: CheckpointsQuery) -> Any:
    """The checkpoints of a session, newest first."""
    session = await call.session()
    before = call.after(query.after)
    return call.paged(await session.checkpoints(query.name, limit=query.limit, before=before))


@route("GET", "/v1/sessions/{session}/checkpoints/{seq}/state", Right.READ, Any)
async def get_checkpoint_state(call: HttpCall) -> Any:
    """The state that a checkpoint holds."""
    return to_plain(await (await call.session()).restore(call.number("seq")), kept=True)


@route("GET", "/v1/sessions/{session}/artifacts", Right.READ, Paged[ArtifactRecord])
async def list_session_artifacts(call: HttpCall, query: CheckpointsQuery) -> Any:
    """The artifacts of a session, newest first, all versions."""
    session = await call.session()
    found = await session.artifacts(query.name, limit=query.limit, after=call.after(query.after))
    return call.paged(found.each(lambda each: each.record))


@route("GET", "/v1/artifacts", Right.READ, Paged[ArtifactRecord])
async def list_artifacts(call: HttpCall, query: ArtifactFilters) -> Any:
    """The artifacts of all sessions, newest first."""
    found = await call.store.artifacts(**call.asked(query))
    return call.paged(found.each(lambda each: each.record))


@route("GET", "/v1/artifacts/{hash}", Right.READ, ArtifactRecord)
async def get_artifact(call: HttpCall) -> Any:
    """The newest artifact with this content, by its sha256."""
    return (await call.store.artifact(call.parts["hash"])).record
