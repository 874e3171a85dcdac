# Generated from testing/contract/aio/supposing.py by tools/unasync.py: edit that one.
"""What every store promises about runs that suppose: another result at a place, and nothing is done outside unasked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure.effects.tool import Tool, tool
from perdure.errors import Conflict, Failed, Invalid, NotFound, Parked, Waiting
from perdure.handles.sync.run import Run
from perdure.model.records.runs import RunStatus
from perdure.runtime.agent import Agent, agent
from perdure.testing.openers import Opener


class Outside:
    """What was really done."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.undone: list[str] = []

    def sending(self) -> Tool:
        """A tool that cannot be called twice unnoticed."""

        def unsend(title: str) -> None:
            self.undone.append(title)

        def send(title: str) -> dict[str, Any]:
            self.done.append(title)
            return {"number": len(self.done)}

        return tool(name="send", undo=tool(kind="idempotent", name="unsend")(unsend))(send)


def reviewing(send: Tool) -> Agent:
    """Sends, has it reviewed, and sends again if that was bad."""

    def review(run: Run) -> Any:
        run.step(lambda: "plan")
        token = str(run.uuid())
        sent = run.act(send, f"first {token[:4]}")
        verdict = run.step(judged, sent)
        if verdict != "good":
            sent = run.act(send, "second")
        return [verdict, sent]

    return agent(name="supposed review")(review)


def judged(sent: dict[str, Any]) -> str:
    """A review that likes everything."""
    return "good" if sent else ""


class SupposingContract:
    """`handle.fork`."""

    def test_what_was_done_is_not_done_again_and_what_is_new_is_asked_about(self, opener: Opener) -> None:
        outside = Outside()
        review = reviewing(outside.sending())
        with opener() as store:
            handle = store.start(review, key="r")
            assert (store.drive(review, key="r"))[0] == "good"
            before = (handle.refresh()).record, handle.timeline(last=1000)
            place = (handle.steps())[-1].place
            forked = handle.fork(place, "bad")
            assert (forked.record.what_if and forked.record.what_if.run, forked.record.key) == (handle.id, None)
            store.recover(agents=[review])
            assert len(outside.done) == 1
            with pytest.raises(Waiting):
                forked.result()
            (asked,) = forked.waits()
            assert handle.id in asked.question
            store.answer(asked.id, "approve", by="alice")
            store.recover(agents=[review])
            assert forked.result() == ["bad", {"number": 2}]
            assert outside.done[1:] == ["second"]
            assert ((handle.refresh()).record, handle.timeline(last=1000)) == before
            assert [step.value for step in forked.steps()] == ["plan", "bad"]
            assert (store.verify()).ok

    def test_refused_it_fails_and_allowed_it_acts(self, opener: Opener) -> None:
        outside = Outside()
        review = reviewing(outside.sending())
        with opener() as store:
            handle = store.start(review, key="r")
            store.drive(review, key="r")
            seq = (handle.steps())[-1].seq
            refused = handle.fork(seq, "bad")
            store.recover(agents=[review])
            store.answer((refused.waits())[0].id, "refuse", by="alice")
            store.recover(agents=[review])
            with pytest.raises(Failed, match="did not approve"):
                refused.result()
            assert len(outside.done) == 1
            acting = handle.fork(seq, "bad", allow_effects=True)
            store.recover(agents=[review])
            assert acting.result() == ["bad", {"number": 2}]

    def test_a_supposition_on_top_of_another(self, opener: Opener) -> None:
        outside = Outside()
        review = reviewing(outside.sending())
        with opener() as store:
            handle = store.start(review, key="r")
            store.drive(review, key="r")
            place = (handle.steps())[-1].place
            first = handle.fork(place, "bad")
            store.recover(agents=[review])
            second = first.fork(place, "good")
            store.recover(agents=[review])
            assert second.result() == ["good", {"number": 1}]
            assert len(outside.done) == 1

    def test_the_result_of_an_effect_an_answer_and_a_signal(self, opener: Opener) -> None:
        outside = Outside()
        send = outside.sending()

        @agent(name="supposed asks")
        def asks(run: Run) -> Any:
            sent = run.act(send, "it")
            said = run.ask("Merge?", choices=["merge", "hold"])
            return [sent, said, run.wait("go")]

        with opener() as store:
            handle = store.start(asks, key="a")
            store.recover(agents=[asks])
            waiting = (handle.waits())[0]
            with pytest.raises(Conflict, match="no result yet"):
                handle.fork(waiting.seq, "hold")
            store.answer(waiting.id, "merge", by="alice")
            handle.signal("go", 1)
            assert store.drive(asks, key="a") == [{"number": 1}, "merge", 1]
            supposed = []
            for place, value in (("0//1", {"number": 70}), ("0//2", "hold"), ("0//3", 2)):
                forked = handle.fork(place, value)
                store.recover(agents=[asks])
                supposed.append(forked)
            # A person is asked anew, as the program does.
            assert [len(each.waits()) for each in supposed] == [
                1,
                1,
                0,
            ]
            assert supposed[2].result() == [{"number": 1}, "merge", 2]
            assert (supposed[0].effects())[0].record.result == {"number": 70}
            assert outside.done == ["it"]

    def test_the_result_of_a_run_that_it_started(self, opener: Opener) -> None:
        @agent(name="supposed adder")
        def adder(run: Run, number: int) -> int:
            return run.step(lambda: number + 1)

        @agent(name="supposed caller")
        def caller(run: Run) -> Any:
            return ["got", run.call(adder, 1)]

        with opener() as store:
            handle = store.start(caller, key="c")
            assert store.drive(caller, key="c") == ["got", 2]
            forked = handle.fork("0//1", 70)
            store.recover(agents=[caller])
            assert forked.result() == ["got", 70]
            again = forked.fork("0//1", {"result": 71})
            store.recover(agents=[caller])
            assert again.result() == ["got", {"result": 71}]

    def test_what_the_other_run_started_is_not_tried_again(self, opener: Opener) -> None:
        outside = Outside()
        send = outside.sending()

        @agent(name="supposed failing")
        def failing(run: Run) -> Any:
            run.step(lambda: 1)
            raise ValueError("bad")

        @agent(name="supposed parent")
        def parent(run: Run) -> Any:
            child = run.start(failing)
            try:
                return child.result()
            except Failed:
                run.act(send, "regrets")
                return child.result()

        with opener() as store:
            handle = store.start(parent, key="p")
            with pytest.raises(Failed):
                store.drive(parent, key="p")
            forked = handle.fork("0//2", {"number": 9})
            store.recover(agents=[parent, failing])
            assert (forked.refresh()).status is RunStatus.FAILED
            with pytest.raises(Conflict, match="is not its own"):
                forked.retry()
            (child,) = store.runs(agent="supposed failing")
            assert (child.status, (forked.refresh()).status) == (RunStatus.FAILED, RunStatus.FAILED)
            assert outside.done == ["regrets"]

    def test_before_a_cut(self, opener: Opener) -> None:
        @agent(name="supposed cuts")
        def cuts(run: Run) -> Any:
            n = run.restored or 0
            while n < 3:
                n += run.step(lambda: 1)
                run.checkpoint(n)
            return n

        with opener() as store:
            handle = store.start(cuts, key="c")
            assert store.drive(cuts, key="c") == 3
            forked = handle.fork("1//1", 10)
            store.recover(agents=[cuts])
            assert forked.result() == 11
            assert (store.verify()).ok

    def test_what_cannot_be_asked_about_parks(self, opener: Opener) -> None:
        outside = Outside()
        send = outside.sending()

        @agent(name="supposed child")
        def child(run: Run) -> str:
            return run.step(lambda: "child")

        def starts(run: Run) -> Any:
            return run.call(child)

        def writes(run: Run) -> Any:
            return run.atomic(lambda tx: tx.session("real").say("user", "x").seq)

        def undoes(run: Run) -> Any:
            return run.undo()

        ways: dict[str, Callable[[Run], Any]] = {"starts": starts, "writes": writes, "undoes": undoes}

        @agent(name="supposed turns")
        def turns(run: Run) -> Any:
            run.act(send, "it")
            way = run.step(lambda: "nowhere")
            return ways[way](run) if way in ways else way

        with opener() as store:
            handle = store.start(turns, key="t")
            store.drive(turns, key="t")
            for way in ways:
                forked = handle.fork("0//2", way)
                store.recover(agents=[turns, child])
                with pytest.raises(Parked, match="only supposes"):
                    forked.result()
                assert (forked.refresh()).record.reason == "what-if"
            assert (outside.done, outside.undone) == (["it"], [])
            assert len(store.runs(agent="supposed child")) == 0
            assert len(store.sessions()) == 0

    def test_a_models_batch_waits_for_a_person(self, opener: Opener) -> None:
        outside = Outside()
        send = outside.sending()

        @agent(name="supposed responds")
        def responds(run: Run) -> Any:
            titles = run.step(list)
            calls = [{"id": f"c{i}", "tool": "send", "args": {"title": title}} for i, title in enumerate(titles)]
            reply = run.respond(lambda: {"calls": calls}, tools=[send])
            return [answer.result for answer in reply.answers]

        with opener() as store:
            handle = store.start(responds, key="m")
            assert store.drive(responds, key="m") == []
            forked = handle.fork("0//1", ["a", "b"])
            for title in ("a", "b"):
                store.recover(agents=[responds])
                assert title not in outside.done
                (asked,) = forked.waits()
                store.answer(asked.id, "approve", by="alice")
            store.recover(agents=[responds])
            assert forked.result() == [{"number": 1}, {"number": 2}]
            assert outside.done == ["a", "b"]

    def test_no_such_place(self, opener: Opener) -> None:
        review = reviewing(Outside().sending())
        with opener() as store:
            handle = store.start(review, key="r")
            store.drive(review, key="r")
            for at in ("9//9", 999, "", 1):
                with pytest.raises(NotFound) as refused:
                    handle.fork(at, 1)
                assert refused.value.path == "at"
            with pytest.raises(Invalid):
                handle.fork((handle.steps())[-1].place, object())
            assert len(store.runs()) == 1
            assert (handle.refresh()).status is RunStatus.COMPLETED
