"""Reading sessions and what they hold: one route a verb. Callers: `table`, by import."""

from __future__ import annotations

from typing import Any

from perdure.errors import Invalid, NotFound
from perdure.model.filters import ArtifactFilters, DecisionFilters, SessionFilters, TaskFilters
from perdure.model.records.artifacts import ArtifactRecord
from perdure.model.records.checkpoints import CheckpointRecord
from perdure.model.records.conversation import Cover, Due, Origin, Pending, SessionHeader, Turn
from perdure.model.records.decisions import DecisionRecord, Reference
from perdure.model.records.differences import SessionDiff
from perdure.model.records.tasks import TaskRecord
from perdure.model.records.values import Entry
from perdure.model.refs import Ref
from perdure.model.values import to_plain
from perdure.planes.conversation import turns
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
    CheckpointsQuery,
    DiffQuery,
    DueQuery,
    EntriesQuery,
    LineQuery,
    PageQuery,
    PastQuery,
    RefQuery,
    SessionDecisionsQuery,
    SessionEventsQuery,
    SessionTasksQuery,
    StateQuery,
    SummariesQuery,
    TranscriptQuery,
    TurnsQuery,
)
from perdure_server.http.table import Right, route


@route("GET", "/v1/sessions", Right.READ, Paged[SessionHeader])
async def list_sessions(call: HttpCall, query: SessionFilters) -> Any:
    """Sessions, newest first."""
    return call.paged(await call.store.sessions(**call.asked(query)))


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


@route("GET", "/v1/sessions/{session}/said/{key}", Right.READ, Turn | None)
async def get_said(call: HttpCall, query: PastQuery) -> Any:
    """The turn that was said under a key; null if there is none."""
    return await (await call.session(query.at)).said(call.parts["key"])


@route("GET", "/v1/sessions/{session}/calls/{call}/result", Right.READ, Turn | None)
async def get_result(call: HttpCall, query: PastQuery) -> Any:
    """The result of a call; null if it has none."""
    return await (await call.session(query.at)).result_of(call.parts["call"])


@route("GET", "/v1/sessions/{session}/turns/{seq}/line", Right.READ, list[Turn])
async def get_line(call: HttpCall, query: LineQuery) -> Any:
    """The branch that ends with a turn, in order: the newest turns of it."""
    return await (await call.session(query.at)).line(call.number("seq"), limit=query.limit)


@route("GET", "/v1/sessions/{session}/transcript", Right.READ, dict[str, Any])
async def get_transcript(call: HttpCall, query: TranscriptQuery) -> Any:
    """The conversation as messages that a provider accepts."""
    found = await (await call.session(query.at)).transcript(query.format, full=query.full, last=query.last)
    return {"messages": list(found), "system": found.system}


@route("GET", "/v1/sessions/{session}/pending", Right.READ, Pending | None)
async def get_pending(call: HttpCall, query: PastQuery) -> Any:
    """The open end of the conversation: calls without a result, or a turn without an answer; null if there is none."""
    return await (await call.session(query.at)).pending()


@route("GET", "/v1/sessions/{session}/summaries", Right.READ, list[Cover])
async def list_summaries(call: HttpCall, query: SummariesQuery) -> Any:
    """The summaries that stand, in the order of what they cover."""
    return await (await call.session(query.at)).covers(nested=query.nested, about=query.about)


@route("GET", "/v1/sessions/{session}/summaries/{seq}/lacking", Right.READ, list[str])
async def list_lacking(call: HttpCall, query: PastQuery) -> Any:
    """The identifiers in the turns of a summary that neither its text nor its keys mention."""
    session, seq = await call.session(query.at), call.number("seq")
    for cover in await session.covers(nested=True):
        if cover.seq == seq:
            return await session.lacking(cover)
    raise NotFound(f"there is no summary {seq}", path="path.seq")


@route("GET", "/v1/sessions/{session}/due", Right.READ, Due | None)
async def get_due(call: HttpCall, query: DueQuery) -> Any:
    """The range of turns to summarise next; null while there is nothing to do."""
    return await (await call.session(query.at)).due(width=query.width, fan=query.fan)


@route("GET", "/v1/sessions/{session}/events", Right.READ, Paged[EventAnswer])
async def list_session_events(call: HttpCall, query: SessionEventsQuery) -> Any:
    """The events of a session after a sequence number, in order."""
    found = await (await call.session(query.at)).events(
        call.after_number(query.after) or 0, query.kind, emitted=query.emitted, about=query.about, limit=query.limit
    )
    return call.paged(found.each(event_answer))


@route("GET", "/v1/sessions/{session}/origin", Right.READ, Origin | None)
async def get_origin(call: HttpCall, query: PastQuery) -> Any:
    """The session that this one was forked from, and where; null if it began by itself."""
    return await (await call.session(query.at)).origin()


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


@route("GET", "/v1/sessions/{session}/values", Right.READ, Paged[Entry])
async def list_values(call: HttpCall, query: EntriesQuery) -> Any:
    """The values of a session, by name."""
    session = await call.session(query.at)
    after = call.after(query.after)
    return call.paged(await session.entries(prefix=query.prefix, about=query.about, limit=query.limit, after=after))


@route("GET", "/v1/sessions/{session}/values/{name}", Right.READ, Entry)
async def get_value(call: HttpCall, query: PastQuery) -> Any:
    """A value with its version and age. Its ETag is the version."""
    return _found(await (await call.session(query.at)).entry(call.parts["name"]), call)


@route("GET", "/v1/scopes/{scope}/values", Right.READ, Paged[Entry])
async def list_scope_values(call: HttpCall, query: EntriesQuery) -> Any:
    """The values of a scope, by name."""
    scope = await call.scope(query.at)
    after = call.after(query.after)
    return call.paged(await scope.entries(prefix=query.prefix, about=query.about, limit=query.limit, after=after))


@route("GET", "/v1/scopes/{scope}/values/{name}", Right.READ, Entry)
async def get_scope_value(call: HttpCall, query: PastQuery) -> Any:
    """A value of a scope. Its ETag is the version."""
    return _found(await (await call.scope(query.at)).entry(call.parts["name"]), call)


def _found(entry: Entry | None, call: HttpCall) -> Entry:
    if entry is None:
        raise NotFound(f"there is no value {call.parts['name']!r}", path="path.name")
    return entry


# -- plan and decisions --------------------------------------------------------------------------------------------


@route("GET", "/v1/sessions/{session}/decisions", Right.READ, Paged[DecisionRecord])
async def list_session_decisions(call: HttpCall, query: SessionDecisionsQuery) -> Any:
    """The decisions of a session, newest first."""
    asked = call.asked(query)
    found = await (await call.session(asked.pop("at"))).decisions(**asked)
    return call.paged(found.each(lambda each: each.record))


@route("GET", "/v1/sessions/{session}/decisions/{seq}", Right.READ, DecisionRecord)
async def get_decision(call: HttpCall, query: PastQuery) -> Any:
    """A decision."""
    return (await (await call.session(query.at)).decision(call.number("seq"))).record


@route("GET", "/v1/sessions/{session}/decisions/{seq}/referring", Right.READ, Paged[Reference])
async def list_referring(call: HttpCall, query: PageQuery) -> Any:
    """The things that refer to a decision, in all sessions."""
    decision = await (await call.session()).decision(call.number("seq"))
    return call.paged(await decision.referred_by(limit=query.limit, after=call.after(query.after)))


@route("GET", "/v1/sessions/{session}/referring", Right.READ, Paged[Reference])
async def list_referring_to(call: HttpCall, query: RefQuery) -> Any:
    """The things that refer to an event of any stream, in all sessions."""
    found = await (await call.session()).referring(
        Ref(query.uid, query.seq), limit=query.limit, after=call.after(query.after)
    )
    return call.paged(found)


@route("GET", "/v1/decisions", Right.READ, Paged[DecisionRecord])
async def list_decisions(call: HttpCall, query: DecisionFilters) -> Any:
    """The decisions of all sessions, newest first."""
    found = await call.store.decisions(**call.asked(query))
    return call.paged(found.each(lambda each: each.record))


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


@route("GET", "/v1/sessions/{session}/tasks/{task}", Right.READ, TaskRecord)
async def get_task(call: HttpCall, query: PastQuery) -> Any:
    """A task."""
    return (await (await call.session(query.at)).get_task(call.number("task"))).record


@route("GET", "/v1/tasks", Right.READ, Paged[TaskRecord])
async def list_tasks(call: HttpCall, query: TaskFilters) -> Any:
    """The tasks of all sessions, newest first."""
    found = await call.store.tasks(**call.asked(query))
    return call.paged(found.each(lambda each: each.record))


# -- checkpoints and artifacts -------------------------------------------------------------------------------------


@route("GET", "/v1/sessions/{session}/checkpoints", Right.READ, Paged[CheckpointRecord])
async def list_checkpoints(call: HttpCall, query: CheckpointsQuery) -> Any:
    """The checkpoints of a session, newest first."""
    session = await call.session(query.at)
    before = call.after_number(query.after)
    return call.paged(await session.checkpoints(query.name, about=query.about, limit=query.limit, before=before))


@route("GET", "/v1/sessions/{session}/checkpoints/{seq}/state", Right.READ, Any)
async def get_checkpoint_state(call: HttpCall, query: PastQuery) -> Any:
    """The state that a checkpoint holds."""
    return to_plain(await (await call.session(query.at)).restore(call.number("seq")), kept=True)


@route("GET", "/v1/sessions/{session}/state", Right.READ, Any)
async def get_state(call: HttpCall, query: StateQuery) -> Any:
    """The state of the newest checkpoint of a name, or of the one that has a key."""
    session, none = await call.session(query.at), object()
    found = await session.restore(name=query.name, key=query.key, default=none)
    if found is none:
        raise NotFound("there is no such checkpoint", path="query.name" if query.key is None else "query.key")
    return to_plain(found, kept=True)


@route("GET", "/v1/sessions/{session}/artifacts", Right.READ, Paged[ArtifactRecord])
async def list_session_artifacts(call: HttpCall, query: CheckpointsQuery) -> Any:
    """The artifacts of a session, newest first, all versions."""
    session = await call.session(query.at)
    after = call.after(query.after)
    found = await session.artifacts(query.name, about=query.about, limit=query.limit, after=after)
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
