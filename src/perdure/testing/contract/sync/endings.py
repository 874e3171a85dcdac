# Generated from testing/contract/aio/endings.py by tools/unasync.py: edit that one.
"""The contract of runs that are to end, because they were called off or their time is over: nothing new is sent (P13, P15)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from perdure.effects.tool import tool
from perdure.errors import Cancelled, Conflict, Failed, Invalid, Unavailable, Waiting
from perdure.handles.sync.run import Run
from perdure.handles.sync.sending import Sending
from perdure.model.records.conversation import Call
from perdure.model.records.effects import Absent, Happened, Unknown
from perdure.model.records.runs import RunStatus
from perdure.testing.contract.sync.doubt import probing
from perdure.testing.contract.sync.effects import Outside
from perdure.testing.contract.sync.going_on import when
from perdure.testing.contract.sync.runs import driven, program
from perdure.testing.openers import Opener


class EndingsContract:
    """A run that is to end does so, and what was only meant then is not sent any more."""

    @pytest.mark.parametrize("end", ["cancel", "timeout", "neither"])
    @pytest.mark.parametrize("meant", ["approved", "absent"])
    def test_what_is_planned_is_not_sent_when_the_run_is_to_end(self, opener: Opener, meant: str, end: str) -> None:
        outside = Outside()
        make = tool(undo=tool(kind="idempotent")(lambda: outside.seen("unmade")))(lambda: outside.seen("made"))

        @tool
        def pay() -> str:
            if outside.seen("paid") and meant == "absent" and outside.calls.count("paid") == 1:
                raise OSError("reset")
            return "done"

        def buy(run: Run) -> Any:
            run.act(make)
            return run.act(pay, approve="Pay?" if meant == "approved" else None)

        made = program(buy, timeout="1h")
        with opener() as store:
            assert type(driven(store, made)) is Waiting
            if meant == "approved":
                store.answer((store.asks())[0].id, "approve")
            else:
                (store.effects(state="in_doubt"))[0].settle(Absent())
            before = outside.calls.count("paid")
            if end == "cancel":  # it may have something to undo: whoever takes it next tells it
                assert ((store.runs())[0].cancel()).status == "ready"
            elif end == "timeout":
                opener.clock.advance("1h")
            ended = driven(store, made)
            assert type(ended) is {"cancel": Cancelled, "timeout": Failed}.get(end, str)
            assert outside.calls.count("paid") == before + (end == "neither")
            assert (store.verify()).ok

    @pytest.mark.parametrize("restored", [False, True])
    def test_who_cancels_after_a_restore_does_not_say_that_what_was_planned_was_never_sent(
        self, opener: Opener, restored: bool
    ) -> None:
        """Somebody may have approved of it after the backup, and it was sent: that it was called off only says that it shall
        not be sent.
        """
        outside = Outside()
        pay = tool(kind="idempotent", name="pay")(lambda: outside.seen("paid"))

        def buy(run: Run) -> Any:
            return run.act(pay, approve="Pay?")

        with opener() as store:
            assert type(driven(store, program(buy))) is Waiting
            store._caller.core.epoch += int(restored)  # as a store that was restored
            assert ((store.runs())[0].cancel()).status == "cancelled"
            (effect,) = store.effects()
            assert (effect.state, outside.calls) == ("in_doubt" if restored else "withdrawn", [])
            if restored:
                assert (effect.settle(Happened(7), by="ann")).state == "committed"
            assert (store.verify()).ok

    @pytest.mark.parametrize("end", ["cancel", "timeout"])
    def test_a_run_that_is_to_end_tries_nothing_once_more(self, opener: Opener, end: str) -> None:
        outside = Outside()
        with opener() as store:

            @tool(retries=5, backoff="1ms")
            def away() -> None:
                if outside.seen("tried") and outside.count == 2:
                    if end == "cancel":
                        (store.runs())[0].cancel("enough")
                    else:
                        opener.clock.advance("1h")
                raise Unavailable("not now")

            def outer(run: Run) -> None:
                run.act(away)

            ended = driven(store, program(outer, timeout="1h"))
            assert (type(ended), ended.code) == ((Cancelled, "Cancelled") if end == "cancel" else (Failed, "TimedOut"))
            assert outside.count == 2
            (effect,) = store.effects()
            assert effect.state == ("withdrawn" if end == "cancel" else "planned")
            assert (store.verify()).ok

    @pytest.mark.parametrize("sends", ["an effect", "a batch"])
    def test_a_cancel_that_is_first_seen_by_the_commit_of_a_dispatch_lets_nothing_be_sent(
        self, opener: Opener, sends: str
    ) -> None:
        outside = Outside()
        make = tool(undo=tool(kind="idempotent")(lambda: outside.seen("unmade")))(lambda: outside.seen("made"))
        pay = tool(limit=1, name="pay")(lambda n: outside.seen(f"paid {n}"))
        with opener() as store:

            def think() -> dict[str, Any]:
                (store.runs())[0].cancel("enough")
                return {"calls": [Call("a", "pay", {"n": 1}), Call("b", "pay", {"n": 2})]}

            def buy(run: Run) -> None:
                with run.saga():
                    run.act(make)
                    if sends == "a batch":
                        run.respond(think, tools=[pay])
                    else:
                        think()
                        run.act(pay, 1)

            assert type(driven(store, program(buy))) is Cancelled
            assert outside.calls == ["made", "unmade"]
            (handle,) = store.runs()
            # The answer of a model is paid for: it is kept, with what it meant.
            planned = ["withdrawn", "withdrawn"] if sends == "a batch" else []
            assert [each.state for each in handle.effects()] == ["undone", *planned, "committed"]
            assert len(handle.steps()) == (sends == "a batch")
            assert (store.session("s")).act(pay, 3) is not None  # its slot is free again
            assert (store.verify()).ok

    def test_nor_does_one_that_is_first_seen_by_the_commit_of_another_attempt(self, opener: Opener) -> None:
        outside = Outside()

        @tool(retries=5, backoff="1ms")
        def away() -> None:
            outside.seen("tried")
            raise Unavailable("not now")

        def outer(run: Run) -> None:
            run.act(away)

        with opener() as store:

            def slot(*_: Any) -> None:  # taken right before a dispatch
                if outside.count == 2:
                    (store.runs())[0].cancel("enough")

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Sending, "_take_slot", slot)
                assert type(driven(store, program(outer))) is Cancelled
            assert outside.count == 2
            assert [each.state for each in store.effects()] == ["withdrawn"]

    def test_a_run_whose_time_is_over_rests_while_it_is_in_doubt(self, opener: Opener) -> None:
        @tool
        def send() -> None:
            raise OSError("reset")

        def outer(run: Run) -> None:
            run.act(send)
            run.step(str)

        made = program(outer, timeout="1h")
        with opener() as store:
            assert type(driven(store, made)) is Waiting
            (handle,) = store.runs()
            assert handle.record.wake_at == handle.record.timeout_at
            opener.clock.advance("1h")
            assert len((store.recover([made])).runs) == 1  # it is looked at when its time is over
            assert ((handle.refresh()).status, handle.record.reason) == ("waiting", "doubt")
            assert handle.record.wake_at is None  # and then no more: else whoever looks takes it again and again
            assert (store.recover([made])).runs == ()
            (store.effects(state="in_doubt"))[0].settle(Happened())
            assert (driven(store, made)).code == "TimedOut"

    def test_doubt_that_time_may_settle_is_looked_at_again_after_that(self, opener: Opener) -> None:
        outside = Outside()
        send = probing(outside, [Unknown("no idea")])

        def outer(run: Run) -> None:
            run.act(send, "a")

        made = program(outer, timeout="1s")
        with opener() as store:
            assert type(driven(store, made)) is Waiting
            opener.clock.advance("10s")
            assert type(driven(store, made)) is Waiting
            (handle,) = store.runs()
            assert when(handle.record.wake_at) - opener.clock.now_us == 10_000_000

    def test_a_run_that_nobody_has_is_cancelled_at_once(self, opener: Opener) -> None:
        @tool
        def send() -> None: ...

        def wait(run: Run, approve: str | None) -> None:
            run.act(send, approve=approve)
            run.ask("?")

        made = program(wait)
        with opener() as store:
            for approve in (None, "Really?"):
                driven(store, made, approve, key=str(approve))
                (ask,) = store.asks()
                handle = (store.runs(status="waiting"))[0]
                assert (handle.cancel("enough")).status is RunStatus.CANCELLED
                with pytest.raises(Cancelled, match="enough"):
                    handle.result()
                assert store.asks() == []
                for late in (partial(store.answer, ask.id, "x"), partial(store.signal, handle.id, "s")):
                    with pytest.raises((Conflict, Invalid)):
                        late()
                assert handle.effects(open=True) == []
                assert (handle.cancel()).status == "cancelled"
            assert (store.verify()).ok

    def test_a_run_that_runs_is_told_at_its_next_step(self, opener: Opener) -> None:
        outside = Outside()
        with opener() as store:

            def cancelled_in_the_middle() -> None:
                (store.runs())[0].cancel("enough")

            def work(run: Run) -> None:
                run.step(cancelled_in_the_middle)
                run.step(outside.seen)

            refused = driven(store, program(work))
            assert (type(refused), outside.count) == (Cancelled, 0)
