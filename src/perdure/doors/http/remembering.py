"""Memories of sessions and scopes: one route a verb, each in one transaction (`carrying`). Callers: `table`, by import."""

from __future__ import annotations

from typing import Any

from perdure.doors.http.answers import Paged
from perdure.doors.http.call import HttpCall
from perdure.doors.http.inputs import ConfirmInput, CorrectionInput, ForgetInput, MemoryInput, SupersedeInput
from perdure.doors.http.queries import PastQuery, StreamMemoriesQuery
from perdure.doors.http.table import MarkedIn, Right, route
from perdure.doors.http.writing import scope_in, session_in
from perdure.handles.aio.session import AsyncScope, AsyncSession
from perdure.handles.atomic import Atomic
from perdure.handles.sync.memory import Memory
from perdure.handles.sync.session import Scope, Session
from perdure.model.records.memories import MemoryRecord

SESSION, SCOPE = MarkedIn.SESSION, MarkedIn.SCOPE


@route("POST", "/v1/sessions/{session}/memories", Right.WRITE, MemoryRecord, status=201, target=SESSION)
def remember(tx: Atomic, call: HttpCall, body: MemoryInput) -> Any:
    """Write down what is to be known beyond this session."""
    return _remember(session_in(tx, call), body)


@route("POST", "/v1/scopes/{scope}/memories", Right.WRITE, MemoryRecord, status=201, target=SCOPE)
def remember_in_scope(tx: Atomic, call: HttpCall, body: MemoryInput) -> Any:
    """Write a memory down in a scope, where every session that is labelled with its name reads it."""
    return _remember(scope_in(tx, call), body)


def _remember(holder: Session | Scope, body: MemoryInput) -> MemoryRecord:
    made = holder.remember(
        body.text, kind=body.kind, key=body.key, source=body.source, about=body.about, tags=body.tags,
        confidence=body.confidence, valid_from=body.valid_from, valid_to=body.valid_to,
    )  # fmt: skip
    return made.record


@route("GET", "/v1/sessions/{session}/memories", Right.READ, Paged[MemoryRecord])
async def list_session_memories(call: HttpCall, query: StreamMemoriesQuery) -> Any:
    """The memories of this very session, newest first."""
    return await _listed(call, await call.session(query.at), query)


@route("GET", "/v1/scopes/{scope}/memories", Right.READ, Paged[MemoryRecord])
async def list_scope_memories(call: HttpCall, query: StreamMemoriesQuery) -> Any:
    """The memories of this very scope, newest first."""
    return await _listed(call, await call.scope(query.at), query)


async def _listed(call: HttpCall, holder: AsyncSession | AsyncScope, query: StreamMemoriesQuery) -> Any:
    asked = call.asked(query)
    del asked["at"]
    return call.paged((await holder.memories(**asked)).each(lambda each: each.record))


@route("GET", "/v1/sessions/{session}/memories/{seq}", Right.READ, MemoryRecord)
async def get_memory(call: HttpCall, query: PastQuery) -> Any:
    """A memory of a session."""
    return (await (await call.session(query.at)).memory(call.number("seq"))).record


@route("GET", "/v1/scopes/{scope}/memories/{seq}", Right.READ, MemoryRecord)
async def get_scope_memory(call: HttpCall, query: PastQuery) -> Any:
    """A memory of a scope."""
    return (await (await call.scope(query.at)).memory(call.number("seq"))).record


def _of_session(tx: Atomic, call: HttpCall) -> Memory:
    return session_in(tx, call).memory(call.number("seq"))


def _of_scope(tx: Atomic, call: HttpCall) -> Memory:
    return scope_in(tx, call).memory(call.number("seq"))


def _supersede(old: Memory, body: SupersedeInput) -> MemoryRecord:
    new = old.supersede(
        body.text, because=body.because, key=body.key, kind=body.kind, source=body.source, about=body.about,
        tags=body.tags, confidence=body.confidence, valid_from=body.valid_from, valid_to=body.valid_to,
    )  # fmt: skip
    return new.record


@route("POST", "/v1/sessions/{session}/memories/{seq}/supersede", Right.WRITE, MemoryRecord, status=201, target=SESSION)
def supersede_memory(tx: Atomic, call: HttpCall, body: SupersedeInput) -> Any:
    """Replace a memory by a new text, which is answered; the old one stays readable."""
    return _supersede(_of_session(tx, call), body)


@route("POST", "/v1/scopes/{scope}/memories/{seq}/supersede", Right.WRITE, MemoryRecord, status=201, target=SCOPE)
def supersede_scope_memory(tx: Atomic, call: HttpCall, body: SupersedeInput) -> Any:
    """Replace a memory of a scope by a new text, which is answered."""
    return _supersede(_of_scope(tx, call), body)


@route("POST", "/v1/sessions/{session}/memories/{seq}/confirm", Right.WRITE, MemoryRecord, target=SESSION)
def confirm_memory(tx: Atomic, call: HttpCall, body: ConfirmInput) -> Any:
    """Say that a memory still holds."""
    return _of_session(tx, call).confirm(body.because, about=body.about).record


@route("POST", "/v1/scopes/{scope}/memories/{seq}/confirm", Right.WRITE, MemoryRecord, target=SCOPE)
def confirm_scope_memory(tx: Atomic, call: HttpCall, body: ConfirmInput) -> Any:
    """Say that a memory of a scope still holds."""
    return _of_scope(tx, call).confirm(body.because, about=body.about).record


@route("POST", "/v1/sessions/{session}/memories/{seq}/forget", Right.WRITE, MemoryRecord, target=SESSION)
def forget_memory(tx: Atomic, call: HttpCall, body: ForgetInput) -> Any:
    """Let a memory be found no more; it stays in the log."""
    return _of_session(tx, call).forget(body.because, about=body.about).record


@route("POST", "/v1/scopes/{scope}/memories/{seq}/forget", Right.WRITE, MemoryRecord, target=SCOPE)
def forget_scope_memory(tx: Atomic, call: HttpCall, body: ForgetInput) -> Any:
    """Let a memory of a scope be found no more."""
    return _of_scope(tx, call).forget(body.because, about=body.about).record


@route("POST", "/v1/sessions/{session}/corrections", Right.WRITE, MemoryRecord, status=201, target=SESSION)
def correct(tx: Atomic, call: HttpCall, body: CorrectionInput) -> Any:
    """Write down that somebody corrected the agent, and the rule that follows, which is answered."""
    return _correct(session_in(tx, call), body)


@route("POST", "/v1/scopes/{scope}/corrections", Right.WRITE, MemoryRecord, status=201, target=SCOPE)
def correct_in_scope(tx: Atomic, call: HttpCall, body: CorrectionInput) -> Any:
    """Write a correction down in a scope, and the rule that follows, which is answered."""
    return _correct(scope_in(tx, call), body)


def _correct(holder: Session | Scope, body: CorrectionInput) -> MemoryRecord:
    made = holder.correct(body.text, rule=body.rule, key=body.key, source=body.source, about=body.about, tags=body.tags)
    return made.record
