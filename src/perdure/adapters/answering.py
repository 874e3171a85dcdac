"""Answers of models through the ledger, once for the adapters: an answer that came is not asked for again, an outage is over when
the model is next asked.

Asking a model changes nothing outside. So a call that failed is planned anew by the next one with its key, as `retry` does it for
a run, and no person need say what became of one that was cut off. The caller gets the model's own error: by that frameworks
decide whether to try again. Callers: the adapters that stand between a framework and its model. Keeps P1.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from perdure.effects import ledger
from perdure.effects.ledger import Outcome
from perdure.effects.tool import Tool, tool
from perdure.errors import Failed, InDoubt
from perdure.handles.aio.session import AsyncSession
from perdure.handles.sync.session import Session
from perdure.log.change import Stream
from perdure.model.records.effects import EffectError, EffectState
from perdure.stores.tx import Tx

UNANSWERED = EffectError("Unanswered", "no answer came, and asking a model changes nothing outside")


async def answered(
    session: AsyncSession, name: str, ask: Callable[..., Awaitable[Any]], /, *args: Any, key: str
) -> Any:
    """The recorded answer of this key, or a new one, which is recorded before it is given.

    name: of the effect. args: of `ask`, compared as the arguments of every effect. Raises what `ask` raises; Failed when a guard
    refuses it, KeyReused when the key stands for other arguments, Conflict while another caller asks.
    """
    raised: list[Exception] = []

    @wraps(ask)
    async def noted(*given: Any, **named: Any) -> Any:
        try:
            return await ask(*given, **named)
        except Exception as error:
            raised.append(error)
            raise

    try:
        return await session.act(_asking(name, noted), *args, key=key)
    except (Failed, InDoubt):
        if not raised and not await session._write(plan_anew, key):
            raise
    if not raised:
        return await answered(session, name, ask, *args, key=key)
    raise raised[0]


def answered_now(session: Session, name: str, ask: Callable[..., Any], /, *args: Any, key: str) -> Any:
    """`answered`, for sync code."""
    raised: list[Exception] = []

    @wraps(ask)
    def noted(*given: Any, **named: Any) -> Any:
        try:
            return ask(*given, **named)
        except Exception as error:
            raised.append(error)
            raise

    try:
        return session.act(_asking(name, noted), *args, key=key)
    except (Failed, InDoubt):
        if not raised and not session._write(plan_anew, key):
            raise
    if not raised:
        return answered_now(session, name, ask, *args, key=key)
    raise raised[0]


def plan_anew(tx: Tx, stream: Stream, key: str) -> bool:
    """Plan a call of a model anew that failed, or that is in doubt; whether it was planned. A refusal stands."""
    found = ledger.find(tx, stream, key)
    if found is None or found.state not in (EffectState.FAILED, EffectState.IN_DOUBT):
        return False
    if found.state is EffectState.FAILED:
        return ledger.revive(tx, stream, found.seq) is not None
    ledger.absent(tx, stream, found.seq, found.attempt, Outcome(error=UNANSWERED, by="its adapter"))
    return True


def _asking(name: str, ask: Callable[..., Any]) -> Tool:
    """Asking a model may be repeated: it costs money, and nothing else. An error leaves no doubt."""
    return tool(ask, name=name, kind="idempotent", known=False, fails=(Exception,))
