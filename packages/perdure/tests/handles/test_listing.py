"""Going through all of a listing: every one, in its order, none twice; a page that would be cut is refused (P15)."""

from __future__ import annotations

import asyncio

import pytest

import perdure
from perdure.errors import Invalid, NotFound


@perdure.agent(name="listed")
def listed(run):
    return None


@pytest.fixture
def store(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db", actor="me") as store:
        yield store


def test_every_turn_and_session(store):
    session = store.session("s0")
    for number in range(250):
        session.say("user", str(number))
    for number in range(1, 120):
        store.session(f"s{number}")
    assert [turn.content for turn in perdure.every(session.turns)] == [str(number) for number in range(250)]
    assert [turn.content for turn in perdure.every(session.turns, limit=7)] == [str(number) for number in range(250)]
    assert [each.name for each in perdure.every(store.sessions, limit=50)] == [
        f"s{number}" for number in range(119, -1, -1)
    ]
    assert len(list(perdure.every(session.events, limit=100))) == 251


def test_every_run_effect_task_decision_and_value(store):
    session = store.session("s")
    for number in range(130):
        store.start(listed, key=str(number))
        session.begin("send", key=str(number))
        session.task(str(number))
        session.decide(str(number), because="b")
        session.set(f"{number:03}", number)
    for listing in (store.runs, store.effects, session.effects, session.tasks, store.tasks, session.decisions, store.decisions,
                    session.entries):  # fmt: skip
        assert len(list(perdure.every(listing))) == len(list(perdure.every(listing, limit=40))) == 130


def test_every_in_async_code(tmp_path):
    async def all_of_it():
        async with await perdure.aopen(f"sqlite:///{tmp_path}/a.db", actor="me") as store:
            session = await store.session("s")
            for number in range(30):
                await session.say("user", str(number))
            return [turn.content async for turn in perdure.aevery(session.turns, limit=7)]

    assert asyncio.run(all_of_it()) == [str(number) for number in range(30)]


def test_a_page_that_would_be_cut_is_refused(store):
    session = store.session("s")
    for ask in (store.runs, store.effects, store.sessions, session.turns, session.entries, session.tasks, store.events):
        with pytest.raises(Invalid) as refused:
            ask(limit=100_000)
        assert refused.value.path == "limit"
        assert "perdure.every" in refused.value.hint
    with pytest.raises(Invalid):
        session.turns(last=100_000)


def test_a_run_is_found_by_its_key(store):
    handle = store.start(listed, key="issue-42")
    assert store.run(agent=listed, key="issue-42").name == handle.name
    assert store.run(agent="listed", key="issue-42").name == handle.name
    with pytest.raises(NotFound):
        store.run(agent=listed, key="issue-43")
    for wrong in ({"key": "issue-42"}, {"name": handle.name, "key": "issue-42"}, {}):
        with pytest.raises(Invalid):
            store.run(**wrong)


def test_a_listing_is_counted_with_its_filters(store, tmp_path):
    session = store.session("s")
    for number in range(130):
        session.task(str(number), labels=["odd"] if number % 2 else [])
    assert perdure.count(session.tasks) == 130
    assert perdure.count(session.tasks, label="odd", limit=20) == 65
    assert perdure.count(session.turns) == 0

    async def counted():
        async with await perdure.aopen(f"sqlite:///{tmp_path}/a.db") as other:
            return await perdure.acount(other.tasks, label="odd")

    assert asyncio.run(counted()) == 65
