"""Doubt as a framework's own pause, without a framework: what an answer settles, and when a paused call may begin anew (P4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import perdure
from perdure.effects.tool import Tool
from perdure.errors import InDoubt
from perdure.model.instants import to_datetime
from perdure.model.records.conversation import Call
from perdure.model.records.effects import EffectRecord, ToolKind
from perdure_adapters import doubt_questions, tool_calls

CALL = Call("c", "pay", {"n": 1})
AGAIN = perdure.tool(print, name="doubting-pay", kind="idempotent", retries=1, backoff=0.001, known=False)


def acted(tmp_path, kind: ToolKind | Tool, calls: list[Any], then: Callable[..., Any]) -> EffectRecord:
    """Act on a call once; `calls` says what each call of the tool raises or gives. Gives the effect after `then`."""

    async def invoke() -> Any:
        given = calls.pop(0)
        if isinstance(given, BaseException):
            raise given
        return given

    async def story() -> EffectRecord:
        async with perdure.aopen(f"sqlite:///{tmp_path}/a.db") as store:
            session = await store.session("s")
            await session.say("assistant", calls=[CALL])
            try:
                await tool_calls.act(session, CALL, kind, invoke)
            except (InDoubt, tool_calls.ToolPaused) as paused:
                await then(store, session, paused)
            (effect,) = await session.effects()
            return effect.record

    return asyncio.run(story())


async def let_go(_store: Any, session: Any, _paused: BaseException) -> None:
    await doubt_questions.let_go(session, CALL, None)


def test_a_call_that_paused_by_itself_begins_anew(tmp_path):
    effect = acted(tmp_path, ToolKind.UNSAFE, [tool_calls.ToolPaused()], let_go)
    assert (effect.state, effect.attempt) == ("planned", 1)


def test_a_pause_tells_nothing_about_an_attempt_before_it(tmp_path):
    """That one may have happened: as if never sent, it would be done twice."""
    effect = acted(tmp_path, AGAIN, [OSError("the answer was lost"), tool_calls.ToolPaused()], let_go)
    assert (effect.state, effect.attempt, effect.doubtful) == ("in_doubt", 2, True)
    assert not doubt_questions.is_over(effect)


def test_another_call_is_not_let_go(tmp_path):
    async def of_another(_store: Any, session: Any, _paused: BaseException) -> None:
        await doubt_questions.let_go(session, Call("d", "pay", {}), None)
        await doubt_questions.let_go(session, CALL, "another key")

    assert acted(tmp_path, ToolKind.UNSAFE, [tool_calls.ToolPaused()], of_another).state == "in_doubt"


def test_an_answer_is_about_one_attempt_and_its_senders_end(tmp_path):
    """A verdict from before its sender's end says nothing about what was sent after it."""
    seen: list[str] = []

    async def look(store: Any, _session: Any, doubt: Any) -> None:
        seen.append(await doubt_questions.attempt_of(store, doubt))

    effect = acted(tmp_path, ToolKind.UNSAFE, [OSError("the answer was lost")], look)
    changed = msgspec.structs.replace
    about = [changed(effect, quiet_at=None), changed(effect, quiet_at=to_datetime(1)), changed(effect, attempt=2)]
    assert seen == [doubt_questions.attempt_in(effect)]
    assert len({doubt_questions.attempt_in(each) for each in about}) == len(about)


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ("absent", "planned"),
        ("failed", "failed"),
        ({"happened": 7}, "committed"),
        ("yes", "in_doubt"),
        (None, "in_doubt"),
    ],
)
def test_an_answer_is_the_verdict_or_none(tmp_path, answer, state):
    async def say(store: Any, _session: Any, doubt: Any) -> None:
        verdict = doubt_questions.verdict_of(answer)
        if verdict is not None:
            await doubt_questions.settle(store, doubt, verdict)

    assert acted(tmp_path, ToolKind.UNSAFE, [OSError("the answer was lost")], say).state == state


def test_what_somebody_settled_stands(tmp_path):
    async def twice(store: Any, _session: Any, doubt: Any) -> None:
        for verdict in (perdure.Happened("by ann"), perdure.Absent()):
            await doubt_questions.settle(store, doubt, verdict)

    effect = acted(tmp_path, ToolKind.UNSAFE, [OSError("the answer was lost")], twice)
    assert (effect.state, effect.result) == ("committed", "by ann")
