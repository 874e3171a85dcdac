"""The contract of the effect ledger: every arrow and no other (P2, P3, P4). The verbs that act through it are in `acting`."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest

from perdure.effects import ledger
from perdure.effects.ledger import ARROWS, Intent, Outcome, Sender
from perdure.errors import Conflict
from perdure.handles.aio.effects import AsyncEffect
from perdure.handles.aio.session import AsyncSession
from perdure.model.ids import new_uid
from perdure.model.records.effects import (
    EffectError,
    EffectRecord,
    EffectState,
    Rule,
    ToolKind,
)
from perdure_testing.openers import AsyncOpener
from perdure_testing.races import AsyncRace

SENDER = Sender("f" * 32, 1)
NO = EffectError("No", "no")
WAYS = {  # arrows that lead to each state from nothing
    "planned": ["plan"],
    "dispatched": ["plan", "dispatch"],
    "in_doubt": ["plan", "dispatch", "doubt"],
    "committed": ["plan", "dispatch", "commit"],
    "failed": ["plan", "dispatch", "fail"],
    "withdrawn": ["plan", "withdraw"],
    "undoing": ["plan", "dispatch", "commit", "undo"],
    "undone": ["plan", "dispatch", "commit", "undo", "undone"],
}
NOTED = {"commit", "fail", "absent"}  # a word after settlement is recorded and changes nothing
QUIET = {  # arrows that lead nowhere new where they stand already, and write nothing
    ("withdraw", "withdrawn"),
    ("undo", "undoing"),
    ("undo", "undone"),
}


class CountingWorld:
    """The outside world, as a tool's counter sees it."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def seen(self, value: Any = None) -> Any:
        """Something arrived."""
        self.calls.append(value)
        return value

    @property
    def count(self) -> int:
        """How much arrived."""
        return len(self.calls)


def intent(key: str, **changes: Any) -> Intent:
    """An effect that may be called again, so that no arrow is refused because of its kind."""
    fields: dict[str, Any] = {
        "tool": "t",
        "kind": ToolKind.IDEMPOTENT,
        "digest": "d",
        "args": {},
        "rule": Rule(retries=9),
    }
    return Intent(key=key, **(fields | changes))


def follow(tx: Any, stream: Any, arrow: str, seq: int) -> EffectRecord | None:
    """Follow one arrow, as whoever acts would."""
    effect = ledger.effect(tx, stream, seq) if seq else None
    attempt = effect.attempt if effect else 0
    match arrow:
        case "plan":
            return ledger.plan(tx, stream, intent(new_uid().hex()), 1)
        case "dispatch":
            return ledger.begin_next_attempt(tx, stream, seq, SENDER)
        case "again":
            return ledger.begin_attempt_again(tx, stream, seq, attempt, SENDER)
        case "doubt":
            return ledger.doubt(tx, stream, seq, attempt, NO)
        case "withdraw":
            return ledger.withdraw(tx, stream, seq, NO)
        case "retry":
            return ledger.revive(tx, stream, seq)
        case "undo":
            ledger.begin_undo(tx, stream, seq, intent(f"undo {seq}", tool="u", digest="u"), 1)
        case "undone":
            undo = ledger.find(tx, stream, f"undo {seq}") or ledger.plan(tx, stream, intent("u", undoes=seq), 1)
            sent = ledger.begin_next_attempt(tx, stream, undo.seq, SENDER)
            ledger.commit(tx, stream, sent.seq, sent.attempt, Outcome())
        case _:
            outcome = Outcome({"n": 1}) if arrow == "commit" else Outcome(error=NO)
            return getattr(ledger, arrow)(tx, stream, seq, attempt, outcome)
    return ledger.effect(tx, stream, seq)


async def effect_in(session: AsyncSession, state: str) -> AsyncEffect:
    """An effect in this state."""
    seq = 0
    for arrow in WAYS[state]:
        record = await session._write(follow, arrow, seq)
        assert record is not None
        seq = record.seq
    return next(effect for effect in await session.effects() if effect.record.seq == seq)


async def follow_as_seen(session: AsyncSession, effect: AsyncEffect, arrow: str) -> None:
    """Follow an arrow, if the effect stands as it was last seen."""
    await session._write(_expecting, effect.record, arrow)


def say_of(tx: Any, stream: Any, sent: EffectRecord, arrow: str) -> EffectRecord:
    """Say what became of this attempt, whatever attempt the effect is at by now. own: as the caller that sent it."""
    outcome = Outcome({"n": 1}) if arrow in ("commit", "own") else Outcome(error=NO)
    if arrow == "own":
        return ledger.commit_own(tx, stream, sent, outcome)
    if arrow == "doubt":
        return ledger.doubt(tx, stream, sent.seq, sent.attempt, NO, quiet=True)
    return getattr(ledger, arrow)(tx, stream, sent.seq, sent.attempt, outcome)


async def events_of(session: AsyncSession) -> int:
    """How many events it has."""
    return len(await session.events(limit=1_000))


class AsyncLedgerContract:
    """The state table, generated from the drawing."""

    def test_every_state_can_be_reached_by_the_arrows_of_the_drawing(self) -> None:
        assert WAYS.keys() == {state.value for state in EffectState}
        for state, arrows in WAYS.items():
            at: EffectState | None = None
            for arrow in arrows:
                assert arrow == "plan" or at in ARROWS[arrow].sources
                at = ARROWS[arrow].target
            assert at == state

    @pytest.mark.parametrize("state", [state.value for state in EffectState])
    async def test_every_arrow_and_no_other(self, opener: AsyncOpener, state: str) -> None:
        async with await opener() as store:
            for arrow in [name for name in ARROWS if name != "plan"]:
                await self.check_arrow(await store.session(f"{arrow} from {state}"), arrow, state)
            assert (await store.verify()).ok

    async def check_arrow(self, session: AsyncSession, arrow: str, state: str) -> None:
        """Follow one arrow from one state; the session, and so every failure, is named after both."""
        effect = await effect_in(session, state)
        before, here = await events_of(session), session.name
        leads = EffectState(state) in self.sources(arrow)
        if leads:
            await session._write(follow, arrow, effect.record.seq)
            assert (await effect.refresh()).state is ARROWS[arrow].target, here
            kinds = [e.kind for e in await session.events(after=0, limit=1_000)]
            assert kinds.count(ARROWS[arrow].kind) > 0, here
        elif (arrow, state) in QUIET or arrow in ("doubt", "retry"):
            await session._write(follow, arrow, effect.record.seq)
        elif arrow in NOTED and effect.record.attempt:
            await session._write(follow, arrow, effect.record.seq)
            late = [event for event in await session.events(limit=1_000) if event.kind == "effect.late"]
            assert len(late) == (ARROWS[arrow].target != state), here
        else:
            await self.check_refused(session, arrow, effect)
            assert await events_of(session) == before, here
        assert leads or (await effect.refresh()).state == state, here

    async def check_refused(self, session: AsyncSession, arrow: str, effect: AsyncEffect) -> None:
        """Follow an arrow that does not begin here."""
        refused = ""
        try:
            await session._write(follow, arrow, effect.record.seq)
        except Conflict as error:
            refused = error.path
        assert refused == "effect", session.name

    @staticmethod
    def sources(arrow: str) -> set[EffectState]:
        """Where an arrow may begin here: doubt that stands already is not written again unless it is now proved quiet, and
        what may still arrive is not undone.
        """
        unheard = {"doubt": {EffectState.IN_DOUBT}, "undo": {EffectState.IN_DOUBT, EffectState.FAILED}}
        return set(ARROWS[arrow].sources) - unheard.get(arrow, set())

    async def test_a_word_about_an_earlier_attempt_settles_no_later_one(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            for arrow in ("commit", "own", "fail", "absent", "doubt"):
                session = await store.session(arrow)
                effect = await effect_in(session, "dispatched")
                sent = effect.record
                for word in ("doubt", "again"):
                    await session._write(follow, word, sent.seq)
                await session._write(say_of, sent, arrow)
                record = (await effect.refresh()).record
                assert (record.state, record.attempt, record.quiet_at) == (EffectState.DISPATCHED, 2, None), arrow
                noted = [
                    (event.data["attempt"], event.data["said"]) for event in await session.events(kind="effect.late")
                ]
                assert noted == ([] if arrow == "doubt" else [(1, arrow.replace("own", "commit"))])

    async def test_only_the_very_dispatch_is_taken_back(self, opener: AsyncOpener) -> None:
        """A caller that was stopped may find another one's dispatch under its key: that one may be at its call."""
        async with await opener() as store:
            session = await store.session("s")
            effect = await effect_in(session, "dispatched")
            sent, unsent = effect.record, Outcome(error=NO, by=ledger.UNSENT)
            before = await events_of(session)
            for other in ({"attempt": 2}, {"holder": "another"}, {"epoch": 2}, {"dispatched_at": None}, {"seq": 99}):
                await session._write(ledger.take_back, msgspec.structs.replace(sent, **other), unsent)
                assert await events_of(session) == before, other
            await session._write(ledger.take_back, sent, unsent)
            assert ((await effect.refresh()).state, effect.record.attempt) == (EffectState.PLANNED, 1)

    async def test_two_at_once_follow_an_arrow_once(self, opener: AsyncOpener) -> None:
        async with await opener() as x, await opener() if opener.shared else x as y:
            one, other = await x.session("s"), await y.session("s")
            for arrow, state in (("dispatch", "planned"), ("again", "in_doubt")):
                for _ in range(4):
                    effect = await effect_in(one, state)
                    calls = [partial(follow_as_seen, opened, effect, arrow) for opened in (one, other)]
                    outcomes = await AsyncRace.between(*calls)
                    assert len(outcomes.won) == 1
                    assert type(outcomes.refused[0]) is Conflict
                    assert (await effect.refresh()).record.attempt == effect.record.attempt
                    assert effect.state is EffectState.DISPATCHED

    async def test_a_probe_that_proves_quiet_is_written_once(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            effect = await effect_in(session, "in_doubt")
            assert effect.record.quiet_at is None
            for _ in range(2):
                await session._write(_quiet, effect.record)
            events = [event.kind for event in await session.events(limit=1_000)]
            assert events.count("effect.doubted") == 2
            assert (await effect.refresh()).record.quiet_at is not None


def _expecting(tx: Any, stream: Any, record: EffectRecord, arrow: str) -> EffectRecord | None:
    """The arrow, from the attempt that was seen before the race."""
    if arrow == "again":
        return ledger.begin_attempt_again(tx, stream, record.seq, record.attempt, SENDER)
    return follow(tx, stream, arrow, record.seq)


def _quiet(tx: Any, stream: Any, record: EffectRecord) -> EffectRecord:
    return ledger.doubt(tx, stream, record.seq, record.attempt, NO, quiet=True)
