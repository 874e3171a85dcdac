"""The contract of a model's batch: planned with its answer, in N + 1 commits, each call once; and of limits (P2, P14, P15)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from perdure.effects.tool import Refuse, RequireApproval, tool
from perdure.errors import Failed, InDoubt, Invalid, KeyReused, Waiting
from perdure.handles.aio.run import AsyncRun
from perdure.handles.aio.session import AsyncSession
from perdure.model.crash_points import arm
from perdure.model.records.conversation import Call
from perdure.model.records.effects import Answer, EffectError, Happened
from perdure_testing.contract.aio.effects import CountingWorld
from perdure_testing.contract.aio.runs import driven, program
from perdure_testing.openers import AsyncOpener
from perdure_testing.races import AsyncRace


class Shop:
    """Tools that count what arrives, and calls of them as a model makes them."""

    def __init__(self) -> None:
        self.outside = CountingWorld()
        record_call = self.outside.seen

        @tool(kind="idempotent")
        async def pay(n: int) -> str:
            return record_call(f"paid {n}")

        @tool
        async def ship(n: int) -> str:
            record_call(f"shipped {n}")
            if n < 0:
                raise RuntimeError("the line went dead")
            return f"shipped {n}"

        @tool
        async def cancel(n: int) -> str:
            raise Failed(f"{n} is gone already")

        @tool(kind="read")
        async def look(n: int) -> dict[str, int]:
            record_call(f"looked {n}")
            return {"n": 10 // n}

        self.tools = [pay, ship, cancel, look]

    @property
    def calls(self) -> list[Any]:
        """What arrived."""
        return self.outside.calls


@contextmanager
def counting() -> Iterator[list[None]]:
    """Counts the commits of this process."""
    commits: list[None] = []
    disarm = arm("lane.after_commit", lambda: commits.append(None))
    try:
        yield commits
    finally:
        disarm()


async def last(handle: AsyncSession) -> int:
    """The number of its last event."""
    return max((event.seq for event in await handle.events(after=0, limit=1_000)), default=0)


class AsyncBatchContract:
    """`respond`, in sessions and in runs."""

    @pytest.mark.parametrize("count", [1, 2, 5])
    async def test_n_calls_take_n_and_one_commits(self, opener: AsyncOpener, count: int) -> None:
        shop = Shop()
        async with await opener() as store:
            session = await store.session("s")
            await session.say("user", "go")
            calls = [Call(f"c{n}", "pay", {"n": n}) for n in range(count)]
            with counting() as commits:
                answers = await session.respond("At once", calls=calls, tools=shop.tools)
            assert len(commits) == count + 1
            assert answers == [Answer(f"c{n}", "pay", f"paid {n}") for n in range(count)]
            assert shop.calls == [f"paid {n}" for n in range(count)]
            pending = await session.pending()
            assert pending is not None
            assert pending.kind == "answer"  # of the model, to its results
            turns = await session.turns(last=count + 1)
            assert [turn.role for turn in turns] == ["assistant"] + ["tool"] * count
            assert await session.respond("At once", calls=calls, tools=shop.tools) == answers
            assert len(shop.calls) == count
            assert (await store.verify()).ok

    async def test_all_calls_are_known_before_the_first_is_sent(self, opener: AsyncOpener) -> None:
        states: list[list[tuple[str, str]]] = []
        async with await opener() as store:
            session = await store.session("s")

            @tool(kind="idempotent")
            async def note(n: int) -> int:
                states.append([(effect.record.call or "", effect.state.value) for effect in await session.effects()])
                return n

            await session.respond(calls=[Call("a", "note", {"n": 1}), Call("b", "note", {"n": 2})], tools=[note])
        assert states == [[("a", "dispatched"), ("b", "planned")], [("a", "committed"), ("b", "dispatched")]]

    async def test_what_a_model_gets_wrong_is_answered_and_the_rest_goes_on(self, opener: AsyncOpener) -> None:
        shop = Shop()
        calls = [
            Call("a", "nothing", {}), Call("b", "pay", {"m": 1}), Call("c", "pay", "all"), Call("d", "cancel", {"n": 4}),
            Call("e", "look", {"n": 0}), Call("f", "look", {"n": 5}), Call("g", "pay", {"n": 7}),
        ]  # fmt: skip
        async with await opener() as store:
            session = await store.session("s")
            answers = await session.respond("Well", calls=calls, tools=shop.tools)
            codes = [answer.error.code if answer.error else answer.result for answer in answers]
            assert codes == ["NotFound", "Invalid", "Invalid", "Failed", "ZeroDivisionError", {"n": 2}, "paid 7"]
            assert "there is no tool 'nothing'; there are pay, ship" in str(answers[0].error)
            assert shop.calls == ["looked 0", "looked 5", "paid 7"]
            again = await session.respond("Well", calls=calls, tools=shop.tools)
            assert again == answers
            assert len(shop.calls) == 3
            results = {turn.call: turn.error for turn in await session.turns(last=20) if turn.call}
            assert results == {"a": True, "b": True, "c": True, "d": True, "e": True, "f": False, "g": False}
            assert len(await session.transcript(format="openai")) == 8
            assert len(await session.effects()) == 2

    async def test_doubt_in_the_middle_leaves_the_rest_planned_and_the_same_again_goes_on(
        self, opener: AsyncOpener
    ) -> None:
        shop = Shop()
        calls = [Call("a", "pay", {"n": 1}), Call("b", "ship", {"n": -1}), Call("c", "pay", {"n": 3})]
        async with await opener() as store:
            session = await store.session("s")
            for _ in range(2):
                with pytest.raises(InDoubt):
                    await session.respond("So", calls=calls, tools=shop.tools)
            effects = await session.effects()
            assert [effect.state for effect in effects] == ["committed", "in_doubt", "planned"]
            await effects[1].settle(Happened("it did"))
            answers = await session.respond("So", calls=calls, tools=shop.tools)
            assert [answer.result for answer in answers] == ["paid 1", "it did", "paid 3"]
            assert shop.calls == ["paid 1", "shipped -1", "paid 3"]
            with pytest.raises(KeyReused):
                await session.respond("Other words", calls=calls, tools=shop.tools)
            assert (await store.verify()).ok

    @pytest.mark.parametrize("how", ["respond", "respond under a key", "say"])
    async def test_a_loop_goes_on_with_what_is_pending_whatever_key_its_turn_had(
        self, opener: AsyncOpener, how: str
    ) -> None:
        """A resuming caller has `pending` and no more: the calls say which turn it is."""
        shop = Shop()
        calls = [Call("a", "look", {"n": 5}), Call("b", "ship", {"n": -1}), Call("c", "pay", {"n": 3})]
        async with await opener() as store:
            session = await store.session("s")
            if how == "say":
                await session.say("assistant", "So", calls=calls)
            else:
                key = "answer-1" if how == "respond under a key" else None
                with pytest.raises(InDoubt):
                    await session.respond("So", calls=calls, tools=shop.tools, key=key)
                await (await session.effects())[0].settle(Happened("it did"))
            pending = await session.pending()
            assert pending is not None
            assert pending.turn.key == ("answer-1" if how == "respond under a key" else None)
            with pytest.raises(KeyReused) as parted:
                await session.respond(pending.turn.content, calls=calls[2:], tools=shop.tools)
            assert parted.value.facts["seq"] == pending.turn.seq
            assert "calls=turn.calls" in (parted.value.hint or "")
            if how == "say":
                with pytest.raises(InDoubt):
                    await session.respond(pending.turn.content, calls=pending.turn.calls, tools=shop.tools)
                await (await session.effects())[0].settle(Happened("it did"))
            answers = await session.respond(pending.turn.content, calls=pending.turn.calls, tools=shop.tools)
            assert [answer.result for answer in answers] == [{"n": 2}, "it did", "paid 3"]
            assert shop.calls == ["looked 5", "shipped -1", "paid 3"]
            assert len([turn for turn in await session.turns() if turn.calls]) == 1
            assert (await store.verify()).ok

    async def test_guards_are_asked_about_each_call(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        def wary(intent: Any, _actor: str) -> Any:
            n = intent.args["n"]
            return Refuse("too much") if n > 9 else RequireApproval("Really?") if n > 5 else None

        @tool(kind="idempotent", guards=[wary])
        async def pay(n: int) -> str:
            return outside.seen(f"paid {n}")

        calls = [
            Call("a", "pay", {"n": 10}),
            Call("b", "pay", {"n": 1}),
            Call("c", "pay", {"n": 6}),
            Call("d", "pay", {"n": 2}),
        ]
        async with await opener() as store:
            session = await store.session("s")
            with pytest.raises(Waiting) as waiting:
                await session.respond(calls=calls, tools=[pay])
            assert outside.calls == ["paid 1"]
            await store.answer(waiting.value.facts["asks"][0], "approve", by="bob")
            answers = await session.respond(calls=calls, tools=[pay])
            assert [answer.result or str(answer.error) for answer in answers] == [
                "Refused: too much",
                "paid 1",
                "paid 6",
                "paid 2",
            ]
            assert outside.calls == ["paid 1", "paid 6", "paid 2"]

    @pytest.mark.parametrize("how", ["raises", "is no verdict"])
    async def test_a_guard_that_fails_refuses_the_call_and_the_answer_is_kept(
        self, opener: AsyncOpener, how: str
    ) -> None:
        """A model was paid for it."""
        outside = CountingWorld()

        def broken(intent: Any, _actor: str) -> Any:
            if how == "raises" and intent.args["n"] == 1:
                raise LookupError("no such list")
            return "yes" if intent.args["n"] == 1 else None

        @tool(kind="idempotent", guards=[broken])
        async def pay(n: int) -> str:
            return outside.seen(f"paid {n}")

        async def think() -> dict[str, Any]:
            outside.seen("thought")
            return {"calls": [Call("a", "pay", {"n": 1}), Call("b", "pay", {"n": 2})]}

        async def outer(run: AsyncRun) -> list[str]:
            answers = (await run.respond(think, tools=[pay])).answers
            await run.ask("?")
            return [answer.result or str(answer.error) for answer in answers]

        why = "LookupError: no such list" if how == "raises" else "Invalid: guard: the guard broken returned 'yes'"
        agent = program(outer)
        async with await opener() as store:
            await driven(store, agent)
            await store.answer((await store.asks())[0].id, "go on")
            refused, paid = await store.drive(agent, key="k")
            assert refused.startswith(f"Refused: a guard failed: {why}")
            assert paid == "paid 2"
            assert outside.calls == ["thought", "paid 2"]
            session = await store.session("s")
            answers = await session.respond(calls=[Call("c", "pay", {"n": 1})], tools=[pay])
            assert why in str(answers[0].error)
            assert outside.calls == ["thought", "paid 2"]

    async def test_a_result_that_cannot_be_kept_is_not_sent_again(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        @tool(kind="idempotent")
        async def odd(n: int) -> Any:
            outside.seen(n)
            return object() if n == 1 else n

        calls = [Call("a", "odd", {"n": 1}), Call("b", "odd", {"n": 2})]
        async with await opener() as store:
            session = await store.session("s")
            for _ in range(2):
                answers = await session.respond(calls=calls, tools=[odd])
                assert (answers[0].result["unstorable"], answers[1].result) == ("object", 2)
            assert outside.calls == [1, 2]
            with pytest.raises(Invalid):
                await session.act(odd, 1, call=calls[0])

    @pytest.mark.parametrize(
        ("given", "path"),
        [
            ({"calls": "c", "tools": []}, "calls"),
            ({"calls": [1], "tools": []}, "calls[0]"),
            ({"calls": [], "tools": 3}, "tools"),
        ],
    )
    async def test_what_is_no_batch_is_refused(self, opener: AsyncOpener, given: dict[str, Any], path: str) -> None:
        async with await opener() as store:
            session = await store.session("s")
            before = await last(session)
            with pytest.raises(Invalid) as refused:
                await session.respond("x", **given)
            assert refused.value.path == path
            assert await last(session) == before

    @pytest.mark.parametrize(
        ("calls", "path", "says"),
        [
            ({"id": "c", "tool": "pay"}, "calls", "expected a list"),
            (["pay"], "calls[0]", "id, tool and args, got str"),
            ([{"id": "c", "name": "pay"}], "calls[0]", "`tool` (it has id, name)"),
            ([{"tool": "pay"}], "calls[0]", "`id` (it has tool)"),
            ([{"id": 7, "tool": "pay"}], "calls[0]", "$.id"),
            ([{"id": "", "tool": "pay"}], "calls[0].id", "cannot be empty"),
            ([{"id": "c", "tool": "pay"}, {"id": "c", "tool": "pay", "args": {"n": 2}}], "calls[1].id", "made twice"),
        ],
    )
    async def test_calls_that_cannot_be_told_apart_are_refused_before_anything_is_sent(
        self, opener: AsyncOpener, calls: Any, path: str, says: str
    ) -> None:
        shop = Shop()
        answered: list[int] = []

        async def asking(run: AsyncRun) -> Any:
            try:
                await run.respond(lambda: answered.append(1) or {"calls": calls}, tools=shop.tools)
            except Invalid as error:
                await run.step(lambda: 1)  # it continues, and a replay goes the same way
                return [error.path, str(error)]

        async with await opener() as store:
            session = await store.session("s")
            with pytest.raises(Invalid) as refused:
                await session.respond("hm", calls=calls, tools=shop.tools)
            answer = await driven(store, program(asking))
            assert [answer[0], refused.value.path] == [path, path]
            assert says in answer[1]
            assert says in str(refused.value)
            assert (shop.calls, len(answered), await session.turns(last=9)) == ([], 1, [])

    async def test_a_run_does_the_same_at_its_places(self, opener: AsyncOpener) -> None:
        shop = Shop()

        async def think(topic: str) -> dict[str, Any]:
            shop.outside.seen("thought")
            calls = [{"id": "a", "tool": "pay", "args": {"n": 1}}, {"id": "b", "tool": "look", "args": {"n": 5}},
                    {"id": "c", "tool": "nothing"}, {"id": "d", "tool": "cancel", "args": {"n": 2}},
                    {"id": "e", "tool": "pay", "args": {"n": 3}}]  # fmt: skip
            return {"text": topic, "calls": calls, "usage": {"out": 5}}

        async def clerk(run: AsyncRun) -> list[Any]:
            reply = await run.respond(think, "pay", tools=shop.tools, pins={"model": "m"})
            results = [answer.result if answer.error is None else answer.error.code for answer in reply.answers]
            await run.ask("Enough?")
            return [reply.value["text"], *results]

        agent = program(clerk)
        async with await opener() as store:
            assert type(await driven(store, agent)) is Waiting
            (handle,) = await store.runs()
            (ask,) = await handle.waits()
            await store.answer(ask.id, "yes", by="bob")
            assert await driven(store, agent) == ["pay", "paid 1", {"n": 2}, "NotFound", "Failed", "paid 3"]
            assert shop.calls == ["thought", "paid 1", "looked 5", "paid 3"]
            assert [effect.state for effect in await handle.effects()] == ["committed", "failed", "committed"]

    async def test_in_a_run_n_calls_take_n_and_one_commits(self, opener: AsyncOpener) -> None:
        shop = Shop()

        async def think() -> dict[str, Any]:
            return {"calls": [Call(f"c{n}", "pay", {"n": n}) for n in range(4)]}

        async def clerk(run: AsyncRun) -> int:
            return len((await run.respond(think, tools=shop.tools)).answers)

        agent = program(clerk)
        async with await opener() as store:
            await store.start(agent, key="k")
            with counting() as commits:
                assert await driven(store, agent) == 4
            assert len(commits) == 5 + 3  # besides: whether it stands, to take it, its end

    async def test_a_run_that_failed_in_the_middle_goes_on_where_it_was(self, opener: AsyncOpener) -> None:
        shop = Shop()

        async def think() -> dict[str, Any]:
            shop.outside.seen("thought")
            return {"calls": [Call("a", "pay", {"n": 1}), Call("b", "ship", {"n": -1}), Call("c", "pay", {"n": 3})]}

        async def clerk(run: AsyncRun) -> list[Any]:
            return [answer.result for answer in (await run.respond(think, tools=shop.tools)).answers]

        agent = program(clerk)
        async with await opener() as store:
            assert type(await driven(store, agent)) is Waiting
            (handle,) = await store.runs()
            states = [effect.state for effect in await handle.effects()]
            assert states == ["committed", "in_doubt", "planned"]
            await (await handle.effects())[1].settle(Happened("it did"))
            assert await driven(store, agent) == ["paid 1", "it did", "paid 3"]
            assert shop.calls == ["thought", "paid 1", "shipped -1", "paid 3"]

    async def test_a_cancelled_run_sends_no_further_call(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()
        async with await opener() as store:

            @tool(kind="idempotent")
            async def pay(n: int) -> str:
                (handle,) = await store.runs()
                await handle.cancel("enough")
                return outside.seen(f"paid {n}")

            async def think() -> dict[str, Any]:
                return {"calls": [Call("a", "pay", {"n": 1}), Call("b", "pay", {"n": 2}), Call("c", "pay", {"n": 3})]}

            async def clerk(run: AsyncRun) -> list[Any]:
                return [answer.result for answer in (await run.respond(think, tools=[pay])).answers]

            await driven(store, program(clerk))
            (handle,) = await store.runs()
            assert handle.status == "cancelled"
            assert outside.calls == ["paid 1"]
            assert [effect.state for effect in await handle.effects()] == ["committed", "withdrawn", "withdrawn"]


class AsyncLimitsContract:
    """`tool(limit=)`: so many calls at once in one open store."""

    @pytest.mark.parametrize("limit", [1, 3])
    async def test_so_many_at_once_and_no_more(self, opener: AsyncOpener, limit: int) -> None:
        crowd = Crowd(limit)
        pay = tool(kind="idempotent", limit=limit)(crowd.pay)
        async with await opener() as store:
            session = await store.session("s")
            results = await AsyncRace.between(*(partial(session.act, pay, n, key=f"k{n}") for n in range(9)))
            assert sorted(results) == list(range(9))
            assert crowd.most == limit
            assert [effect.state for effect in await session.effects()] == ["committed"] * 9

    async def test_a_slot_comes_back_whatever_happens(self, opener: AsyncOpener) -> None:
        @tool(kind="idempotent", limit=1, fails=[ValueError])
        async def pay(n: int) -> int:
            if n == 1:
                raise ValueError("no")
            if n == 2:
                raise RuntimeError("who knows")
            return n

        async with await opener() as store:
            session = await store.session("s")
            with pytest.raises(Failed):
                await session.act(pay, 1, key="a")
            with pytest.raises(InDoubt):
                await session.act(tool(limit=1, name="pay")(pay.fn), 2, key="b")
            calls = [Call(f"c{n}", "pay", {"n": n}) for n in (3, 1, 4)]
            answers = await session.respond(calls=calls, tools=[pay])
            assert [answer.result or answer.error for answer in answers] == [3, EffectError("ValueError", "no"), 4]
            assert await session.act(pay, 5, key="a5") == 5
            assert await session.act(pay, 5, key="a5") == 5
            assert await session.act(pay, 6) == 6


class Crowd:
    """Counts how many are in it at once. The first wait for each other until it is full, and then for one too many."""

    def __init__(self, limit: int) -> None:
        self.inside = self.most = 0
        self._limit = limit
        self._mutex = threading.Lock()
        self._full, self._over = threading.Event(), threading.Event()

    def pay(self, n: int) -> int:
        """Be in it until it was full."""
        with self._mutex:
            self.inside += 1
            self.most = max(self.most, self.inside)
            fills = self.most == self._limit and not self._full.is_set()
            if self.most > self._limit:
                self._over.set()
        if fills:
            self._over.wait(0.5)
            self._full.set()
        self._full.wait(60)
        with self._mutex:
            self.inside -= 1
        return n
