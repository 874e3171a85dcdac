"""Writing in sessions and scopes: one route a verb, each in one transaction (`carrying`). Callers: `table`, by import."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.errors import Invalid, NotFound
from perdure.handles.atomic import Atomic
from perdure.handles.sync.session import Scope, Session
from perdure.model.records.conversation import Pins
from perdure.model.records.tasks import TaskRecord
from perdure.verbs.declaring import Right
from perdure_server.http.answers import (
    CountAnswer,
    ScopeAnswer,
    SessionAnswer,
    session_answer,
)
from perdure_server.http.call import HIDDEN_SCOPES, HttpCall
from perdure_server.http.inputs import (
    ClaimInput,
    ForkInput,
    LabelsInput,
    MoveInput,
    PinsInput,
    RetractionInput,
    SessionInput,
    SessionMoveInput,
    SessionPatch,
    TaskPatch,
)
from perdure_server.http.table import MarkedIn, route
from perdure_server.http.wire import value_from

SESSION, SCOPE = MarkedIn.SESSION, MarkedIn.SCOPE


def session_in(tx: Atomic, call: HttpCall) -> Session:
    """The session of the path, in this transaction. It is there: its stream was found before."""
    return tx.session(call.parts["session"])


def scope_in(tx: Atomic, call: HttpCall) -> Scope:
    """The scope of the path, in this transaction."""
    return tx.scope(call.parts["scope"])


# -- sessions ------------------------------------------------------------------------------------------------------


@route("PUT", "/v1/sessions/{session}", Right.WRITE, SessionAnswer)
async def put_session(call: HttpCall, body: SessionInput) -> Any:
    """Make a session, if there is none of this name; one that exists is left as it is. Safe to repeat."""
    pins = None if body.pins is None else {k: v for k, v in msgspec.to_builtins(body.pins).items() if v is not None}
    made = await call.store.session(
        call.parts["session"], title=body.title, labels=body.labels, goal=body.goal, ttl=body.ttl, pins=pins,
        about=body.about,
    )  # fmt: skip
    return session_answer(await made.info(), made.uid)


@route("PATCH", "/v1/sessions/{session}", Right.WRITE, SessionAnswer, target=SESSION)
def patch_session(tx: Atomic, call: HttpCall, body: SessionPatch) -> Any:
    """Change the title, goal, labels or status of a session, or archive it. Safe to repeat."""
    session = session_in(tx, call)
    if body.title is not msgspec.UNSET:
        session.set_title(body.title, about=body.about)
    if body.goal is not msgspec.UNSET:
        session.set_goal(body.goal, about=body.about)
    if body.labels is not msgspec.UNSET:
        _relabel(session, body.labels)
    if body.status is not msgspec.UNSET:
        _bring_to(session, body.status)
    if body.archived is not msgspec.UNSET:
        (session.archive if body.archived else session.unarchive)()
    return session_answer(session.info(), session.uid)


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


@route("POST", "/v1/sessions/{session}/moves", Right.WRITE, SessionAnswer, target=SESSION)
def move_session(tx: Atomic, call: HttpCall, body: SessionMoveInput) -> Any:
    """Let a session wait, continue, end, begin again, or leave the listings. A move that does not fit its state is a conflict."""
    session = session_in(tx, call)
    if body.move == "completed" or body.move == "failed":  # noqa: PLR1714 - a checker narrows it so
        session.close(body.move)
    else:
        getattr(session, body.move)()
    return session_answer(session.info(), session.uid)


@route("POST", "/v1/sessions/{session}/labels", Right.WRITE, list[str], target=SESSION)
def change_labels(tx: Atomic, call: HttpCall, body: LabelsInput) -> Any:
    """Add labels and take labels away; answers those that it has then. Safe to repeat."""
    session = session_in(tx, call)
    if body.remove:
        session.unlabel(*body.remove)
    return session.label(*body.add)


@route("PUT", "/v1/sessions/{session}/pins", Right.WRITE, Pins, target=SESSION)
def pin_session(tx: Atomic, call: HttpCall, body: PinsInput) -> Any:
    """Pin the software versions in force; those that are not given stay. Safe to repeat."""
    return session_in(tx, call).pin(model=body.model, prompt=body.prompt, tools=body.tools, commit=body.commit)


@route("POST", "/v1/sessions/{session}/retractions", Right.WRITE, CountAnswer, status=201, target=SESSION)
def retract(tx: Atomic, call: HttpCall, body: RetractionInput) -> Any:
    """Take turns back: nothing shows them any more, and the log keeps them. Safe to repeat."""
    return CountAnswer(session_in(tx, call).retract(*body.turns, because=body.because, about=body.about))


@route("POST", "/v1/sessions/{session}/forks", Right.WRITE, SessionAnswer, status=201, target=SESSION)
def fork_session(tx: Atomic, call: HttpCall, body: ForkInput) -> Any:
    """Another session that continues from a point of this one. A name that is taken is a conflict."""
    made = session_in(tx, call).fork(body.at, name=body.name)
    return session_answer(made.info(), made.uid)


# -- values --------------------------------------------------------------------------------------------------------


@route("PUT", "/v1/scopes/{scope}", Right.WRITE, ScopeAnswer)
async def put_scope(call: HttpCall) -> Any:
    """Make a scope, if there is none of this name."""
    if call.parts["scope"].startswith(HIDDEN_SCOPES):
        raise NotFound("scopes of this name are Perdure's own", path="path.scope")
    made = await call.store.scope(call.parts["scope"])
    return ScopeAnswer(made.name, made.uid)


# -- plan and decisions --------------------------------------------------------------------------------------------


@route("PATCH", "/v1/sessions/{session}/tasks/{task}", Right.WRITE, TaskRecord, target=SESSION)
def patch_task(tx: Atomic, call: HttpCall, body: TaskPatch) -> Any:
    """Change what a task says, what it waits for, or what it is a part of. Safe to repeat."""
    task = session_in(tx, call).get_task(call.number("task"), token=body.token)
    given = {
        name: getattr(body, name)
        for name in ("title", "priority", "labels")
        if getattr(body, name) is not msgspec.UNSET
    }
    detail = ... if body.detail is msgspec.UNSET else value_from(body.detail, "body.detail")
    if given or detail is not ... or body.about:
        task.edit(**given, detail=detail, about=body.about)
    if body.need is not None:
        task.need(body.need)
    if body.unneed is not None:
        task.unneed(body.unneed)
    if body.parent is not msgspec.UNSET:
        task.put_under(body.parent)
    return task.record


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
            raise Invalid("a block needs a reason (note)", path="body.note")
        return task.block(body.note, about=body.about).record
    return getattr(task, body.move)(body.note, about=body.about).record


# -- checkpoints --------------------------------------------------------------------------------------------------
