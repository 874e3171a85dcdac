"""What the author of an agent is told of a mistake in it: where it is, however deep, and not only that there is one (P13)."""

from __future__ import annotations

import asyncio
import logging
import traceback

import pytest

import perdure


def whisper(text):
    return text.lower()


@perdure.agent
def careless(run):
    return whisper(None)


@perdure.agent
async def careless_too(run):
    return whisper(None)


@perdure.agent
def careless_inside(run):
    return run.step(whisper, None)


@perdure.agent
def mother(run):
    return run.call(careless)


@perdure.tool
def send(text: str) -> str:
    return whisper(text)


@perdure.agent
def sender(run):
    return run.act(send, None)


@pytest.fixture
def store():
    with perdure.open("memory:", actor="me") as opened:
        yield opened


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("agent", [careless, careless_too, careless_inside])
def test_who_drives_an_agent_sees_the_line_that_raised(store, agent):
    with pytest.raises(perdure.Failed) as found:
        store.drive(agent, key="k")
    assert "in whisper" in shown(found.value)


def test_so_does_who_drives_it_from_async_code():
    async def drive():
        async with perdure.aopen("memory:", actor="me") as store:
            await store.drive(careless_too)

    with pytest.raises(perdure.Failed) as found:
        asyncio.run(drive())
    assert "in whisper" in shown(found.value)


def test_of_a_run_that_failed_before_only_what_is_recorded_is_told(store):
    with pytest.raises(perdure.Failed):
        store.drive(careless, key="k")
    with pytest.raises(perdure.Failed, match="no attribute 'lower'") as found:
        store.drive(careless, key="k")
    assert found.value.__cause__ is None


@pytest.mark.parametrize("agent", [careless, mother])
def test_an_agent_that_failed_is_logged_with_its_trace(store, agent, caplog):
    with caplog.at_level(logging.WARNING, "perdure"), pytest.raises(perdure.Failed):
        store.drive(agent, key="k")
    assert {each.agent for each in caplog.records} == {"careless", agent.name}
    assert any("in whisper" in each.trace for each in caplog.records)
    assert not any("'lower'" in f"{each.message} {each.trace}" for each in caplog.records)  # what it says is content


def test_who_acts_sees_the_line_of_the_tool_that_raised(store):
    with pytest.raises(perdure.InDoubt) as found:
        store.session("a").act(send, None, key="k")
    assert "in whisper" in shown(found.value)


def test_a_tool_that_left_doubt_in_a_run_is_logged_with_its_trace_and_the_wait_says_what_it_raised(store, caplog):
    with caplog.at_level(logging.WARNING, "perdure"), pytest.raises(perdure.Waiting, match="AttributeError: 'None"):
        store.drive(sender, key="k")
    [said] = caplog.records
    assert "in whisper" in said.trace
    assert "'lower'" not in f"{said.message} {said.trace}"


def test_a_tool_that_says_no_and_a_run_that_is_cancelled_are_no_mistakes(store, caplog):
    @perdure.tool
    def refuses() -> None:
        raise perdure.Failed("no")

    @perdure.agent
    def asks(run):
        return run.ask("well?")

    with caplog.at_level(logging.WARNING, "perdure"):
        with pytest.raises(perdure.Failed):
            store.session("a").act(refuses, key="k")
        store.start(asks).cancel()
    assert caplog.text == ""


def test_who_waits_for_a_run_that_nobody_takes_is_told_who_would(store):
    with pytest.raises(perdure.TimedOut, match="perdure worker MODULE"):
        store.start(mother).result()
