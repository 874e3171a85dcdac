"""Settlement: what may be done about an effect whose outcome is not known, by the rule that its tool declared (P4).

Pure: facts in, advice out. The table of DESIGN §5 is here and nowhere else. Callers: whoever acts, recovery, the envelope.
"""

from __future__ import annotations

import enum
from datetime import datetime
from typing import NamedTuple

from perdure.model.instants import instant_us, to_datetime
from perdure.model.records.effects import EffectRecord, ToolKind

DIED, OVERDUE, INTERRUPTED, RESTORED = "Died", "Overdue", "Interrupted", "Restored"
MISHAPS = frozenset({DIED, INTERRUPTED, RESTORED})  # doubt that is not the tool's doing: it uses up no retry


class Action(enum.StrEnum):
    """What to do next about doubt."""

    AGAIN = "call again"
    PROBE = "probe"
    WAIT = "wait"
    FAIL = "give up"
    PERSON = "ask a person"


class Advice(NamedTuple):
    """What to do, why, and (for a wait) until when, in microseconds on the store's clock."""

    action: Action
    reason: str
    until_us: int | None = None


def advise(effect: EffectRecord, now_us: int, *, can_probe: bool) -> Advice:
    """What to do about an effect in doubt. can_probe: whether the tool's probe can be called here."""
    match effect.kind:
        case ToolKind.IDEMPOTENT:
            return _idempotent(effect)
        case ToolKind.KEYED:
            return _keyed(effect, now_us, can_probe=can_probe)
        case ToolKind.PROBED if can_probe:
            return Advice(Action.PROBE, "its tool can ask the other side")
        case ToolKind.PROBED:
            return Advice(Action.PERSON, "its probe is not to be had here")
    return Advice(Action.PERSON, "its tool is unsafe: the machine never calls it again")


def _idempotent(effect: EffectRecord) -> Advice:
    if _used_up(effect):
        return Advice(Action.FAIL, f"it failed {effect.attempt} times")
    return Advice(Action.AGAIN, "twice is as good as once")


def _keyed(effect: EffectRecord, now_us: int, *, can_probe: bool) -> Advice:
    kept = effect.rule.keeps_keys
    forgotten = kept is not None and now_us >= _us(effect.at) + kept
    if can_probe and (forgotten or _used_up(effect)):
        return Advice(Action.PROBE, "calling it again would settle nothing, but its tool can ask the other side")
    if forgotten:
        return Advice(Action.PERSON, "the other side may have forgotten its key")
    if _used_up(effect):
        return Advice(Action.PERSON, f"it was tried {effect.attempt} times with the same key, and no answer was clear")
    return Advice(Action.AGAIN, "the other side knows its key")


def after_absent(effect: EffectRecord, now_us: int) -> Advice:
    """What to do when the probe says that it did not happen: final only when nothing can arrive any more."""
    if effect.quiet_at is None:
        return Advice(Action.PERSON, "it has not arrived, but its caller may still send it")
    landed_us = _us(effect.quiet_at) + effect.rule.lands_within
    if now_us < landed_us:
        when = to_datetime(landed_us).isoformat()
        return Advice(Action.WAIT, f"what was sent may still arrive until {when}", landed_us)
    if _used_up(effect):
        return Advice(Action.FAIL, f"it did not happen in {effect.attempt} attempts")
    return Advice(Action.AGAIN, "it did not happen, and nothing is under way any more")


def _used_up(effect: EffectRecord) -> bool:
    """Whether the tool itself has failed as often as it may. Deaths and the like are not its answers."""
    said = effect.error is not None and effect.error.code not in MISHAPS
    return said and effect.attempt > effect.rule.retries


def _us(instant: datetime) -> int:
    return instant_us(instant, 0)


def ways_out(effect: EffectRecord) -> str:
    """How a person settles it, and which declaration would have."""
    settle = f"`perdure settle {effect.id} happened|absent|failed`"
    if effect.kind is not ToolKind.UNSAFE:
        return settle
    return (
        f'{settle}; next time declare what {effect.tool} is: @perdure.tool(kind="idempotent"), '
        f'@perdure.tool(kind="keyed") with a key= parameter, or @perdure.tool(probe=…)'
    )
