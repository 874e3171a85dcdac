"""Writing in sessions and scopes: one route a verb, each in one transaction (`carrying`). Callers: `table`, by import."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.doors.http.answers import AskAnswer, DoneAnswer, EventAnswer, ask_answer, event_answer
from perdure.doors.http.call import HIDDEN_SCOPES, HttpCall
from perdure.doors.http.inputs import (
    AskInput,
    CheckpointInput,
    ClaimInput,
    CloseInput,
    DecisionInput,
    EventInput,
    ForgetInput,
    ForkInput,
    MemoryInput,
    MoveInput,
    ResultInput,
    SessionInput,
    SessionPatch,
    SummaryInput,
    SupersedeInput,
    TaskInput,
    TurnInput,
    ValueInput,
)
from perdure.doors.http.table import DELETE, IfMatch, MarkedIn, Right, route
from perdure.doors.http.wire import value_from
from perdure.errors import Invalid, NotFound
from perdure.handles.atomic import Atomic
from perdure.handles.sync.session import Scope, Session
from perdure.model.records.checkpoints import CheckpointRecord
from perdure.model.records.conversation import Call, Cover, SessionRecord, Turn
from perdure.model.records.decisions import DecisionRecord
from perdure.model.records.memories import MemoryRecord
from perdure.model.records.tasks import TaskRecord
from perdure.model.records.values import Entry

SESSION, SCOPE = MarkedIn.SESSION, MarkedIn.SCOPE


def session_in(tx: Atomic, call: HttpCall) -> Session:
    """The session of the path, in this transaction. It is there: its stream was found before."""
    return tx.session(call.parts["session"])


def scope_in(tx: Atomic, call: HttpCall) -> Scope:
    """The scope of the path, in this transaction."""
    return tx.scope(call.parts["scope"])


# -- sessions ------------------------------------------------------------------------------------------------------


@route("PUT", "/v1/sessions/{session}", Right.WRITE, SessionRecord)
async def put_session(call: HttpCall, body: SessionInput) -> Any:
    """Make a session, if there is none of this name; one that exists is left as it is. Safe to repeat."""
    made = await call.store.session(
        call.parts["session"], title=body.title, labels=body.labels, goal=body.goal, ttl=body.ttl, about=body.about
    )
    return await made.info()


@route("PATCH", "/v1/sessions/{session}", Right.WRITE, SessionRecord, target=SESSION)
def patch_session(tx: Atomic, call: HttpCall, body: SessionPatch) -> Any:
    """Change the title, goal, labels or status of a session, or archive it. Safe to repeat."""
    session = session_in(tx, call)
    if body.title is not msgspec.UNSET:
        session.set_title(body.title)
    if body.goal is not msgspec.UNSET:
        session.set_goal(body.goal)
    if body.labels is not msgspec.UNSET:
        _relabel(session, body.labels)
    if body.status is not msgspec.UNSET:
        _bring_to(session, body.status)
    if body.archived is not msgspec.UNSET:
        (session.archive if body.archived else session.unarchive)()
    return session.info()


def _relabel(session: Session, labels: list[str]) -> None:
    gone = set(session.info().labels) - set(labels)
    if gone:
        session.unlabel(*sorted(gone))
    if labels:
        session.label(*labels)


def _bring_to(session: Session, status: str) -> None:
    if status == "completed" or status == "failed":  # noqa: PLR1714 - a checker narrows it so
        session.close(status)
        return
    session.reopen()
    (session.mark_waiting if status == "waiting" else session.mark_active)()


@route("POST", "/v1/sessions/{session}/turns", Right.WRITE, Turn, status=201, takes_key=True)
async def say(call: HttpCall, body: TurnInput) -> Any:
    """Add a turn. The Idempotency-Key is the key of the turn: the same key and input give the turn that stands."""
    session = await call.session()
    calls = [
        Call(each.id, each.tool, value_from(each.args, f"body.calls[{i}].args")) for i, each in enumerate(body.calls)
    ]
    content = value_from(body.content, "body.content")
    return await session.say(body.role, content, key=call.key, calls=calls, about=body.about)


@route("PUT", "/v1/sessions/{session}/calls/{call}/result", Right.WRITE, Turn, target=SESSION)
def put_result(tx: Atomic, call: HttpCall, body: ResultInput) -> Any:
    """Add the result of a call, as a tool turn. Safe to repeat: a call has one result."""
    value = value_from(body.value, "body.value")
    return session_in(tx, call).result(call.parts["call"], value, error=body.error, about=body.about)


@route("POST", "/v1/sessions/{session}/summaries", Right.WRITE, Cover, status=201, target=SESSION)
def summarise(tx: Atomic, call: HttpCall, body: SummaryInput) -> Any:
    """Let a text stand for a range of turns, which stay readable."""
    return session_in(tx, call).summarise(body.upto, body.text, from_=body.first, about=body.about)


@route("POST", "/v1/sessions/{session}/events", Right.WRITE, EventAnswer, status=201, target=SESSION)
def emit(tx: Atomic, call: HttpCall, body: EventInput) -> Any:
    """Append an event of your own. It changes nothing, but is kept, chained and fed like all others."""
    data = value_from(body.data, "body.data")
    return event_answer(session_in(tx, call).emit(body.kind, data, about=body.about, refs=body.refs))


@route("POST", "/v1/sessions/{session}/forks", Right.WRITE, SessionRecord, status=201)
async def fork_session(call: HttpCall, body: ForkInput) -> Any:
    """Another session that continues from a point of this one. A name that is taken is a conflict, so it is safe to repeat."""
    session = await call.session()
    return await (await session.fork(body.at, name=body.name)).info()


@route("POST", "/v1/sessions/{session}/asks", Right.WRITE, AskAnswer, status=201, target=SESSION)
def ask(tx: Atomic, call: HttpCall, body: AskInput) -> Any:
    """Ask a person something. Without a key two calls ask twice."""
    detail = value_from(body.detail, "body.detail")
    asked = {"choices": body.choices, "detail": detail, "timeout": body.timeout, "about": body.about}
    return ask_answer(session_in(tx, call).ask(body.question, **asked))


# -- values --------------------------------------------------------------------------------------------------------


@route("PUT", "/v1/sessions/{session}/values/{name}", Right.WRITE, Entry, target=SESSION, match=IfMatch.VERSION)
def set_value(tx: Atomic, call: HttpCall, body: ValueInput) -> Any:
    """Set a value. If-Match: only if this is its version now; `If-None-Match: *`: only if it is not there."""
    return _set(session_in(tx, call), call, body)


@route(DELETE, "/v1/sessions/{session}/values/{name}", Right.WRITE, DoneAnswer, target=SESSION, match=IfMatch.VERSION)
def unset_value(tx: Atomic, call: HttpCall) -> Any:
    """Let a value go. Safe to repeat."""
    return DoneAnswer(session_in(tx, call).unset(call.parts["name"], expect=call.version))


@route("PUT", "/v1/scopes/{scope}", Right.WRITE, DoneAnswer)
async def put_scope(call: HttpCall) -> Any:
    """Make a scope, if there is none of this name."""
    if call.parts["scope"].startswith(HIDDEN_SCOPES):
        raise NotFound("scopes of this name are Perdure's own", path="path.scope")
    await call.store.scope(call.parts["scope"])
    return DoneAnswer()


@route("PUT", "/v1/scopes/{scope}/values/{name}", Right.WRITE, Entry, target=SCOPE, match=IfMatch.VERSION)
def set_scope_value(tx: Atomic, call: HttpCall, body: ValueInput) -> Any:
    """Set a value of a scope. If-Match and `If-None-Match: *` as for the values of a session."""
    return _set(scope_in(tx, call), call, body)


@route(DELETE, "/v1/scopes/{scope}/values/{name}", Right.WRITE, DoneAnswer, target=SCOPE, match=IfMatch.VERSION)
def unset_scope_value(tx: Atomic, call: HttpCall) -> Any:
    """Let a value of a scope go. Safe to repeat."""
    return DoneAnswer(scope_in(tx, call).unset(call.parts["name"], expect=call.version))


def _set(holder: Session | Scope, call: HttpCall, body: ValueInput) -> Entry:
    value = value_from(body.value, "body.value")
    return holder.set(call.parts["name"], value, expect=call.version, ttl=body.ttl, about=body.about)


# -- plan and decisions --------------------------------------------------------------------------------------------


@route("POST", "/v1/sessions/{session}/decisions", Right.WRITE, DecisionRecord, status=201, target=SESSION)
def decide(tx: Atomic, call: HttpCall, body: DecisionInput) -> Any:
    """Write a decision down before anything is done about it."""
    made = session_in(tx, call).decide(
        body.text, because=body.because, then=body.then, refs=body.refs, tags=body.tags, about=body.about
    )
    return made.record


@route("POST", "/v1/sessions/{session}/decisions/{seq}/close", Right.WRITE, DecisionRecord, target=SESSION)
def close_decision(tx: Atomic, call: HttpCall, body: CloseInput) -> Any:
    """Say how a decision turned out."""
    return session_in(tx, call).decision(call.number("seq")).close(body.outcome, body.note, about=body.about).record


@route(
    "POST", "/v1/sessions/{session}/decisions/{seq}/supersede", Right.WRITE, DecisionRecord, status=201, target=SESSION
)
def supersede_decision(tx: Atomic, call: HttpCall, body: DecisionInput) -> Any:
    """Replace a decision by a new one, which is answered; each names the other."""
    old = session_in(tx, call).decision(call.number("seq"))
    made = old.supersede(
        body.text, because=body.because, then=body.then, refs=body.refs, tags=body.tags or None, about=body.about
    )
    return made.record


@route("POST", "/v1/sessions/{session}/tasks", Right.WRITE, TaskRecord, status=201, target=SESSION)
def add_task(tx: Atomic, call: HttpCall, body: TaskInput) -> Any:
    """Write a task down."""
    made = session_in(tx, call).task(
        body.title, needs=body.needs, parent=body.parent, priority=body.priority, labels=body.labels,
        detail=value_from(body.detail, "body.detail"), about=body.about,
    )  # fmt: skip
    return made.record


@route("POST", "/v1/sessions/{session}/claims", Right.WRITE, TaskRecord | None, target=SESSION)
def claim_task(tx: Atomic, call: HttpCall, body: ClaimInput) -> Any:
    """Take a task, or the most urgent one that is ready; null if none is. Its `token` goes into the moves of the task."""
    session = session_in(tx, call)
    if body.task is not None:
        return session.get_task(body.task).claim(body.ttl).record
    found = session.claim_next(ttl=body.ttl, label=body.label)
    return None if found is None else found.record


@route("POST", "/v1/sessions/{session}/tasks/{task}/moves", Right.WRITE, TaskRecord, target=SESSION)
def move_task(tx: Atomic, call: HttpCall, body: MoveInput) -> Any:
    """Say that a task is done, failed, blocked, cancelled, to be done again, or given back."""
    task = session_in(tx, call).get_task(call.number("task"), token=body.token)
    if body.move == "release":
        return task.release().record
    if body.move == "block":
        if not body.note:
            raise Invalid("a block has a reason", path="body.note")
        return task.block(body.note, about=body.about).record
    return getattr(task, body.move)(body.note, about=body.about).record


# -- checkpoints and memories --------------------------------------------------------------------------------------


@route("POST", "/v1/sessions/{session}/checkpoints", Right.WRITE, CheckpointRecord, status=201, target=SESSION)
def save_checkpoint(tx: Atomic, call: HttpCall, body: CheckpointInput) -> Any:
    """Save a whole state; it costs what changed since the states that are stored already."""
    return session_in(tx, call).checkpoint(value_from(body.state, "body.state"), name=body.name, about=body.about)


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
        body.text, kind=body.kind, source=body.source, about=body.about, tags=body.tags, confidence=body.confidence,
        valid_from=body.valid_from, valid_to=body.valid_to,
    )  # fmt: skip
    return made.record


@route("POST", "/v1/sessions/{session}/memories/{seq}/supersede", Right.WRITE, MemoryRecord, status=201, target=SESSION)
def supersede_memory(tx: Atomic, call: HttpCall, body: SupersedeInput) -> Any:
    """Replace a memory by a new text, which is answered; the old one stays readable."""
    return (
        session_in(tx, call)
        .memory(call.number("seq"))
        .supersede(body.text, because=body.because, about=body.about or None)
        .record
    )


@route("POST", "/v1/sessions/{session}/memories/{seq}/confirm", Right.WRITE, MemoryRecord, target=SESSION)
def confirm_memory(tx: Atomic, call: HttpCall) -> Any:
    """Say that a memory still holds."""
    return session_in(tx, call).memory(call.number("seq")).confirm().record


@route("POST", "/v1/sessions/{session}/memories/{seq}/forget", Right.WRITE, MemoryRecord, target=SESSION)
def forget_memory(tx: Atomic, call: HttpCall, body: ForgetInput) -> Any:
    """Let a memory be found no more; it stays in the log."""
    return session_in(tx, call).memory(call.number("seq")).forget(body.because, about=body.about).record


@route("POST", "/v1/scopes/{scope}/memories/{seq}/supersede", Right.WRITE, MemoryRecord, status=201, target=SCOPE)
def supersede_scope_memory(tx: Atomic, call: HttpCall, body: SupersedeInput) -> Any:
    """Replace a memory of a scope by a new text, which is answered."""
    return (
        scope_in(tx, call)
        .memory(call.number("seq"))
        .supersede(body.text, because=body.because, about=body.about or None)
        .record
    )


@route("POST", "/v1/scopes/{scope}/memories/{seq}/forget", Right.WRITE, MemoryRecord, target=SCOPE)
def forget_scope_memory(tx: Atomic, call: HttpCall, body: ForgetInput) -> Any:
    """Let a memory of a scope be found no more."""
    return scope_in(tx, call).memory(call.number("seq")).forget(body.because, about=body.about).record
