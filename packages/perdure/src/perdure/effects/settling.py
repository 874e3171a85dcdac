"""Settlement: what may be done about an effect whose outcome is not known, by the rule that its tool declared (P4).

Pure: facts in, advice out. The rule for doubt (docs/tools.md) is here and nowhere else. Callers: the engine,
recovery, the envelope.
"""

from __future__ import annotations

import enum
import shlex
from datetime import datetime
from typing import NamedTuple

from perdure.model.instants import SECOND_US, instant_us, to_datetime
from perdure.model.records.effects import EffectRecord, ToolKind

DIED, OVERDUE, INTERRUPTED, RESTORED = "Died", "Overdue", "Interrupted", "Restored"
HAS_DIED, IS_SILENT = "the process died during the call", "the process that made the call gives no sign of life"
STRAYED = "Strayed"  # after a restore its run has found out something anew: it may have done this with other words
UNAPPROVED = "Unapproved"  # after a restore a person refused it, or called its run off: it may have been sent before
LOOK_MIN_US, LOOK_MAX_US = SECOND_US, 600 * SECOND_US  # between two looks at doubt that time may settle
SILENT = "Silent"  # its sender lives, and has lost what it sent for: it may be stopped, and send it yet
# Not the tool's doing: these use up no retry.
MISHAPS = frozenset({DIED, SILENT, INTERRUPTED, RESTORED, STRAYED, UNAPPROVED})
MISHAPS_MAX = 5  # of one effect: then its tool may well be what ends its processes, and a person is asked


class Action(enum.StrEnum):
    """The next action about doubt."""

    AGAIN = "call again"
    PROBE = "probe"
    WAIT = "wait"
    FAIL = "give up"
    PERSON = "ask a person"


class Advice(NamedTuple):
    """An action and its reason. until_us: when the wait is over, in microseconds on the store's clock; for a probe that could not
    tell, when it is asked again.
    """

    action: Action
    reason: str
    until_us: int | None = None


def advise(effect: EffectRecord, now_us: int, *, can_probe: bool) -> Advice:
    """Advise what to do about an effect in doubt. can_probe: whether the probe of its tool can be called here."""
    if effect.error is not None and effect.error.code == STRAYED:
        return Advice(Action.PERSON, "the other side knows it by other arguments, if it was done before the restore")
    if is_unapproved(effect):
        return _unapproved(can_probe=can_probe)
    return _by_kind(effect, now_us, can_probe=can_probe)


def _unapproved(*, can_probe: bool) -> Advice:
    if can_probe:
        return Advice(Action.PROBE, "it shall not be sent again, but its tool can ask the other side")
    return Advice(Action.PERSON, "it shall not be sent again, and nobody here knows whether it was before the restore")


def _by_kind(effect: EffectRecord, now_us: int, *, can_probe: bool) -> Advice:
    match effect.kind:
        case ToolKind.IDEMPOTENT:
            return _idempotent(effect)
        case ToolKind.KEYED:
            return _keyed(effect, now_us, can_probe=can_probe)
        case ToolKind.PROBED if can_probe:
            return Advice(Action.PROBE, "its tool can ask the other side")
        case ToolKind.PROBED:
            return Advice(Action.PERSON, "its probe is not available here")
    return Advice(Action.PERSON, "its tool is unsafe: the machine never calls it again")


def _idempotent(effect: EffectRecord) -> Advice:
    if _is_fatal(effect):
        return Advice(Action.PERSON, _fatal(effect))
    if _used_up(effect):
        return Advice(Action.FAIL, f"it failed {effect.failures} times")
    return Advice(Action.AGAIN, "twice is as good as once")


def _keyed(effect: EffectRecord, now_us: int, *, can_probe: bool) -> Advice:
    kept = effect.rule.keeps_keys
    forgotten = kept is not None and now_us >= _us(effect.first_dispatched_at or effect.at) + kept
    if can_probe and (forgotten or _used_up(effect) or _is_fatal(effect)):
        return Advice(Action.PROBE, "calling it again would settle nothing, but its tool can ask the other side")
    if forgotten:
        return Advice(Action.PERSON, "the other side may have forgotten its key")
    if _is_fatal(effect):
        return Advice(Action.PERSON, _fatal(effect))
    if _used_up(effect):
        return Advice(Action.PERSON, f"it was tried {effect.attempt} times with the same key, and no answer was clear")
    return Advice(Action.AGAIN, "the other side knows its key")


def after_absent(effect: EffectRecord, now_us: int) -> Advice:
    """Advise what to do after a probe said Absent. That is final only when nothing of the call can arrive any more."""
    under_way = until_landed(effect, now_us)
    if under_way is not None:
        return under_way
    if is_unapproved(effect):
        return Advice(Action.FAIL, "it did not happen, and a person does not want it")
    if _is_fatal(effect):
        return Advice(Action.PERSON, _fatal(effect))
    if _used_up(effect):
        return Advice(Action.FAIL, f"it did not happen in {effect.attempt} attempts")
    return Advice(Action.AGAIN, "it did not happen, and nothing is under way any more")


def has_landed(effect: EffectRecord, now_us: int) -> bool:
    """Whether nothing of a call can arrive any more: its sender is quiet, and what was sent has had its time."""
    return until_landed(effect, now_us) is None


def until_landed(effect: EffectRecord, now_us: int) -> Advice | None:
    """Advise what to do while something of a call may still arrive; None when nothing can."""
    if effect.quiet_at is None:
        return look_again(effect, now_us, "it has not arrived, but its caller may still send it")
    landed_us = _us(effect.quiet_at) + effect.rule.lands_within
    if now_us >= landed_us:
        return None
    return Advice(Action.WAIT, f"a sent call may still arrive until {to_datetime(landed_us).isoformat()}", landed_us)


def look_again(effect: EffectRecord, now_us: int, reason: str) -> Advice:
    """Advise to ask the other side again when the doubt is twice as old, within bounds: asking now settled nothing.

    A person may settle it sooner. In a session nothing is asked until a caller acts or recovers.
    """
    age_us = now_us - _us(effect.dispatched_at or effect.at)
    again_us = now_us + min(max(age_us, LOOK_MIN_US), LOOK_MAX_US)
    when = f"at {to_datetime(again_us).isoformat()}"
    if effect.stream_kind == "session":
        when = "when somebody acts with its key, or recovers"
    said = f"{reason}; it is asked again {when}, or a person says"
    return Advice(Action.PROBE, said, again_us)


def _used_up(effect: EffectRecord) -> bool:
    """Whether the tool itself has failed as often as it may. Deaths and the like are not its answers."""
    said = effect.error is not None and effect.error.code not in MISHAPS
    return said and effect.failures > effect.rule.retries


def is_unapproved(effect: EffectRecord) -> bool:
    """Whether a person refused it after a restore, while nobody knows whether it was sent before that."""
    return effect.error is not None and effect.error.code == UNAPPROVED


def _is_fatal(effect: EffectRecord) -> bool:
    """Whether its senders died or were stopped so often that the machine must not try it once more by itself."""
    return effect.mishaps >= MISHAPS_MAX


def _fatal(effect: EffectRecord) -> str:
    return f"its sender died or was stopped {effect.mishaps} times"


def _us(instant: datetime) -> int:
    return instant_us(instant, 0)


def settle_with(effect: str) -> str:
    """The command that settles an effect. A person fills the verdict in: pasting the command as it stands settles nothing."""
    return f"`perdure settle {shlex.quote(effect)} VERDICT` (happened, absent or failed)"


def ways_out(effect: EffectRecord) -> str:
    """How a person settles an effect, and how to declare its tool so that the machine can next time."""
    settle = settle_with(effect.id)
    if effect.kind is not ToolKind.UNSAFE:
        return settle
    return (
        f'{settle}; next time declare what {effect.tool} is: @perdure.tool(kind="idempotent"), '
        f'@perdure.tool(kind="keyed") with a key= parameter, or @perdure.tool(probe=…)'
    )
