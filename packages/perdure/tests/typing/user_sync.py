"""User code, sync: a strict type checker must follow every value."""

from __future__ import annotations

from typing import assert_type

import perdure
from perdure import Artifact, Decision, Page, Task, Turn

with perdure.open("memory:", actor="me") as store:
    assert_type(store, perdure.Store)
    session = store.session("typed", title="A title")
    assert_type(session, perdure.Session)
    turn = session.say("user", "hello", key="m1")
    assert_type(turn, Turn)
    assert_type(turn.seq, int)
    for said in session.turns(last=20):
        assert_type(said, Turn)
    decision = session.decide("Use A", because="B is slow")
    decision.close("worked")
    task = session.task("Write the test")
    task.claim()
    task.done("written")
    session.set("branch", "fix-42", expect=0)
    with session.lock("deploy", ttl="30s") as lock:
        assert_type(lock.token, int)
    assert_type(session.goal, str | None)
    session.goal = "typed"
    assert_type(session.status, perdure.Status)
    assert_type(session.attach("f", b"x"), Artifact)
    assert_type(session.artifacts(), Page[Artifact])
    assert_type(decision, Decision)
    assert_type(task, Task)
    assert_type(store.sessions(), Page[perdure.SessionHeader])
    assert_type(store.subscribe("s").next(), perdure.Batch)
    session.say(perdure.Role.USER, "an enum is fine")
    session.transcript("anthropic")
    session.close("failed")
    store.atomic(lambda tx: tx.session("a").say("user", "x"))
