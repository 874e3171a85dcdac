"""The contract of doubt: deadlines and late answers, probes, death, restores; and what must be allowed first (P4, P15)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from perdure.effects import ledger
from perdure.effects.ledger import Intent
from perdure.effects.tool import Refuse, RequireApproval, tool
from perdure.errors import Conflict, Failed, InDoubt, Invalid, KeyReused, Waiting
from perdure.handles.aio.store import AsyncStore
from perdure.model.records.effects import Absent, Declined, EffectError, EffectState, Happened, Unknown
from perdure.runtime.callers import caller_of
from perdure_testing.contract.aio.effects import CountingWorld
from perdure_testing.contract.aio.restored import put_back
from perdure_testing.openers import AsyncOpener


async def until(store: AsyncStore, condition: Callable[[], Any]) -> None:
    """Wait, within bounds, for what another thread does."""
    for _ in range(6000):
        if condition():
            return
        await caller_of(store).pause(0.01)
    raise AssertionError("it never came")


async def settled(store: AsyncStore, name: str, *states: str) -> None:
    """Wait until an effect is in one of these states."""
    for _ in range(6000):
        if (await store.effect(name)).state in states:
            return
        await caller_of(store).pause(0.01)
    raise AssertionError("it never was")


async def quiet(store: AsyncStore, name: str) -> None:
    """Wait until it is known that an effect can no longer be sent."""
    for _ in range(6000):
        if (await store.effect(name)).record.quiet_at is not None:
            return
        await caller_of(store).pause(0.01)
    raise AssertionError("it never was")


def probing(outside: CountingWorld, answers: list[Any], **rule: Any) -> Any:
    """A tool that fails in the middle, with a probe that gives these answers, the last one for ever."""

    async def look(to: str) -> Any:
        outside.seen(f"looked for {to}")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    @tool(probe=look, backoff="1ms", **rule)
    async def send(to: str) -> str:
        outside.seen(f"sent {to}")
        if outside.calls.count(f"sent {to}") == 1:
            raise OSError("reset")
        return f"{to}!"

    return send


class AsyncDoubtContract:
    """The fate of an effect whose outcome is not known."""

    # -- deadlines -------------------------------------------------------------------------------------------------

    async def test_a_late_answer_settles_its_own_doubt(self, opener: AsyncOpener) -> None:
        go, outside = threading.Event(), CountingWorld()

        def slow() -> str:
            go.wait(60)
            return outside.seen("late")

        send = tool(timeout=0.02)(slow)
        async with await opener() as store:
            session = await store.session("s")
            with pytest.raises(InDoubt, match=r"Overdue: no answer within 0\.02 s"):
                await session.act(send, key="k")
            (effect,) = await session.effects()
            assert (effect.state, effect.record.quiet_at) == ("in_doubt", None)  # its thread may still send
            go.set()
            await settled(store, effect.id, "committed")
            assert (await effect.refresh()).record.settled_by == "a late answer"
            assert await session.act(send, key="k") == "late"
            assert outside.count == 1
            assert (await store.verify()).ok

    async def test_a_late_no_fails_and_a_late_exception_is_quiet_from_then_on(self, opener: AsyncOpener) -> None:
        go = threading.Event()

        def slow(how: str) -> None:
            go.wait(60)
            raise {"no": ValueError, "doubt": OSError}[how](how)

        send = tool(timeout=0.02, fails=[ValueError])(slow)
        async with await opener() as store:
            session = await store.session("s")
            for how in ("no", "doubt"):
                with pytest.raises(InDoubt):
                    await session.act(send, how, key=how)
            go.set()
            said_no, doubt = await session.effects()
            await settled(store, said_no.id, "failed")
            await quiet(store, doubt.id)
            assert (await doubt.refresh()).state == "in_doubt"

    async def test_after_settlement_a_late_answer_is_noted_and_changes_nothing(self, opener: AsyncOpener) -> None:
        go = threading.Event()

        def slow() -> str:
            go.wait(60)
            return "late"

        async with await opener() as store:
            session = await store.session("s")
            with pytest.raises(InDoubt):
                await session.act(tool(timeout=0.02)(slow), key="k")
            (effect,) = await session.effects()
            await effect.settle(Declined("give it up"), by="ann")
            go.set()
            late = await session.events(kind="effect.late")
            for _ in range(6000):
                if late:
                    break
                await caller_of(store).pause(0.01)
                late = await session.events(kind="effect.late")
            assert late[0].data["said"] == "commit"
            assert ((await effect.refresh()).state, effect.record.settled_by) == ("failed", "ann")
            assert (await store.verify()).ok

    async def test_a_late_answer_that_cannot_be_kept_is_known_to_have_happened(self, opener: AsyncOpener) -> None:
        go = threading.Event()

        def slow() -> object:
            go.wait(60)
            return object()

        async with await opener() as store:
            session = await store.session("s")
            with pytest.raises(InDoubt):
                await session.act(tool(timeout=0.02)(slow), key="k")
            go.set()
            (effect,) = await session.effects()
            await settled(store, effect.id, "committed")
            assert (await effect.refresh()).result["unstorable"] == "object"

    # async-only
    async def test_a_cancelled_coroutine_is_quiet(self, opener: AsyncOpener) -> None:
        import asyncio  # noqa: PLC0415 - only here

        @tool(timeout=0.02)
        async def slow() -> None:
            await asyncio.sleep(60)

        async with await opener() as store:
            session = await store.session("s")
            with pytest.raises(InDoubt):
                await session.act(slow, key="k")
            (effect,) = await session.effects()
            assert effect.record.quiet_at is not None

    async def test_whoever_cancels_an_act_leaves_doubt_and_a_thread_is_not_quiet(self, opener: AsyncOpener) -> None:
        import asyncio  # noqa: PLC0415 - only here

        go, outside = threading.Event(), CountingWorld()

        def slow() -> str:
            outside.seen()
            go.wait(60)
            return "late"

        async with await opener() as store:
            session = await store.session("s")
            task = asyncio.ensure_future(session.act(tool(slow), key="k"))
            await until(store, lambda: outside.count)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            (effect,) = await session.effects()
            assert (effect.state, effect.record.quiet_at) == ("in_doubt", None)
            go.set()
            await settled(store, effect.id, "committed")

    # end

    async def test_what_hangs_for_ever_is_given_up_after_its_retries(self, opener: AsyncOpener) -> None:
        go, outside = threading.Event(), CountingWorld()

        def hangs() -> None:
            outside.seen()
            go.wait(60)

        async with await opener() as store:
            session = await store.session("s")
            with pytest.raises(Failed) as given_up:
                await session.act(tool(kind="idempotent", timeout=0.02, retries=2, backoff="1ms")(hangs), key="k")
            go.set()
            await until(store, lambda: not [t for t in threading.enumerate() if t.name == "perdure-call"])
            assert (given_up.value.code, outside.count) == ("Overdue", 3)

    # -- probes ----------------------------------------------------------------------------------------------------

    async def test_a_probe_that_finds_it_settles_it(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()
        async with await opener() as store:
            session = await store.session("s")
            send = probing(outside, [Happened("found")])
            assert await session.act(send, "a", key="k") == "found"
            assert outside.calls == ["sent a", "looked for a"]
            assert (await session.effects())[0].record.settled_by == "probe"

    async def test_a_probe_that_says_no_fails_it(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()
        async with await opener() as store:
            session = await store.session("s")
            with pytest.raises(Failed, match="closed for good"):
                await session.act(probing(outside, [Declined("closed for good")]), "a", key="k")
            assert outside.calls == ["sent a", "looked for a"]

    @pytest.mark.parametrize("answer", [Unknown("remote unreachable"), True, None, "yes"])
    async def test_a_probe_that_cannot_tell_leaves_it_to_a_person(self, opener: AsyncOpener, answer: Any) -> None:
        outside = CountingWorld()
        async with await opener() as store:
            session = await store.session("s")
            with pytest.raises(InDoubt, match=r"remote unreachable|the probe returned"):
                await session.act(probing(outside, [answer]), "a", key="k")
            assert outside.calls == ["sent a", "looked for a"]

    async def test_a_probe_that_raises_has_told_nothing(self, opener: AsyncOpener) -> None:
        async def look() -> Absent:
            raise ZeroDivisionError("oh")

        @tool(probe=look)
        async def send() -> None:
            raise OSError("reset")

        async with await opener() as store:
            with pytest.raises(InDoubt, match="the probe failed: ZeroDivisionError: oh"):
                await (await store.session("s")).act(send, key="k")

    async def test_absent_is_final_only_when_what_was_sent_has_had_its_time(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()
        async with await opener() as store:
            session = await store.session("s")
            send = probing(outside, [Absent()], lands_within="30s", retries=1)
            with pytest.raises(InDoubt) as early:
                await session.act(send, "a", key="k")
            assert early.value.facts["action"] == "wait"
            assert early.value.facts["until"] == opener.clock.now_us + 30_000_000
            opener.clock.advance("29s")
            with pytest.raises(InDoubt):
                await session.act(send, "a", key="k")
            assert outside.calls.count("sent a") == 1
            opener.clock.advance("1s")
            assert await session.act(send, "a", key="k") == "a!"
            assert outside.calls.count("sent a") == 2
            (effect,) = await session.effects()
            assert (effect.record.attempt, effect.state) == (2, "committed")

    async def test_absent_is_not_final_while_the_caller_may_still_send(self, opener: AsyncOpener) -> None:
        go, outside = threading.Event(), CountingWorld()

        def slow() -> str:
            outside.seen()
            go.wait(60)
            return "late"

        send = tool(timeout=0.02, lands_within=0, retries=5, probe=Absent)(slow)
        async with await opener() as store:
            session = await store.session("s")
            refusals: list[bool] = []
            while refusals.count(True) < 2 and len(refusals) < 200:  # on a busy machine the probe may be late, too
                with pytest.raises(InDoubt) as doubt:
                    await session.act(send, key="k")
                refusals.append("its caller may still send it" in str(doubt.value))
                opener.clock.advance("1h")
            assert refusals.count(True) == 2
            go.set()
            (effect,) = await session.effects()
            await settled(store, effect.id, "committed")
            assert await session.act(send, key="k") == "late"
            assert outside.count == 1

    async def test_a_probe_that_finds_nothing_often_enough_gives_up(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        @tool(probe=Absent, lands_within=0, retries=2, backoff="1ms")
        async def send() -> None:
            outside.seen()
            raise OSError("reset")

        async with await opener() as store:
            session = await store.session("s")
            with pytest.raises(Failed) as refused:
                await session.act(send, key="k")
            assert (refused.value.code, outside.count) == ("OSError", 3)

    # -- other stores ----------------------------------------------------------------------------------------------

    async def test_who_left_without_a_word_leaves_doubt(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("a memory store dies with its process")
        outside = CountingWorld()

        @tool(kind="idempotent")
        async def send() -> str:
            return outside.seen("again")

        async with await opener() as a, await opener() as b:
            one, other = await a.session("s"), await b.session("s")
            await (await one.begin(send, key="k")).dispatch()
            with pytest.raises(Conflict) as alive:
                await other.act(send, key="k")
            assert alive.value.facts["state"] == "dispatched"
            assert (await other.begin(send, key="k")).state == "dispatched"
            opener.clock.advance("1h")  # no heartbeat comes any more
            assert (await other.begin(send, key="k")).state == "in_doubt"
            assert await other.act(send, key="k") == "again"
            (effect,) = await other.effects()
            assert effect.record.attempt == 2

    async def test_what_the_dead_left_is_listed_with_what_is_in_doubt_in_one_order(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("a memory store dies with its process")
        async with await opener() as a, await opener() as b:
            dead, here = await a.session("gone"), await b.session("here")
            tools = ["t1", "t2", "t3", "t4", "t5"]
            for name in tools:
                opener.clock.advance("1s")
                effect = await (await (dead if name in ("t2", "t4") else here).begin(name, key=name)).dispatch()
                if name in ("t1", "t5"):
                    why = EffectError("OSError", "reset")
                    await here._write(ledger.doubt, effect.record.seq, effect.record.attempt, why)
            # The sender of the others lives.
            assert [effect.tool for effect in await b.effects(in_doubt=True)] == ["t5", "t1"]
            opener.clock.advance("1h")  # no heartbeat comes any more
            await b.beat()
            ways: list[dict[str, Any]] = [{"in_doubt": True}, {"errors": True}]
            for filters in ways:
                assert [effect.tool for effect in await b.effects(**filters)] == ["t5", "t4", "t2", "t1"]
                page = await b.effects(**filters, limit=3)
                rest = await b.effects(**filters, limit=3, after=page.next)
                assert ([row.tool for row in [*page, *rest]], rest.next) == (["t5", "t4", "t2", "t1"], None)
                assert [effect.tool for effect in await b.effects(**filters, tool="t2")] == ["t2"]
            assert [await effect.is_left() for effect in await b.effects(in_doubt=True)] == [False, True, True, False]
            assert [effect.tool for effect in await b.effects(errors=True, state="in_doubt")] == ["t5", "t1"]
            with pytest.raises(Invalid, match="in_doubt"):
                await b.effects(in_doubt=True, state="failed")

    async def test_what_went_wrong_is_listed_by_when_it_went_wrong(self, opener: AsyncOpener) -> None:
        """An effect that was planned long ago and failed just now went wrong just now, and so did one that was sent just now."""
        async with await opener() as store:
            session = await store.session("s")
            for name in ("t1", "t2", "t3"):
                await session.begin(name, key=name)
            opener.clock.advance("2h")
            for name in ("t3", "t1", "t2"):
                opener.clock.advance("1s")
                sent = await (await session.begin(name, key=name)).dispatch()
                await session._write(ledger.doubt, sent.record.seq, 1, EffectError("OSError", "reset"))
            assert [effect.tool for effect in await store.effects(errors=True, since="1h")] == ["t2", "t1", "t3"]
            assert await store.effects(errors=True, until="1h") == []
            assert [effect.tool for effect in await store.effects(in_doubt=True, until="1h")] == ["t3", "t2", "t1"]
            page = await store.effects(errors=True, limit=2)
            rest = await store.effects(errors=True, limit=2, after=page.next)
            assert ([row.tool for row in [*page, *rest]], rest.next) == (["t2", "t1", "t3"], None)

    async def test_what_a_dead_one_was_sending_went_wrong_after_it_was_sent(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("a memory store dies with its process")
        async with await opener() as a, await opener() as b:
            dead = await a.session("gone")
            assert (await dead.begin("late", key="late")).state == "planned"
            opener.clock.advance("2h")
            await (await dead.begin("late", key="late")).dispatch()
            opener.clock.advance("30m")  # no heartbeat comes any more
            await b.beat()
            assert [effect.tool for effect in await b.effects(errors=True, since="1h")] == ["late"]
            assert await b.effects(errors=True, until="1h") == []

    async def test_a_person_can_settle_what_a_dead_one_left(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("a memory store dies with its process")
        async with await opener() as a, await opener() as b:
            sent = await (await (await a.session("s")).begin("t", key="k")).dispatch()
            theirs = await b.effect(sent.id)
            with pytest.raises(Conflict):
                await theirs.settle(Happened(1))
            opener.clock.advance("1h")
            assert (await theirs.settle(Happened(1), by="ann")).state == "committed"

    async def test_after_a_restore_what_was_begun_is_doubt(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        @tool
        async def send() -> None:
            outside.seen()

        async with await opener() as store:
            session = await store.session("s")
            planned = await session.begin(send, key="planned")
            sent = await (await session.begin(send, key="sent")).dispatch()
            put_back(store)
            with pytest.raises(Conflict, match="restored"):
                await planned.dispatch()
            for effect in (planned, sent):
                with pytest.raises(InDoubt, match="Restored"):
                    await session.act(send, key=effect.key)
                assert (await effect.refresh()).state is EffectState.IN_DOUBT
            assert outside.count == 0
            await planned.settle(Absent(), by="ann")
            await session.act(send, key="planned")  # that was said after the restore
            assert outside.count == 1


class AsyncGuardsContract:
    """Effects that must be allowed before they happen."""

    async def test_verdicts_of_guards_are_recorded_also_when_they_pass(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        def only_small(intent: Intent, actor: str) -> Any:
            outside.seen((intent.tool, actor))
            return Refuse("too much") if intent.args["n"] > 9 else None

        @tool(guards=[only_small])
        async def pay(n: int) -> int:
            return n

        async with await opener(actor="ann") as store:
            session = await store.session("s")
            assert await session.act(pay, 1, key="a") == 1
            with pytest.raises(Failed) as refused:
                await session.act(pay, 10, key="b")
            assert (refused.value.code, refused.value.message) == ("Refused", "too much")
            assert outside.calls == [("pay", "ann")] * 2
            passed, planned = (
                await session.events(kind="effect.dispatched"),
                await session.events(kind="effect.planned"),
            )
            assert passed[0].data["guards"] == [{"guard": "only_small", "said": "pass"}]
            assert planned[0].data["guards"] == [{"guard": "only_small", "said": "refuse", "why": "too much"}]
            assert [effect.state for effect in await session.effects()] == ["committed", "withdrawn"]

    async def test_a_guard_that_says_something_else_is_refused(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        @tool(guards=[lambda *_: True])
        async def pay() -> None:
            outside.seen()

        async with await opener() as store:
            with pytest.raises(Invalid) as wrong:
                await (await store.session("s")).act(pay)
            assert (wrong.value.path, outside.count) == ("guard", 0)

    @pytest.mark.parametrize("by_guard", [True, False])
    async def test_an_approval_is_waited_for_and_names_who_gave_it(self, opener: AsyncOpener, by_guard: bool) -> None:
        outside = CountingWorld()

        @tool(guards=[lambda *_: RequireApproval("Really?")] if by_guard else [])
        async def pay(n: int) -> int:
            return outside.seen(n)

        approve: Any = {} if by_guard else {"approve": "Really?"}
        async with await opener() as store:
            session = await store.session("s")
            with pytest.raises(Waiting) as waiting:
                await session.act(pay, 5, key="k", **approve)
            with pytest.raises(Waiting):
                await session.act(pay, 5, key="k", **approve)
            (ask,) = await store.asks()
            assert waiting.value.facts["asks"] == [ask.id]
            assert (ask.question, ask.choices, ask.detail) == (
                "Really?",
                ("approve", "refuse"),
                {"tool": "pay", "args": {"n": 5}},
            )
            with pytest.raises(Invalid) as no_choice:
                await store.answer(ask.id, "maybe", by="ann")
            assert no_choice.value.path == "answer"
            await store.answer(ask.id, "approve", by="ann")
            with pytest.raises(Conflict, match="is met already, by ann"):
                await store.answer(ask.id, "refuse", by="bob")
            with pytest.raises(KeyReused):  # other arguments: another call, not approved
                await session.act(pay, 6, key="k", **approve)
            assert await session.act(pay, 5, key="k", **approve) == 5
            assert await session.act(pay, 5, key="k", **approve) == 5
            assert outside.calls == [5]
            with pytest.raises(Waiting):  # the approval was for that call alone
                await session.act(pay, 5, key="another", **approve)
            assert (await store.verify()).ok

    async def test_no_answer_in_time_is_a_no(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        @tool
        async def pay() -> None:
            outside.seen()

        async with await opener() as store:
            session = await store.session("s")
            for key, answer in (("k", None), ("r", "refuse")):
                with pytest.raises(Waiting):
                    await session.act(pay, key=key, approve="Really?", approve_within="1h")
                (ask,) = await store.asks()
                if answer is None:
                    opener.clock.advance("1h")
                    with pytest.raises(Conflict, match="is over"):
                        await store.answer(ask.id, "approve")
                else:
                    await store.answer(ask.id, answer, by="ann")
                with pytest.raises(Failed) as refused:
                    await session.act(pay, key=key, approve="Really?", approve_within="1h")
                assert refused.value.message == ("nobody approved in time" if answer is None else "ann did not approve")
            assert outside.count == 0
            assert [effect.state for effect in await session.effects()] == ["withdrawn"] * 2
