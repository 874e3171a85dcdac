"""The contract of what adapters of frameworks rest on: native forms, turns that are taken back, ids of calls that come again,
branches, tools made on the spot, one store in both colours, waiting until something is durable.
"""

from __future__ import annotations

# async-only
import asyncio

# end
import pytest

import perdure
from perdure.errors import Conflict, Invalid, KeyReused, NotFound, TimedOut
from perdure.model.records.conversation import Call, Native
from perdure.model.records.retention import Retention
from perdure_testing.openers import AsyncOpener


class AsyncNativeTurnContract:
    """A turn keeps the form that its framework gave it, and what saying it took."""

    async def test_native_usage_and_model_come_back(self, opener: AsyncOpener) -> None:
        item = {"type": "reasoning", "id": "rs_1", "encrypted_content": "x" * 20_000, "n": [1, 2.5, None]}
        async with await opener() as store:
            session = await store.session("s")
            turn = await session.say("assistant", "hm", native=("openai.item", item), usage={"input": 7}, model="m-1")
            opaque = await session.say("assistant", native=("openai.item", b"\x00\xff"), parent=turn)
            assert (turn.native, turn.usage, turn.model) == (Native("openai.item", item), {"input": 7}, "m-1")
            assert await session.turns() == [turn, opaque]
            assert opaque.parent == turn.seq
            # Only its framework can show the other.
            assert await session.transcript() == [{"role": "assistant", "content": "hm"}]
            assert (await session.say("assistant", "hm", key="k", native=("f", 1))).native == Native("f", 1)
            with pytest.raises(KeyReused):
                await session.say("assistant", "hm", key="k", native=("f", 2))
            for bad, path in [
                (("f",), "native"),
                ("f", "native"),
                (("", 1), "native.form"),
                (("f", {1}), "native.body"),
            ]:
                with pytest.raises(Invalid) as caught:
                    await session.say("assistant", "x", native=bad)  # type: ignore[arg-type]
                assert caught.value.path == path
            assert (await store.verify()).ok

    async def test_a_branch_is_a_line_of_parents(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            one, two = [await session.say("user", text) for text in "ab"]
            other = await session.say("user", "c", parent=one)
            more = await session.say("assistant", "d", parent=other)
            fresh = await session.say("user", "e", parent=0)
            back = await session.say("assistant", "f", parent=two)
            assert [turn.content for turn in await session.line(more)] == ["a", "c", "d"]
            assert [turn.content for turn in await session.line(back.seq)] == ["a", "b", "f"]
            assert [turn.content for turn in await session.line(back, limit=2)] == ["b", "f"]
            assert [turn.content for turn in await session.line(fresh)] == ["e"]
            with pytest.raises(NotFound):
                await session.say("user", "x", parent=back.seq + 1)


class AsyncRetractingContract:
    """A turn that is taken back is in the log, and nowhere else."""

    async def test_nothing_shows_it_any_more(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            first = await session.say("user", "the cheese is called Gruyere")
            wrong = await session.say("assistant", "it is called Emmental", key="k")
            assert wrong.content in [hit.text for hit in await store.search("Emmental")]
            assert await session.retract(wrong, because="not so") == 1
            assert await session.retract(wrong) == 0
            assert await session.turns() == [first]
            assert await session.transcript() == [{"role": "user", "content": first.content}]
            pending = await session.pending()
            assert pending is not None
            assert pending.turn == first
            assert wrong.content not in [hit.text for hit in await store.search("Emmental")]
            assert "Emmental" not in (await session.boot(budget=2000)).text
            again = await session.say("assistant", "it is called Gruyere", key="k")
            assert again.seq > wrong.seq
            assert (await (await session.at(wrong.seq)).turns())[-1] == wrong
            assert "turn.retracted" in [event.kind for event in await session.events()]
            with pytest.raises(NotFound) as caught:
                await session.retract(first, 999)
            assert caught.value.path == "turns[1]"
            assert await session.turns() == [first, again]
            assert (await store.verify()).ok

    async def test_a_call_waits_again_and_its_maker_can_go(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            maker = await session.say("assistant", calls=[Call("c", "find")])
            result = await session.result("c", 1)
            await session.retract(result)
            pending = await session.pending()
            assert pending is not None
            assert [call.id for call in pending.calls] == ["c"]
            assert (await session.result("c", 2)).content == 2
            await session.retract(maker)
            with pytest.raises(NotFound):
                await session.result("c", 3)
            assert await session.transcript() == []
            await session.say("assistant", calls=[Call("c", "find")])
            assert (await session.result("c", 4)).content == 4
            assert (await store.verify()).ok

    async def test_each_side_of_a_fork_takes_back_for_itself(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            turns = [await session.say("user", text, key=text) for text in "abc"]
            fork = await session.fork(name="fork")
            await session.retract(turns[0])
            await fork.retract(turns[1])
            later = await fork.fork(name="later")
            await fork.retract(turns[2])
            for side, expected in [(session, "bc"), (fork, "a"), (later, "ac")]:
                assert [turn.content for turn in await side.turns()] == list(expected)
                assert [turn.content for turn in await side.turns(after=0)] == list(expected)
                assert [message["content"] for message in await side.transcript()] == list(expected)
            assert (await fork.say("user", "anew", key="b")).content == "anew"
            assert (await later.say("user", "a", key="a")).seq == turns[0].seq
            past = await session.fork(at=turns[2].seq, name="past")
            assert [turn.content for turn in await past.turns()] == ["a", "b", "c"]
            assert (await store.verify()).ok

    async def test_retention_empties_it(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            await session.say("user", "a")
            secret = await session.say("user", "b")
            last = await session.say("user", "c")
            await session.retract(secret)
            fork = await session.fork(at=secret.seq, name="fork")
            assert [turn.seq for turn in await fork.turns(last=1)] == [secret.seq]
            assert not (await store.retain(Retention(turns=0), dry_run=False)).streams  # the fork shows it
            alone = await store.session("alone")
            turns = [await alone.say("user", text) for text in "xyz"]
            await alone.retract(turns[1])
            report = await store.retain(Retention(turns=0), dry_run=False)
            assert [(stream.name, stream.turns) for stream in report.streams] == [("alone", (turns[1].seq,))]
            assert [turn.content for turn in await alone.turns()] == ["x", "z"]
            assert [message["content"] for message in await alone.transcript(full=True)] == ["x", "z"]
            assert await session.turns(last=1) == [last]
            assert (await store.verify()).ok


class AsyncRepeatedCallContract:
    """Providers use ids of calls again."""

    async def test_a_result_belongs_to_the_newest_open_call(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            await session.say("assistant", calls=[Call("c", "find", {"n": 1})])
            with pytest.raises(Conflict, match="no result yet") as caught:
                await session.say("assistant", calls=[Call("c", "find", {"n": 2})])
            assert caught.value.path == "calls[0].id"
            first = await session.result("c", 1, key="r1")
            await session.say("assistant", calls=[Call("c", "find", {"n": 2})])
            second = await session.result("c", 2)
            assert second.seq > first.seq
            assert await session.result("c", 2) == second
            assert await session.result("c", 1, key="r1") == first
            with pytest.raises(KeyReused):
                await session.result("c", 1)
            results = [message["content"] for message in await session.transcript() if message["role"] == "tool"]
            assert results == ["1", "2"]
            covered = await session.summarise(first.seq, "found")
            assert covered.last_seq == first.seq
            fork = await session.fork(name="fork")
            await fork.say("assistant", calls=[Call("c", "find")])
            assert (await fork.result("c", 3)).content == 3
            rows = await store.query("SELECT seq, answer_seq FROM v_calls WHERE session = 's' ORDER BY seq")
            assert [row["answer_seq"] for row in rows] == [first.seq, second.seq]
            assert (await store.verify()).ok

    async def test_an_effect_of_a_repeated_call_is_another_one(self, opener: AsyncOpener) -> None:
        sent: list[int] = []
        send = perdure.tool(lambda n: sent.append(n) or len(sent), name="send", kind="unsafe", known=False)
        async with await opener() as store:
            session = await store.session("s")
            for n in (1, 1, 2):
                call = Call("c", "send", {"n": n})
                await session.say("assistant", calls=[call])
                assert await session.act(send, n, call=call) == len(sent)
                assert await session.act(send, n, call=call) == len(sent)
            assert sent == [1, 1, 2]
            answers = await session.respond("more", calls=[Call("c", "send", {"n": 3})], tools=[send])
            assert [answer.result for answer in answers] == [4]
            assert len(await session.effects()) == 4
            assert len([turn for turn in await session.turns() if turn.call]) == 4

    async def test_a_late_outcome_does_not_answer_a_later_call(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            await session.say("assistant", calls=[Call("c", "send")])
            effect = await (await session.begin("send", call=Call("c", "send"))).dispatch()
            await session.result("c", "given up", error=True)
            await session.say("assistant", calls=[Call("c", "send")])
            await effect.commit("late")
            pending = await session.pending()
            assert pending is not None
            assert [call.id for call in pending.calls] == ["c"]


class AsyncSpotContract:
    """Tools made on the spot, one store in both colours, and waiting for others."""

    async def test_a_tool_made_on_the_spot_is_settled_by_its_like(self, opener: AsyncOpener) -> None:
        calls: list[str] = []

        def tool_for(reply: str) -> perdure.Tool:
            def post(text: str) -> str:
                calls.append(text)
                if reply == "lost":
                    raise RuntimeError(reply)
                return reply

            probe = lambda text: perdure.Happened(f"{text} was posted")  # noqa: E731
            return perdure.tool(post, name="post-it", probe=probe, known=False)

        async with await opener() as store:
            session = await store.session("s")
            assert await session.act(tool_for("ok"), "a", key="1") == "ok"
            effect = await (await session.begin(tool_for("lost"), {"text": "b"}, key="2")).dispatch()
            assert await session.act(tool_for("ok"), "a", key="1") == "ok"
            assert calls == ["a"]
            assert effect.tool == "post-it"
            assert not [effect_id for effect_id in (await store.recover()).settled if effect_id == effect.id]

    async def test_both_colours_at_once(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            turn = await session.say("user", "a")
            # async-only
            other = store.sync
            turn = await asyncio.to_thread(lambda: other.session("s").say("user", "b"))
            assert session.sync.turns(last=1) == [turn]
            other.close()  # it is the owner's to close
            # end
            assert await session.turns(last=1) == [turn]

    async def test_waiting_until_it_is_durable(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            turn = await session.say("user", "a", key="k")
            assert await session.await_durable(turn) == turn.seq
            assert await session.await_durable("k", timeout="1s") == turn.seq
            for absent in (turn.seq + 1, "other"):
                with pytest.raises(TimedOut):
                    await session.await_durable(absent, timeout="10ms")
            # async-only
            waiting = asyncio.create_task(session.await_durable("later", timeout="60s"))
            await asyncio.sleep(0)
            later = await session.say("user", "b", key="later")
            assert await waiting == later.seq
            # end
