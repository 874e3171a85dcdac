"""The console's rows in the table of routes: reads that are composed for its pages, and what browsers need besides.

Everything that changes something goes through the ordinary routes of `doors.http`, with their rights. These answers are made for
the pages and may change with them: programs use the other routes. Callers: `doors.http.app`.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from perdure.model.filters import EffectFilters, EventFilters, MemoryFilters, RunFilters, SessionFilters
from perdure.verbs.declaring import Right
from perdure_server.console import attention, live, run_reads, session_reads, upkeep_reads, verify_job
from perdure_server.http.call import HttpCall
from perdure_server.http.queries import Name, Seq
from perdure_server.http.table import route

Shown = dict[str, Any]
SearchText = Annotated[str, msgspec.Meta(max_length=200)]


class ConsoleEffectsQuery(EffectFilters, frozen=True, kw_only=True):
    """Which effects. text: a part of a key, an argument, an actor or an id."""

    text: SearchText = ""


class ConsoleMemoriesQuery(MemoryFilters, frozen=True, kw_only=True):
    """Which memories. q: the words that they share with a question."""

    q: SearchText = ""


class ForecastQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A fork of a run that somebody thinks about."""

    place: Name
    allow_effects: bool = False


class PointQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A point in a session's past."""

    at: Seq | None = None


class BeforeQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Turns before one."""

    before: Seq


class ProvenanceQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which memory."""

    scope: Name
    scope_kind: Name
    seq: Seq


# -- what needs a person -----------------------------------------------------------------------------------------------


@route("GET", "/v1/console/now", Right.READ, Shown)
async def console_now(call: HttpCall) -> Any:
    """All that waits for a person, oldest first, and how the work goes."""
    return await attention.now(call.store)


@route("GET", "/v1/console/counts", Right.READ, Shown)
async def console_counts(call: HttpCall) -> Any:
    """How much waits for people."""
    return await attention.counts(call.store)


@route("GET", "/v1/console/inbox", Right.READ, Shown)
async def console_inbox(call: HttpCall) -> Any:
    """Questions, approvals with the very arguments, and doubts with their evidence."""
    return await attention.inbox(call.store)


@route("GET", "/v1/console/live", Right.READ, media_type="text/event-stream")
async def console_live(call: HttpCall) -> Any:
    """An event `changed` whenever something was recorded."""
    return live.stream(call)


# -- runs --------------------------------------------------------------------------------------------------------------


@route("GET", "/v1/console/runs", Right.READ, Shown)
async def console_runs(call: HttpCall, query: RunFilters) -> Any:
    """A page of runs, newest first."""
    return _paged(call, await run_reads.runs(call.store, **call.asked(query)))


@route("GET", "/v1/console/runs/{run}", Right.READ, Shown)
async def console_run(call: HttpCall) -> Any:
    """A run: how it stands, what it waits for, what is not settled."""
    return await run_reads.run(call.store, call.parts["run"])


@route("GET", "/v1/console/runs/{run}/outline", Right.READ, Shown)
async def console_outline(call: HttpCall) -> Any:
    """The events of a run without their contents, as columns."""
    return await run_reads.outline(call.store, call.parts["run"])


@route("GET", "/v1/console/runs/{run}/events/{seq}", Right.READ, Shown)
async def console_event(call: HttpCall) -> Any:
    """One event of a run."""
    return await run_reads.event(call.store, call.parts["run"], call.number("seq"))


@route("GET", "/v1/console/runs/{run}/at/{seq}", Right.READ, Shown)
async def console_run_at(call: HttpCall) -> Any:
    """A run as it was after an event."""
    return await run_reads.at(call.store, call.parts["run"], call.number("seq"))


@route("GET", "/v1/console/runs/{run}/forecast", Right.READ, Shown)
async def console_forecast(call: HttpCall, query: ForecastQuery) -> Any:
    """The things that a fork of a run would keep, and those that it would do anew."""
    return await run_reads.forecast(call.store, call.parts["run"], query.place, allow_effects=query.allow_effects)


# -- sessions ----------------------------------------------------------------------------------------------------------


@route("GET", "/v1/console/sessions", Right.READ, Shown)
async def console_sessions(call: HttpCall, query: SessionFilters) -> Any:
    """A page of sessions, newest first."""
    return _paged(call, await session_reads.sessions(call.store, **call.asked(query)))


@route("GET", "/v1/console/sessions/{session}", Right.READ, Shown)
async def console_session(call: HttpCall, query: PointQuery) -> Any:
    """A session with its newest turns and what was decided, planned and done; as it was after an event, if one is given."""
    return await session_reads.session(call.store, await call.session(), query.at)


@route("GET", "/v1/console/sessions/{session}/turns", Right.READ, Shown)
async def console_turns(call: HttpCall, query: BeforeQuery) -> Any:
    """The turns of a session before one, oldest first."""
    return await session_reads.earlier_turns(await call.session(), query.before)


@route("GET", "/v1/console/sessions/{session}/forecast", Right.READ, Shown)
async def console_session_forecast(call: HttpCall, query: PointQuery) -> Any:
    """The things that a fork of a session would not know."""
    return await session_reads.forecast(await call.session(), query.at)


# -- the store ---------------------------------------------------------------------------------------------------------


@route("GET", "/v1/console/effects", Right.READ, Shown)
async def console_effects(call: HttpCall, query: ConsoleEffectsQuery) -> Any:
    """A page of effects, newest first."""
    return _paged(call, await upkeep_reads.effects(call.store, **call.asked(query)))


@route("GET", "/v1/console/events", Right.READ, Shown)
async def console_events(call: HttpCall, query: EventFilters) -> Any:
    """A page of the headers of events, newest first."""
    return _paged(call, await upkeep_reads.feed(call.store, **call.asked(query)))


@route("GET", "/v1/console/anchors", Right.READ, Shown)
async def console_anchors(call: HttpCall) -> Any:
    """When the ends of the chains were last stated."""
    return await upkeep_reads.anchors(call.store)


@route("GET", "/v1/console/memories", Right.READ, Shown)
async def console_memories(call: HttpCall, query: ConsoleMemoriesQuery) -> Any:
    """A page of memories, newest first, or those that answer a question."""
    options = call.asked(query)
    return _paged(call, await upkeep_reads.memories(call.store, options.pop("q"), **options))


@route("GET", "/v1/console/provenance", Right.READ, Shown)
async def console_provenance(call: HttpCall, query: ProvenanceQuery) -> Any:
    """The turns, decisions and events that a memory came from."""
    return await upkeep_reads.provenance(call.store, query.scope_kind, query.scope, query.seq)


@route("GET", "/v1/console/settings", Right.READ, Shown)
async def console_settings(call: HttpCall) -> Any:
    """How much this tenant may take, and when its log was last pruned."""
    return await upkeep_reads.settings(call)


@route("POST", "/v1/console/verify", Right.AUDIT, Shown, status=202)
async def console_start_verify(call: HttpCall) -> Any:
    """Begin to verify this tenant, unless that is under way."""
    return verify_job.start(call.serving, call.caller)


@route("GET", "/v1/console/verify", Right.AUDIT, Shown)
async def console_verify(call: HttpCall) -> Any:
    """How far verify has come, and what it found."""
    return verify_job.state(call.serving, call.caller)


def _paged(call: HttpCall, page: Shown) -> Shown:
    """A page whose cursor carries the epoch, as in every list of this door."""
    return {**page, "next": page["next"] and f"{call.caller.core.epoch}.{page['next']}"}
