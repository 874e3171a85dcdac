# Generated from testing/contract/aio/going_on.py by tools/unasync.py: edit that one.
"""The contract of going on: trying again, looking again, recovering what others left, handing over (P3, P4, P13)."""

from __future__ import annotations

import threading
from datetime import datetime
from functools import partial
from typing import Any

import pytest

from perdure.effects.tool import tool
from perdure.errors import Cancelled, Changed, Conflict, Failed, InDoubt, Parked, Refused, Waiting
from perdure.handles.sync.run import Run
from perdure.model.instants import instant_us
from perdure.model.records.effects import Absent, Happened, Unknown
from perdure.planes import leasing, runs, steps
from perdure.runtime.agent import DECLARED, agent
from perdure.testing.contract.sync.doubt import probing, until
from perdure.testing.contract.sync.effects import Outside
from perdure.testing.contract.sync.runs import driven, program
from perdure.testing.openers import Opener


def when(instant: datetime | None) -> int:
    """An instant that there is, in microseconds."""
    assert instant is not None
    return instant_us(instant, 0)


class RetryingContract:
    """`retry` does anew what ended a run, and only that."""

    def test_the_effect_of_another_stream_is_not_blamed(self, opener: Opener) -> None:
        outside = Outside()

        @tool
        def refuse() -> str:
            if outside.seen("asked") and outside.count == 1:
                raise Failed("no")
            return "yes"

        with opener() as store:

            def elsewhere() -> Any:
                return (store.session("s")).act(refuse)

            def outer(run: Run) -> Any:
                return run.step(elsewhere)

            made = program(outer)
            assert (driven(store, made)).code == "Failed"
            (store.runs())[0].retry()
            assert store.drive(made, key="k") == "yes"

    @pytest.mark.parametrize("named", ["shipping", "run:nobody/3", f"run:nobody/{'9' * 5000}", "/", 7])
    def test_what_a_program_calls_an_effect_is_no_blame(self, opener: Opener, named: Any) -> None:
        def outer(_run: Run) -> None:
            raise Failed("order failed", effect=named)

        made = program(outer)
        with opener() as store:
            assert (driven(store, made)).message == "order failed"
            (handle,) = store.runs()
            assert handle.status == "failed"
            assert (handle.retry()).status == "ready"

    def test_a_step_is_done_anew_whatever_its_program_made_of_its_failure(self, opener: Opener) -> None:
        outside = Outside()

        def shaky() -> str:
            if outside.seen("tried") and outside.count == 1:
                raise OSError("down")
            return "up"

        def outer(run: Run) -> str:
            try:
                return run.step(shaky)
            except Failed:
                raise ValueError("sorry") from None

        made = program(outer)
        with opener() as store:
            assert (driven(store, made)).code == "ValueError"
            (store.runs())[0].retry()
            assert store.drive(made, key="k") == "up"

    def test_a_failed_step_is_done_anew_though_more_was_recorded_since(self, opener: Opener) -> None:
        outside = Outside()

        def shaky(name: str) -> str:
            if outside.seen(name) and outside.calls.count(name) == 1:
                raise OSError(name)
            return name

        def later(run: Run) -> list[str]:
            found: list[str] = []
            try:
                run.step(shaky, "caught")
            except Failed as failed:
                found.append(failed.code)
            try:
                return [*found, run.step(shaky, "raised")]
            except Failed:
                run.step(str, "written after it")
                raise

        made = program(later)
        with opener() as store:
            assert (driven(store, made)).code == "OSError"
            (handle,) = store.runs()
            handle.retry()
            refused = driven(store, made)  # it is another way now: the program did not write after it
            assert outside.calls == ["caught", "raised", "raised"]
            assert type(refused) is Changed

    @pytest.mark.parametrize("end", ["cancel", "timeout"])
    def test_what_was_to_be_approved_is_asked_anew(self, opener: Opener, end: str) -> None:
        outside = Outside()

        @tool
        def pay() -> str:
            return outside.seen("paid")

        def buy(run: Run) -> str:
            return run.act(pay, approve="Really?")

        made = program(buy, timeout="1h")
        with opener() as store:
            driven(store, made)
            (handle,) = store.runs()
            if end == "cancel":
                assert (handle.cancel()).status == "cancelled"
            else:
                opener.clock.advance("1h")
            assert type(driven(store, made)) is (Cancelled if end == "cancel" else Failed)
            handle.retry()
            assert type(driven(store, made)) is Waiting
            (ask,) = store.asks()
            store.answer(ask.id, "approve")
            assert store.drive(made, key="k") == "paid"
            assert outside.count == 1

    def test_a_run_that_took_too_long_has_its_time_anew(self, opener: Opener) -> None:
        def slow(run: Run) -> Any:
            return run.ask("?")

        made = program(slow, timeout="1h")
        with opener() as store:
            for _ in range(3):
                assert type(driven(store, made)) is Waiting
                (handle,) = store.runs()
                left = when(handle.record.timeout_at) - opener.clock.now_us
                assert left == 3_600_000_000
                opener.clock.advance("2h")
                assert (driven(store, made)).code == "TimedOut"
                handle.retry()
            driven(store, made)
            store.answer((store.asks())[0].id, "done")
            assert store.drive(made, key="k") == "done"

    # -- handed over -------------------------------------------------------------------------------------------------

    def test_a_run_that_was_handed_over_goes_on_here_only_when_it_is_unparked(self, opener: Opener) -> None:
        outside = Outside()
        create = tool(undo=lambda: outside.seen("undone"))(lambda: outside.seen("done"))

        def buy(run: Run) -> None:
            with run.saga():
                run.act(create)
                run.ask("?")

        made = program(buy)
        with opener() as store:
            driven(store, made)
            (handle,) = store.runs()
            handle.hand_over()
            parked = driven(store, made)
            assert type(parked) is Parked
            assert ("unpark" in parked.hint, "resume" in parked.hint) == (True, False)
            for verb in (handle.resume, handle.retry, handle.cancel):
                with pytest.raises(Conflict, match="handed over") as refused:
                    verb()
                assert "never adopted" in refused.value.hint
            assert ((handle.refresh()).status, handle.record.reason) == ("parked", "moved")
            assert outside.calls == ["done"]
            assert (handle.unpark()).status == "ready"
            assert type(driven(store, made)) is Waiting

    def test_what_is_said_about_a_run_that_was_handed_over_is_refused_here(self, opener: Opener) -> None:
        def lost() -> None:
            raise OSError("cut off")

        def asking(run: Run) -> Any:
            return run.ask("?")

        def doubting(run: Run) -> Any:
            return run.act(tool(lost))

        with opener() as store:
            for each in (asking, doubting):
                driven(store, program(each), key=each.__name__)
            (ask,) = store.asks()
            (doubt,) = store.effects(state="in_doubt")
            for handle in store.runs():
                handle.hand_over()
            for say in (
                partial(store.answer, ask.id, "yes"),
                partial(store.signal, ask.stream, "go"),
                partial(doubt.settle, Happened(1)),
            ):
                with pytest.raises(Conflict, match="was handed over") as refused:
                    say()
                assert "never adopted" in refused.value.hint
            assert store.asks() == store.asks(state=None) == []  # nobody is asked what he cannot answer
            for handle in store.runs():
                handle.unpark()  # the control: here again, they hear of it
            assert [each.id for each in store.asks()] == [ask.id]
            store.answer(ask.id, "yes")
            doubt.settle(Happened(1))
            assert store.drive(program(asking), key="asking") == "yes"
            assert store.drive(program(doubting), key="doubting") == 1

    def test_an_effect_of_a_run_is_settled_and_not_ended_past_its_run(self, opener: Opener) -> None:
        def lost() -> None:
            raise OSError("cut off")

        def doubting(run: Run) -> Any:
            return run.act(tool(lost))

        made = program(doubting)
        with opener() as store:
            assert type(driven(store, made)) is Waiting
            (doubt,) = store.effects(state="in_doubt")
            for say in (doubt.dispatch, doubt.commit, doubt.fail, partial(doubt.commit, checkpoint={})):
                with pytest.raises(Refused, match="carried out by its run") as refused:
                    say()
                assert "`settle`" in refused.value.hint
            assert (doubt.refresh()).state == "in_doubt"  # else nobody would wake the run
            doubt.settle(Happened(1))
            assert store.drive(made, key="k") == 1


class LookingAgainContract:
    """Doubt that a machine can settle later is looked at again by itself, at growing intervals."""

    def test_a_probe_that_cannot_tell_now_is_asked_again(self, opener: Opener) -> None:
        outside = Outside()
        send = probing(outside, [Unknown("network is down"), Unknown("still"), Happened("found")])

        def outer(run: Run) -> str:
            return run.act(send, "a")

        made = program(outer)
        with opener() as store:
            waiting = driven(store, made)
            assert type(waiting) is Waiting
            for seconds in (1, 1):
                (handle,) = store.runs()
                assert when(handle.record.wake_at) - opener.clock.now_us == seconds * 1_000_000
                looked = outside.calls.count("looked for a")
                assert type(driven(store, made)) is Waiting  # not before its time
                assert (store.recover([made])).runs == ()
                assert outside.calls.count("looked for a") == looked
                opener.clock.advance(f"{seconds}s")
                assert len((store.recover([made])).runs) == 1
            assert handle.result() == "found"
            assert outside.calls == ["sent a", *["looked for a"] * 3]

    def test_it_is_asked_less_and_less_often_and_never_given_up(self, opener: Opener) -> None:
        outside = Outside()
        send = probing(outside, [Unknown("no idea")])

        def outer(run: Run) -> str:
            return run.act(send, "a")

        made, steps = program(outer), []
        with opener() as store:
            driven(store, made)
            (handle,) = store.runs()
            for _ in range(14):
                wake_us = when((handle.refresh()).record.wake_at)
                steps.append((wake_us - opener.clock.now_us) // 1_000_000)
                opener.clock.now_us = wake_us
                driven(store, made)
            assert steps == [1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600]
            (pending,) = (handle.envelope()).pending
            assert (pending.action, pending.until) == ("probe", opener.clock.now_us + 600_000_000)
            assert "asked again at" in pending.reason
            assert (handle.envelope()).verdict.standing == "can be resumed as it is"
            effect = store.effect(pending.id)
            handle.resume()  # a person may come sooner
            waiting = driven(store, made)
            assert "again at" in waiting.hint
            effect.settle(Happened("said ann"), by="ann")
            assert store.drive(made, key="k") == "said ann"

    def test_who_may_still_send_is_looked_at_again(self, opener: Opener) -> None:
        go, outside = threading.Event(), Outside()

        def slow() -> str:
            outside.seen("sent")
            go.wait(60)
            raise OSError("reset")

        send = tool(timeout=0.02, lands_within=0, retries=5, probe=lambda: outside.seen(Absent()))(slow)

        def outer(run: Run) -> str:
            return run.act(send)

        made = program(outer)
        with opener() as store:
            assert type(driven(store, made)) is Waiting
            (handle,) = store.runs()
            assert (handle.record.reason, handle.record.wake_at is None) == ("doubt", False)
            go.set()
            until(store, lambda: not [t for t in threading.enumerate() if t.name == "perdure-call"])
            assert outside.calls.count("sent") == 1

    def test_in_a_session_it_says_when_and_stays_visible(self, opener: Opener) -> None:
        outside = Outside()
        send = probing(outside, [Unknown("network is down")])
        with opener() as store:
            session = store.session("s")
            with pytest.raises(InDoubt, match="network is down") as doubt:
                session.act(send, "a", key="k")
            assert doubt.value.facts["action"] == "probe"
            assert doubt.value.facts["until"] == opener.clock.now_us + 1_000_000
            (waiting,) = (store.recover(tools=[send])).waiting
            assert (waiting.state, outside.calls.count("looked for a")) == ("in_doubt", 2)

    def test_what_no_machine_can_settle_is_not_looked_at(self, opener: Opener) -> None:
        @tool
        def send() -> None:
            raise OSError("reset")

        def outer(run: Run) -> None:
            run.act(send)

        made = program(outer)
        with opener() as store:
            driven(store, made)
            (handle,) = store.runs()
            assert (handle.record.reason, handle.record.wake_at) == ("doubt", None)


class RecoveringContract:
    """What others left is gone on with, whatever else is there."""

    def test_what_belongs_to_others_hides_nothing(self, opener: Opener) -> None:
        def unknown(_run: Run) -> None:
            raise AssertionError("it belongs to another program")

        def known(run: Run) -> int:
            return run.step(int, 1)

        theirs, mine = agent(name="theirs")(unknown), program(known)
        DECLARED.pop("theirs")
        with opener() as store:
            for n in range(60):
                store.start(theirs, key=str(n))
            store.start(mine, key="k")
            DECLARED.pop("theirs", None)
            assert [each.status for each in (store.recover([mine])).runs] == ["completed"]
            assert len(store.runs(agent="theirs", status="ready", limit=100)) == 60

    def test_a_run_that_cannot_be_read_keeps_no_other_from_going_on(
        self, opener: Opener, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from perdure.errors import Damaged  # noqa: PLC0415 - only here

        def known(run: Run) -> int:
            return run.step(int, 1)

        made, read = program(known), steps.steps
        with opener() as store:
            broken = store.start(made, key="broken")
            runs_once(store, broken)
            others = [store.start(made, key=str(n)) for n in range(3)]

            def torn(reads: Any, stream: Any, after: int = 0) -> Any:
                if stream.name == broken.id:
                    raise Damaged("what is stored is no step", path=f"run {stream.name}")
                return read(reads, stream, after)

            monkeypatch.setattr(steps, "steps", torn)
            found = store.recover([made])
            assert [(each.refresh()).status for each in others] == ["completed"] * 3
            assert {each.id for each in found.runs} == {broken.id, *(each.id for each in others)}
            assert ((broken.refresh()).status, broken.record.reason) == ("parked", "damaged")
            assert "what is stored is no step" in str(broken.record.error)
            assert (store.recover([made])).runs == ()
            monkeypatch.undo()
            broken.resume()
            assert store.drive(made, key="broken") == 1

    def test_however_many_effects_of_runs_there_are_those_of_sessions_are_found(
        self, opener: Opener, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("perdure.handles.sync.recovery.LOOKED_AT", 3)

        @tool
        def send(n: int) -> None:
            raise OSError(n)

        def outer(run: Run, n: int) -> None:
            run.act(send, n)

        made = program(outer)
        with opener() as store:
            session = store.session("s")
            for n in range(5):
                with pytest.raises(InDoubt):
                    session.act(send, n, key=str(n))
            for n in range(5):
                driven(store, made, n, key=str(n))
            assert [each.args["n"] for each in (store.recover([made])).waiting] == [*range(5)]

    # -- children ------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("how", ["waits", "parked"])
    def test_a_child_that_cannot_go_on_does_not_keep_its_sister(self, opener: Opener, how: str) -> None:
        outside = Outside()

        def small(run: Run, name: str) -> str:
            if name == "stuck":
                if how == "parked":
                    raise Parked("stop", reason="x")
                run.ask("?")
            return run.step(outside.seen, name)

        child = agent(name="child")(small)

        def big(run: Run) -> list[str]:
            children = [run.start(child, name) for name in ("stuck", "free")]
            return [each.result() for each in reversed(children)]

        made = program(big)
        with opener() as store:
            for _ in range(2):
                assert type(driven(store, made)) is (Waiting if how == "waits" else Parked)
                assert outside.calls == ["free"]
            if how == "waits":
                store.answer((store.asks())[0].id, "go on")
                assert store.drive(made, key="k") == ["free", "stuck"]


def runs_once(store: Any, handle: Any) -> None:
    """A run that somebody had, and gave back."""
    core = store._caller.core
    lease = store._caller.write(leasing.claim, handle._stream, holder=core.holder, program="p", epoch=core.epoch)
    store._caller.write(leasing.fenced, lease, runs.release)
