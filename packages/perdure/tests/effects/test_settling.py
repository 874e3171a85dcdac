"""The whole table of what is done about doubt, for every kind and every circumstance (docs/tools.md)."""

from __future__ import annotations

import itertools
import shlex

import msgspec
import pytest

from perdure.effects import settling
from perdure.effects.settling import (
    DIED,
    INTERRUPTED,
    OVERDUE,
    RESTORED,
    Action,
    advise,
    after_absent,
    look_again,
    settle_with,
    ways_out,
)
from perdure.model.instants import instant_us, to_datetime
from perdure.model.records.effects import EffectError, EffectRecord, EffectState, Rule, ToolKind
from perdure.model.refs import Ref

NOW = 1_800_000_000_000_000
KINDS = [kind for kind in ToolKind if kind is not ToolKind.READ]


def doubt(
    kind: ToolKind, *, attempt: int = 1, error: str | None = None, quiet_us: int | None = None, **rule: object
) -> EffectRecord:
    at = to_datetime(NOW - 1_000_000)
    return EffectRecord(
        7, "session", "s", "send", kind, EffectState.IN_DOUBT, "k", "d", {}, Rule(**rule), attempt, "h", None, None, None, 1,
        "me", at, at, None, None if quiet_us is None else to_datetime(quiet_us), None,
        None if error is None else EffectError(error, "said"), None, Ref("u", 7),
    )  # fmt: skip


def expected(kind: ToolKind, *, used_up: bool, forgotten: bool, can_probe: bool) -> Action:
    """The table, said once more in other words."""
    if kind is ToolKind.IDEMPOTENT:
        return Action.FAIL if used_up else Action.AGAIN
    if kind is ToolKind.KEYED and not (used_up or forgotten):
        return Action.AGAIN
    return Action.PROBE if can_probe and kind in (ToolKind.KEYED, ToolKind.PROBED) else Action.PERSON


@pytest.mark.parametrize(("used_up", "forgotten", "can_probe"), [*itertools.product([False, True], repeat=3)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_table(kind, used_up, forgotten, can_probe):
    effect = doubt(
        kind, attempt=3 if used_up else 2, error="OSError", retries=2, keeps_keys=1_000_000 if forgotten else 1_000_001
    )
    advice = advise(effect, NOW, can_probe=can_probe)
    assert advice.action is expected(kind, used_up=used_up, forgotten=forgotten, can_probe=can_probe)
    assert advice.reason


@pytest.mark.parametrize("code", [DIED, INTERRUPTED, RESTORED])
def test_what_is_not_the_tools_doing_uses_up_no_retry(code):
    assert advise(doubt(ToolKind.IDEMPOTENT, attempt=99, error=code), NOW, can_probe=False).action is Action.AGAIN


@pytest.mark.parametrize("code", [OVERDUE, "OSError"])
def test_what_is_the_tools_doing_does(code):
    """A tool that hangs for ever would be called for ever otherwise (P15)."""
    assert advise(doubt(ToolKind.IDEMPOTENT, attempt=99, error=code), NOW, can_probe=False).action is Action.FAIL


@pytest.mark.parametrize(
    ("quiet_us", "attempt", "action"),
    [
        (None, 1, Action.PROBE),
        (NOW, 1, Action.WAIT),
        (NOW - 59_999_999, 1, Action.WAIT),
        (NOW - 60_000_000, 1, Action.AGAIN),
        (NOW - 60_000_000, 2, Action.FAIL),
    ],
)
def test_absent_is_final_only_when_nothing_can_arrive_any_more(quiet_us, attempt, action):
    effect = doubt(ToolKind.PROBED, quiet_us=quiet_us, attempt=attempt, error="OSError", retries=1)
    advice = after_absent(effect, NOW)
    assert advice.action is action
    assert (advice.until_us is not None) == (action in (Action.WAIT, Action.PROBE))
    if quiet_us is not None and action is Action.WAIT:
        assert advice.until_us == quiet_us + 60_000_000


@pytest.mark.parametrize(
    ("age_us", "pause_us"),
    [(0, 1_000_000), (1_000_000, 1_000_000), (7_000_000, 7_000_000), (10**12, 600_000_000), (-5, 1_000_000)],
)
def test_it_is_looked_at_again_when_the_doubt_is_twice_as_old(age_us, pause_us):
    at_us = instant_us(doubt(ToolKind.PROBED).dispatched_at, 0)
    advice = look_again(msgspec.structs.replace(doubt(ToolKind.PROBED), stream_kind="run"), at_us + age_us, "no idea")
    assert (advice.action, advice.until_us) == (Action.PROBE, at_us + age_us + pause_us)
    assert "no idea; it is asked again at 20" in advice.reason


def test_in_a_session_nobody_promises_to_look_again():
    assert "again when somebody acts with its key, or recovers" in look_again(doubt(ToolKind.PROBED), NOW, "").reason


def test_a_command_that_is_pasted_as_it_stands_settles_nothing():
    command = settle_with("session:my shop's/7").split("`")[1]
    assert shlex.split(command) == ["perdure", "settle", "session:my shop's/7", "VERDICT"]


def test_an_unsafe_tool_is_told_what_it_could_have_said():
    for kind in KINDS:
        hint = ways_out(doubt(kind))
        assert "`perdure settle session:s/7 VERDICT` (happened, absent or failed)" in hint
        assert ("@perdure.tool(" in hint) == (kind is ToolKind.UNSAFE)


def test_the_control_a_mishap_that_counts_shows(monkeypatch):
    monkeypatch.setattr(settling, "MISHAPS", frozenset())
    assert advise(doubt(ToolKind.IDEMPOTENT, attempt=99, error=DIED), NOW, can_probe=False).action is Action.FAIL


@pytest.mark.parametrize(("mishaps", "action"), [(0, Action.FAIL), (1, Action.AGAIN), (4, Action.AGAIN)])
def test_only_what_the_tool_did_itself_uses_up_retries(mishaps, action):
    effect = msgspec.structs.replace(doubt(ToolKind.IDEMPOTENT, attempt=3, error="OSError", retries=2), mishaps=mishaps)
    assert advise(effect, NOW, can_probe=False).action is action


@pytest.mark.parametrize(
    ("kind", "can_probe", "action"),
    [
        (ToolKind.IDEMPOTENT, False, Action.PERSON),
        (ToolKind.KEYED, False, Action.PERSON),
        (ToolKind.KEYED, True, Action.PROBE),
        (ToolKind.PROBED, True, Action.PROBE),
    ],
)
def test_after_so_many_deaths_a_person_is_asked(kind, can_probe, action):
    fatal = msgspec.structs.replace(
        doubt(kind, attempt=5, error=DIED, quiet_us=NOW - 60_000_000), mishaps=settling.MISHAPS_MAX
    )
    assert advise(fatal, NOW, can_probe=can_probe).action is action
    assert after_absent(fatal, NOW).action is Action.PERSON
    once_less = msgspec.structs.replace(fatal, mishaps=settling.MISHAPS_MAX - 1)
    assert after_absent(once_less, NOW).action is Action.AGAIN


def test_keys_are_forgotten_so_long_after_the_first_dispatch():
    planned = doubt(ToolKind.KEYED, keeps_keys=1_000_000)  # a second ago
    assert advise(planned, NOW, can_probe=False).action is Action.PERSON
    sent = msgspec.structs.replace(planned, first_dispatched_at=to_datetime(NOW - 999_999))
    assert advise(sent, NOW, can_probe=False).action is Action.AGAIN
