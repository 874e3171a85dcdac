"""Telling a history to a store: each thing by the verb that an agent would have used. Callers: `evidence_shares`, the tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

import perdure
from perdure.handles.sync.run import Run
from perdure.handles.sync.session import Session
from perdure.handles.sync.store import Store
from perdure_evaluate.boot.histories import TASKS, BootHistory, HistoryThing
from perdure_testing.clock import FakeClock

EACH = "3m"  # passes between two things
OWN = ("preference",)  # of the user; other memories are the project's


@perdure.agent(name="perdure.evaluation.boot.asks")
def asks(run: Run, question: str) -> str:
    """A run that waits for a person."""
    return run.ask(question)


@perdure.agent(name="perdure.evaluation.boot.fails")
def fails(run: Run, why: str) -> None:  # noqa: ARG001 - agents get their run
    """A run that fails."""
    raise RuntimeError(why)


def tell(store: Store, history: BootHistory, clock: FakeClock) -> Session:
    """Say, decide, remember and do all of it; returns the session."""
    session = store.session(history.session, labels=history.labels)
    for thing in history.things:
        verb = _task if thing.kind in TASKS else _VERBS.get(thing.kind, _remember)
        verb(store, session, thing)
        clock.advance(EACH)
    store.beat()
    store.index()
    return session


def _say(_: Store, session: Session, thing: HistoryThing) -> None:
    session.say("user" if thing.kind == "user" else "assistant", thing.text)


def _call(_: Store, session: Session, thing: HistoryThing) -> None:
    call = perdure.Call(f"c{session.info().last_seq}", "shell", {"command": thing.text})
    session.say("assistant", "", calls=[call])
    session.result(call.id, thing.more)


def _remember(store: Store, session: Session, thing: HistoryThing) -> None:
    labels = session.info().labels
    place = next(label for label in labels if label.startswith("user:" if thing.kind in OWN else "project:"))
    store.scope(place).remember(thing.text, kind=thing.kind)


def _decide(_: Store, session: Session, thing: HistoryThing) -> None:
    tags = ["standing"] if thing.kind == "standing" else []
    because, mark, old = thing.more.partition(" => ")
    if mark:
        before, mark, why = old.partition("Because: ")
        decision = session.decide(before.strip(), because=why).supersede(thing.text, because=because)
    else:
        decision = session.decide(thing.text, because=because, tags=tags)
    if thing.kind != "open":
        decision.close("worked")


def _task(_: Store, session: Session, thing: HistoryThing) -> None:
    task = session.task(thing.text)
    if thing.kind == "done":
        task.claim().done()
    elif thing.kind == "blocked":
        task.block(thing.more)
    elif thing.kind == "doing":
        task.claim()
    elif thing.kind == "left":
        task.claim(ttl="1s")


def _doubt(_: Store, session: Session, thing: HistoryThing) -> None:
    session.begin(thing.text, json.loads(thing.more), kind="unsafe", key=thing.id).dispatch()


def _ask(store: Store, session: Session, thing: HistoryThing) -> None:
    with suppress(perdure.Waiting):
        store.drive(asks, thing.text, key=thing.id, session=session.name)
    if thing.more:
        store.answer(store.asks(limit=1)[0].id, thing.more)
        store.drive(asks, thing.text, key=thing.id, session=session.name)


def _fail(store: Store, session: Session, thing: HistoryThing) -> None:
    with suppress(perdure.Failed):
        store.drive(fails, thing.text, key=thing.id, session=session.name)


def _goal(_: Store, session: Session, thing: HistoryThing) -> None:
    session.goal = thing.text


def _set(_: Store, session: Session, thing: HistoryThing) -> None:
    session.set(thing.text, thing.more)


_VERBS: dict[str, Callable[[Store, Session, HistoryThing], None]] = {
    "goal": _goal,
    "user": _say,
    "assistant": _say,
    "tool": _call,
    "decision": _decide,
    "standing": _decide,
    "superseded": _decide,
    "open": _decide,
    "doubt": _doubt,
    "ask": _ask,
    "answered": _ask,
    "failed_run": _fail,
    "value": _set,
}
