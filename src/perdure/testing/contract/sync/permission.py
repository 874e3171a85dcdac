# Generated from testing/contract/aio/permission.py by tools/unasync.py: edit that one.
"""The contract of permission: guards of a store and of a tool, asked before anything is sent, however it is begun (P2, P15)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.effects.ledger import Intent
from perdure.effects.tool import Refuse, RequireApproval, Tool, tool
from perdure.errors import Conflict, Failed, InDoubt, Invalid, Waiting
from perdure.handles.sync.run import Run
from perdure.model.records.conversation import Call
from perdure.model.records.effects import Absent, Happened
from perdure.runtime.agent import Agent
from perdure.testing.contract.sync.effects import Outside
from perdure.testing.contract.sync.restored import put_back
from perdure.testing.contract.sync.runs import driven, program
from perdure.testing.openers import Opener


def wary(intent: Intent, actor: str) -> Any:
    """Small sums pass, middling ones need a person, large ones are refused."""
    n = intent.args.get("n", 0)
    return Refuse(f"too much for {actor}") if n > 9 else RequireApproval("Really?") if n > 5 else None


def payment(outside: Outside) -> Tool:
    """A tool that the other side knows by its key: doubt about it is settled by sending it again."""

    @tool(kind="keyed")
    def pay(n: int, *, key: str) -> int:  # noqa: ARG001 - what is keyed takes one
        return outside.seen(n)

    return pay


def payer(pay: Tool, *, batched: bool) -> Agent:
    """An agent that pays 6: itself, or because its model asked for it."""

    def paying(run: Run) -> Any:
        if not batched:
            return run.act(pay, 6)
        calls = [{"id": "c", "tool": "pay", "args": {"n": 6}}]
        return (run.respond(lambda: {"calls": calls}, tools=[pay])).answers[0].result

    return program(paying)


class PermissionContract:
    """What must be allowed first."""

    def test_guards_of_a_store_are_asked_about_every_effect(self, opener: Opener) -> None:
        outside = Outside()

        @tool
        def pay(n: int) -> int:
            return outside.seen(n)

        def paying(run: Run) -> Any:
            return run.act(pay, 10)

        with opener(guards=[wary], actor="ann") as store:
            session = store.session("s")
            with pytest.raises(Failed, match="too much for ann"):
                session.act(pay, 10, key="k")
            refused = driven(store, program(paying))
            assert isinstance(refused, Failed)
            assert refused.code == "Refused"
            assert session.act(pay, 1, key="small") == 1
            assert outside.calls == [1]
        with opener() as store:  # the control: without the guard it is sent
            assert (store.session("s")).act(pay, 10, key="other") == 10

    @pytest.mark.parametrize("guards", [5, [5], "ab", [None]])
    def test_guards_are_functions(self, opener: Opener, guards: Any) -> None:
        with pytest.raises(Invalid) as refused:
            opener(guards=guards)
        assert refused.value.path == "guards"

    @pytest.mark.parametrize("of_tool", [True, False])
    def test_what_is_begun_by_hand_is_asked_about_too(self, opener: Opener, of_tool: bool) -> None:
        @tool(guards=[wary] if of_tool else [])
        def pay(n: int) -> None: ...

        with opener(guards=[] if of_tool else [wary], actor="ann") as store:
            session = store.session("s")
            passed = session.begin(pay, {"n": 1}, key="a")
            assert (passed.dispatch()).state == "dispatched"
            refused = session.begin(pay, {"n": 10}, key="b")
            assert (refused.state, refused.settled) == ("withdrawn", True)
            with pytest.raises(Failed, match="too much for ann") as no:
                refused.dispatch()
            assert no.value.code == "Refused"
            meant = [each.data["guards"] for each in session.events() if "guards" in (each.data or {})]
            assert meant == [
                [{"guard": "wary", "said": "pass"}],
                [{"guard": "wary", "said": "refuse", "why": "too much for ann"}],
            ]
            assert (store.verify()).ok

    def test_what_is_begun_by_hand_waits_for_its_approval(self, opener: Opener) -> None:
        with opener(guards=[wary]) as store:
            session = store.session("s")
            effects = [session.begin("pay", {"n": n}, key=str(n)) for n in (6, 7)]
            asks = sorted(store.asks(), key=lambda each: each.seq)
            for effect, ask in zip(effects, asks, strict=True):
                with pytest.raises(Waiting) as waiting:
                    effect.dispatch()
                assert waiting.value.facts["asks"] == [ask.id]
                assert (effect.refresh()).state == "planned"
            store.answer(asks[0].id, "approve", by="ann")
            store.answer(asks[1].id, "refuse", by="ann")
            again = session.begin("pay", {"n": 6}, key="6")
            assert (again.dispatch()).state == "dispatched"
            with pytest.raises(Conflict):
                effects[0].dispatch()
            for _ in range(2):
                with pytest.raises(Failed, match="ann did not approve"):
                    effects[1].dispatch()
            assert [each.state for each in session.effects()] == ["dispatched", "withdrawn"]
            assert len(store.asks(state=None)) == 2

    def test_who_has_only_the_effect_does_not_get_around_its_approval(self, opener: Opener) -> None:
        with opener(guards=[wary]) as store:
            begun = (store.session("s")).begin("pay", {"n": 6}, key="k")
            store._caller.core.guards = ()  # another process, with no guard
            with pytest.raises(Waiting):
                (store.effect(begun.id)).dispatch()

    @pytest.mark.parametrize("question", ["", " \n", True, False, 5])
    def test_what_is_no_question_lets_nothing_pass(self, opener: Opener, question: Any) -> None:
        outside = Outside()

        @tool
        def pay() -> Any:
            return outside.seen("paid")

        def paying(run: Run) -> Any:
            return run.act(pay, approve=question)

        def asking(run: Run) -> Any:
            return run.ask(question)

        with opener() as store:
            with pytest.raises(Invalid) as refused:
                (store.session("s")).act(pay, key="k", approve=question)
            assert refused.value.path == "approve"
            for agent, path in ((paying, "approve: "), (asking, "question: ")):
                failed = driven(store, program(agent), key=path)
                assert (failed.code, failed.message.startswith(path)) == ("Invalid", True)
            assert (outside.calls, store.asks(state=None)) == ([], [])

    @pytest.mark.parametrize("by_guard", [True, False])
    def test_an_approval_that_nobody_could_find_again_is_not_asked_for(self, opener: Opener, by_guard: bool) -> None:
        outside = Outside()

        @tool
        def pay(n: int) -> int:
            return outside.seen(n)

        approve: Any = {} if by_guard else {"approve": "Really?"}
        with opener(guards=[wary] if by_guard else []) as store:
            session = store.session("s")
            with pytest.raises(Invalid) as refused:
                session.act(pay, 6, **approve)
            assert (refused.value.path, store.asks(), session.effects()) == ("key", [], [])
            session.say("assistant", "", calls=[Call("c", "pay")])
            for given in ({"key": "k"}, {"call": Call("c", "pay")}):  # the control: with either the answer finds it
                with pytest.raises(Waiting):
                    session.act(pay, 6, **given, **approve)
            assert (len(store.asks()), outside.count) == (2, 0)

    @pytest.mark.parametrize("batched", [False, True])
    def test_what_nobody_has_approved_of_is_not_sent_after_a_restore_either(
        self, opener: Opener, batched: bool
    ) -> None:
        """Its rule would send it again, because it may have been sent after the backup: but nobody may ever have said yes."""
        outside = Outside()
        pay = payment(outside)
        with opener(guards=[wary]) as store:
            session = store.session("s")
            with pytest.raises(Waiting):
                session.act(pay, 7, key="k")
            asking = payer(pay, batched=batched)
            handle = store.start(asking, key="r")
            store.recover(agents=[asking])
            put_back(store)
            for _ in range(2):
                with pytest.raises(Waiting):
                    session.act(pay, 7, key="k")
                handle.resume()
                store.recover(agents=[asking])
            assert outside.calls == []
            for ask in store.asks():
                store.answer(ask.id, "approve", by="ann")
            assert session.act(pay, 7, key="k") == 7
            store.recover(agents=[asking])
            assert handle.result() == 6
            assert sorted(outside.calls) == [6, 7]

    @pytest.mark.parametrize("batched", [False, True])
    def test_who_refuses_after_a_restore_does_not_say_that_it_was_never_sent(
        self, opener: Opener, batched: bool
    ) -> None:
        """Another may have approved of it after the backup, and it was sent: a person who refuses it now says only that it
        shall not be sent.
        """
        outside = Outside()
        pay = payment(outside)
        with opener(guards=[wary]) as store:
            session, asking = store.session("s"), payer(pay, batched=batched)
            with pytest.raises(Waiting):
                session.act(pay, 7, key="k")
            by_hand = session.begin("pay", {"n": 8}, key="by hand")
            handle = store.start(asking, key="r")
            store.recover(agents=[asking])
            put_back(store)
            for ask in store.asks():
                store.answer(ask.id, "refuse", by="ann")
            for _ in range(2):
                with pytest.raises(InDoubt, match="ann did not approve"):
                    session.act(pay, 7, key="k")
                with pytest.raises(InDoubt, match="ann did not approve"):
                    by_hand.dispatch()
                store.recover(agents=[asking], tools=[pay])
            doubts = {each.record.args["n"]: each for each in store.effects(state="in_doubt")}
            assert (sorted(doubts), outside.calls) == ([6, 7, 8], [])
            doubts[6].settle(Happened(6), by="bob")
            doubts[7].settle(Absent(), by="bob")
            store.recover(agents=[asking])
            assert handle.result() == 6
            with pytest.raises(Failed, match="ann did not approve"):  # now it is known, and her word stands
                session.act(pay, 7, key="k")
            assert [each.record.args["n"] for each in store.effects(state="withdrawn")] == [7]
            assert outside.calls == []
            assert (store.verify()).ok

    @pytest.mark.parametrize("happened", [False, True])
    def test_whether_what_is_refused_after_a_restore_was_sent_is_asked_of_the_other_side(
        self, opener: Opener, happened: bool
    ) -> None:
        outside = Outside()

        def was_paid(n: int) -> Any:
            return Happened(n) if happened else Absent()

        @tool(probe=was_paid)
        def pay(n: int) -> int:
            return outside.seen(n)

        with opener(guards=[wary]) as store:
            session = store.session("s")
            with pytest.raises(Waiting):
                session.act(pay, 7, key="k")
            put_back(store)
            (ask,) = store.asks()
            store.answer(ask.id, "refuse", by="ann")
            if not happened:
                with pytest.raises(InDoubt, match="may still arrive"):
                    session.act(pay, 7, key="k")
                opener.clock.advance("2m")
            for _ in range(2):
                if happened:
                    assert session.act(pay, 7, key="k") == 7
                else:
                    with pytest.raises(Failed, match="ann did not approve"):
                        session.act(pay, 7, key="k")
            assert outside.calls == []
            assert [each.state for each in session.effects()] == ["committed" if happened else "failed"]

    @pytest.mark.parametrize("denied", [False, True])
    def test_what_a_restore_put_in_doubt_is_not_sent_before_the_answer_that_it_waits_for(
        self, opener: Opener, denied: bool
    ) -> None:
        """Its rule would send it again, and so would who finds it planned, once somebody says that it did not happen."""
        outside = Outside()
        pay = payment(outside)
        with opener(guards=[wary]) as store:
            session = store.session("s")
            for n in (7, 8):
                with pytest.raises(Waiting):
                    session.act(pay, n, key=str(n))
            put_back(store)
            begun = [session.begin(pay, {"n": n}, key=str(n)) for n in (7, 8)]
            assert [each.state for each in begun] == ["in_doubt", "in_doubt"]
            for effect in begun if denied else []:
                effect.settle(Absent(), by="bob")
            for n in (7, 8):
                with pytest.raises(Waiting):
                    session.act(pay, n, key=str(n))
            store.recover(tools=[pay])
            assert outside.calls == []
            for ask in store.asks():
                store.answer(ask.id, "approve" if ask.effect == begun[0]._record.seq else "refuse", by="ann")
            assert session.act(pay, 7, key="7") == 7
            with pytest.raises(Failed if denied else InDoubt, match="ann did not approve"):
                session.act(pay, 8, key="8")
            assert outside.calls == [7]

    def test_what_is_no_verdict_puts_nothing_in_doubt(self, opener: Opener) -> None:
        with opener() as store:
            planned = (store.session("s")).begin("pay", {"n": 7}, key="k")
            put_back(store)
            with pytest.raises(Invalid, match="expected Happened"):
                planned.settle("it did")  # type: ignore[arg-type] - no verdict
            assert [each.state for each in store.effects()] == ["planned"]
