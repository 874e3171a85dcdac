"""Responding: carries out what a model answered, in a session: its turn and its calls, each once. See `batch`. Keeps P2, P14.

Generators, as in `effect_engine`. Callers: the handles, through a shell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from perdure.effects import commits
from perdure.effects.batch import BatchCall, match_calls, next_free
from perdure.effects.commands import Steps, write
from perdure.effects.effect_engine import EffectEngine, intend
from perdure.effects.ledger import error_of
from perdure.effects.outcomes import outcome_of
from perdure.effects.step_functions import as_step_function, call_with_retries
from perdure.errors import Invalid
from perdure.model.records.effects import Answer, EffectError
from perdure.planes.conversation import turns


def respond(
    engine: EffectEngine, content: Any, key: str | None, calls: object, tools: Iterable[Callable[..., Any]],
    about: tuple[str, ...] = (),
) -> Steps[list[Answer]]:  # fmt: skip
    """Say what a model answered and carry out its calls, in order and each once. Gives an Answer for each."""
    batch = match_calls(calls, tools)
    for call in batch:
        if call.answer is None and not call.reads:
            tool = call.sends
            intent = intend(tool.name, tool.kind, call.args, tool.rule, None, call.call)
            call.intent, call.precondition = engine.ask_guards_about_call(tool, intent)
    try:
        answers = yield from engine.begin_batch(batch, commits.respond_and_plan_batch, content, key, about)
        for call in batch:
            call.answer = answers.get(call.call.id, call.answer)
        for at, call in enumerate(batch):
            if call.answer is None and call.reads:
                yield from _read(call)
            elif call.answer is None:
                yield from _carry_out(engine, call, lambda at=at: next_free(batch, at + 1))
    finally:
        engine.unannounce()
    return [call.answer for call in batch if call.answer is not None]


def _carry_out(engine: EffectEngine, call: BatchCall, then: Callable[[], BatchCall | None]) -> Steps[None]:
    assert call.record is not None
    record, must_send = call.record, call.must_send
    if not must_send:
        if call.precondition is not None:
            record = yield write(commits.record_precondition, record, engine.sender.epoch, call.precondition)
        record, must_send = yield from engine.dispatch_effect(call.sends, record)
    call.record = yield from engine.carry_to_end(call.tool, record, must_send=must_send, then=then)
    call.settle(outcome_of)


def _read(call: BatchCall) -> Steps[None]:
    """Call a tool that only reads, and put what it gives into the conversation: an error, if that cannot be kept."""
    came = yield from call_with_retries(as_step_function(call.sends)._replace(fn=call.sends.named), (), call.args)
    if came.error is not None and not isinstance(came.error, Exception):
        raise came.error
    try:
        if came.error is None:
            yield write(turns.result, call.call.id, came.result)
            call.answer_with(came.result)
            return
        cause: EffectError = error_of(came.error)
    except Invalid as error:
        cause = error_of(error)
    yield write(turns.result, call.call.id, str(cause), error=True)
    call.answer_with_error(cause)
