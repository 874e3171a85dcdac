"""A newer Perdure migrates a store that an older one has open: the older one writes nothing more once it has noticed (P5, P7)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import perdure
from installed import stores_here
from perdure.stores import migrate, schema_upgrade
from perdure_testing.clock import FakeClock

NEWER = 4711


@pytest.fixture(params=stores_here("sqlite", "files", "postgres"))
def url(request, tmp_path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("postgres_store")
    return f"{request.param}:///{tmp_path}/a"


def put_schema(store: perdure.Store, number: int) -> None:
    with schema_upgrade.changing(store._caller.core.engine) as script:
        script.query(migrate.Q.meta_put, name="schema", value=str(number))


@contextmanager
def migrated(store: perdure.Store) -> Iterator[None]:
    """As long as it lasts, the store is as a newer Perdure left it."""
    put_schema(store, NEWER)
    try:
        yield
    finally:
        put_schema(store, migrate.latest(migrate.migrations()))


def is_told(verb: Any, *args: Any) -> None:
    with pytest.raises(perdure.NewerSchema, match="4711") as told:
        verb(*args)
    assert "start this program again" in told.value.hint


def test_who_is_at_work_in_a_session_is_told_at_the_next_heartbeat_and_writes_nothing_more(url):
    with perdure.open(url, actor="other") as other, perdure.open(url, actor="me", clock=FakeClock()) as store:
        session = store.session("a")
        session.say("user", "before")
        with migrated(other):
            is_told(store.beat)
            for _ in range(2):
                is_told(session.say, "user", "after")
            assert [turn.content for turn in session.turns(last=9)] == ["before"]
        assert other.verify().ok


def test_who_begins_to_work_is_told_at_once(url):
    with perdure.open(url, actor="other") as other, perdure.open(url, actor="me", clock=FakeClock()) as store:
        waiting = other.start(counted)
        with migrated(other):
            is_told(store.session("a").say, "user", "hello")
            is_told(store.drive, counted)
            is_told(store.recover, [counted])
        assert waiting.refresh().status == "ready"
        assert other.session("a").turns() == []


DONE: list[str] = []


@perdure.tool(name="outgrown-send", kind="idempotent")
def send(what: str) -> str:
    DONE.append(what)
    return what


@perdure.agent(name="outgrown")
def counted(run: perdure.Run) -> list[str]:
    return [run.act(send, what) for what in ("a", "b")]


def test_a_run_that_it_drives_goes_on_in_the_newer_one(url):
    DONE.clear()

    @perdure.tool(name="outgrown-notice", kind="idempotent")
    def notice() -> None:
        if not DONE:
            put_schema(other, NEWER)
            is_told(store.beat)
        DONE.append("noticed")

    @perdure.agent(name="outgrown-driven")
    def driven(run: perdure.Run) -> str:
        try:
            run.act(notice)
        except Exception:  # what a careless agent does
            DONE.append("caught")
        run.act(send, "after")
        return "done"

    clock = FakeClock()
    with perdure.open(url, actor="other", clock=clock) as other:
        with perdure.open(url, actor="me", clock=clock) as store:
            is_told(store.drive, driven)
            assert DONE == ["noticed", "caught"]
            put_schema(other, migrate.latest(migrate.migrations()))  # the other knows it
            run = other.runs()[0]
            assert run.status == "running"  # nothing was written: neither its end nor that it failed
            clock.advance("1h")
            other.recover([driven])
        assert run.refresh().status == "completed"
        assert DONE == ["noticed", "caught", "noticed", "after"]
