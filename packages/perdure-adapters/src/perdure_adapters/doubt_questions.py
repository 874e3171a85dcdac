"""Doubt as a framework's own pause, once for the adapters: the question that a person gets, and the answer as a verdict.

Each framework carries a question to a person and an answer back in its own way: an interrupt, an approval, a confirmation. The
answer may be the verdict. Or the person settles the effect elsewhere (`perdure settle`), and lets the framework go on.
Callers: the adapters. Keeps P4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.errors import InDoubt, Waiting
from perdure.handles.aio.session import AsyncSession
from perdure.handles.aio.store import AsyncStore
from perdure.model.records.conversation import Call
from perdure.model.records.effects import Absent, Declined, EffectRecord, EffectState, Happened, Verdict

WAYS = 'answer "absent", "failed" or {"happened": RESULT}; or run: perdure settle EFFECT happened|absent|failed'


def question(call: Call, doubt: InDoubt | Waiting) -> dict[str, Any]:
    """The facts that a person needs, as plain data: which call, which effect, why, and how to answer."""
    effect = doubt.facts.get("effect", "")
    about = {"tool": call.tool, "arguments": call.args, "call": call.id, "effect": effect}
    return {"reason": "in doubt", **about, "message": str(doubt), "how": WAYS.replace("EFFECT", effect or "EFFECT")}


def verdict_of(answer: Any) -> Verdict | None:
    """The verdict that an answer is; None for any other answer: then the effect is looked at again as it stands."""
    if answer == "absent":
        return Absent()
    if answer == "failed":
        return Declined("a person said so")
    if isinstance(answer, Mapping) and "happened" in answer:
        return Happened(answer["happened"])
    return None


async def attempt_of(store: AsyncStore, doubt: InDoubt | Waiting) -> str:
    """The attempt in doubt, which an answer is about. A verdict from before its sender's end is none about it after that."""
    if "effect" not in doubt.facts:
        return "0"
    return attempt_in((await store.effect(doubt.facts["effect"])).record)


def attempt_in(record: EffectRecord) -> str:
    """The attempt of an effect that an answer would be about now, and whether its sender is proved quiet."""
    return f"{record.attempt}{'' if record.quiet_at is None else '.quiet'}"


async def settle(store: AsyncStore, doubt: InDoubt | Waiting, verdict: Verdict) -> None:
    """Say what became of the effect in doubt, unless somebody has. Conflict for Absent while its sender may still send it."""
    effect = await store.effect(doubt.facts["effect"])
    if not effect.settled:
        await effect.settle(verdict)


def is_over(paused: EffectRecord) -> bool:
    """Whether an effect whose tool paused its framework by itself may be called again from its beginning, as if never sent.

    A pause tells nothing about an attempt before it: then the doubt stays, and the tool's rule settles it at the next call.
    """
    return paused.state is EffectState.IN_DOUBT and not paused.doubtful


async def let_go(session: AsyncSession, call: Call, key: str | None) -> None:
    """Let a call whose tool paused its framework by itself be made again from its beginning. key: None if its id is its key."""
    for effect in await session.effects(open=True):
        is_its = effect.record.call == call.id if key is None else effect.key == key
        if is_its and is_over(effect.record):
            await effect.settle(Absent())
