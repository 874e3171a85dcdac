"""Responding: carries out what a model answered, in a session: its turn and its calls, each once. See `batch`. Keeps P2, P14.

Generators without colour, as in `sending`. Callers: the handles, through a shell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from perdure.effects import approvals
from perdure.effects import batch as batches
from perdure.effects.acting import Acting
from perdure.effects.batch import BatchCall, next_free
from perdure.effects.commands import Steps, write
from perdure.effects.consulting import as_step_function, consult
from perdure.effects.intents import intend
from perdure.effects.ledger import error_of
from perdure.effects.outcomes import outcome_of
from perdure.errors import Invalid
from perdure.model.records.effects import Answer, EffectError
from perdure.planes.conversation import turns


def respond(
    acting: Acting, content: Any, key: str | None, calls: object, tools: Iterable[Callable[..., Any]],
    about: tuple[str, ...] = (),
) -> Steps[list[Answer]]:  # fmt: skip
    """Say what a model answered and carry out its calls, in order and each once. Gives an Answer for each."""
    batch = batches.mean(calls, tools)
    for meant in batch:
        if meant.answer is None and not meant.reads:
            tool = meant.sends
            intent = intend(tool.name, tool.kind, meant.args, tool.rule, None, meant.call)
            meant.intent, meant.asked = acting.guarded_call(tool, intent)
    try:
        told = yield from acting.begin_all(batch, batches.respond, content, key, about)
        for meant in batch:
            meant.answer = told.get(meant.call.id, meant.answer)
        for at, meant in enumerate(batch):
            if meant.answer is None and meant.reads:
                yield from _read(meant)
            elif meant.answer is None:
                yield from _carry_out(acting, meant, lambda at=at: next_free(batch, at + 1))
    finally:
        acting.unannounce()
    return [meant.answer for meant in batch if meant.answer is not None]


def _carry_out(acting: Acting, meant: BatchCall, then: Callable[[], BatchCall | None]) -> Steps[None]:
    assert meant.record is not None
    record, mine = meant.record, meant.mine
    if not mine:
        if meant.asked is not None:
            record = yield write(approvals.ask, record, acting.sender.epoch, meant.asked)
        record, mine = yield from acting.dispatch_permitted(meant.sends, record)
    meant.record = yield from acting.conclude(meant.tool, record, mine=mine, then=then)
    meant.settle(outcome_of)


def _read(meant: BatchCall) -> Steps[None]:
    """Call a tool that only reads, and put what it gives into the conversation: an error, if that cannot be kept."""
    came = yield from consult(as_step_function(meant.sends)._replace(fn=meant.sends.named), (), meant.args)
    if came.error is not None and not isinstance(came.error, Exception):
        raise came.error
    try:
        if came.error is None:
            yield write(turns.result, meant.call.id, came.result)
            meant.gave(came.result)
            return
        said: EffectError = error_of(came.error)
    except Invalid as error:
        said = error_of(error)
    yield write(turns.result, meant.call.id, str(said), error=True)
    meant.failed(said)
