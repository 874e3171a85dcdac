# Generated from testing/contract/aio/waits.py by tools/unasync.py: edit that one.
"""The contract of what runs wait for (people, times, signals), and of branches (P13, P15)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from perdure.effects.tool import Refuse, tool
from perdure.errors import Conflict, Failed, Invalid, NotFound, TimedOut, Waiting
from perdure.handles.sync.run import Run
from perdure.testing.contract.sync.effects import Outside
from perdure.testing.contract.sync.runs import driven, program
from perdure.testing.openers import Opener
from perdure.testing.races import Race


class WaitsContract:
    """Each wait is opened once and ends once."""

    def test_an_answer_is_taken_once_and_names_who_gave_it(self, opener: Opener) -> None:
        def asking(run: Run) -> list[Any]:
            return [run.ask("Merge?", choices=["merge", "hold"], detail={"n": 1}), run.ask("Why?")]

        made = program(asking)
        with opener(actor="ann") as x, opener(actor="ann") if opener.shared else x as y:
            driven(x, made)
            (ask,) = x.asks()
            assert (ask.question, ask.choices, ask.detail, ask.actor) == ("Merge?", ("merge", "hold"), {"n": 1}, "ann")
            with pytest.raises(Invalid) as no_choice:
                x.answer(ask.id, "burn")
            assert no_choice.value.path == "answer"
            outcomes = Race.between(
                partial(x.answer, ask.id, "merge", by="bob"), partial(y.answer, ask.id, "hold", by="eve")
            )
            assert len(outcomes.won) == 1
            assert type(outcomes.refused[0]) is Conflict
            (won,) = outcomes.won
            assert outcomes.refused[0].facts["met_by"] == won.met_by
            assert type(driven(x, made)) is Waiting
            (free,) = x.asks()
            x.answer(free.id, {"any": "value"})
            assert x.drive(made, key="k") == [won.answer, {"any": "value"}]
            assert [each.met_by for each in x.asks(state="met")] == ["ann", won.met_by]
            for wrong in ("run:nobody/1", ask.id.rpartition("/")[0] + "/999"):
                with pytest.raises(NotFound):
                    x.answer(wrong, "x")
            assert (x.verify()).ok

    def test_a_page_of_asks_or_of_a_timeline_says_whether_there_is_more(self, opener: Opener) -> None:
        """Questions and approvals in one order: nobody is asked without being listed on some page, and on one only."""

        @tool(kind="idempotent", name="paged-send")
        def send(name: str) -> str:
            return name

        def asking(run: Run, name: str) -> Any:
            return run.ask(name) if name in "ace" else run.act(send, name, approve=name)

        made = program(asking)
        with opener() as store:
            for name in "abcde":
                driven(store, made, name, key=name)
                opener.clock.advance("1s")
            seen = [page := store.asks(limit=2)]
            while page.next is not None:
                seen.append(page := store.asks(limit=2, after=page.next))
            assert [[each.question for each in page] for page in seen] == [["e", "d"], ["c", "b"], ["a"]]
            assert (store.asks(limit=5)).next is None
            handle = (store.runs())[0]
            whole = handle.timeline()
            newest = handle.timeline(last=2)
            older = handle.timeline(before=newest.next)
            assert [*older, *newest] == whole
            assert (whole.next, older.next) == (None, None)

    def test_after_its_time_the_default_stands(self, opener: Opener) -> None:
        def asking(run: Run) -> Any:
            return run.ask("Merge?", choices=["merge", "hold"], timeout="2d", default="hold")

        def wrong(run: Run) -> Any:
            return run.ask("Merge?", choices=["merge"], timeout="2d", default="burn")

        made = program(asking)
        with opener() as store:
            driven(store, made)
            (ask,) = store.asks()
            opener.clock.advance("2d")
            with pytest.raises(Conflict, match="is over"):
                store.answer(ask.id, "merge")
            assert store.asks() == []
            assert [each.id for each in store.asks(state="expired")] == [ask.id]
            assert [each.state.value for each in store.asks(state=None)] == ["expired"]
            assert store.drive(made, key="k") == "hold"
            assert (store.asks(state="expired"))[0].met_by == "the clock"
            assert (driven(store, program(wrong), key="wrong")).code == "Invalid"

    def test_a_sleep_without_an_end_is_refused(self, opener: Opener) -> None:
        def nap(run: Run, duration: Any) -> None:
            run.sleep(duration)

        with opener() as store:
            for duration in (None, 0, "soon"):
                with pytest.raises(Failed, match="duration: ") as refused:
                    store.drive(program(nap), duration)
                assert refused.value.code == "Invalid"

    def test_a_sleep_ends_by_the_clock_of_the_store(self, opener: Opener) -> None:
        outside = Outside()

        def nap(run: Run) -> str:
            run.sleep("10m")
            return run.step(outside.seen, "awake")

        made = program(nap)
        with opener() as store:
            for passed in ("1m", "9m"):
                assert type(driven(store, made)) is Waiting
                (handle,) = store.runs()
                assert (handle.status, handle.record.reason, outside.count) == ("waiting", "sleep", 0)
                opener.clock.advance(passed)
            assert store.drive(made, key="k") == "awake"
            assert outside.count == 1

    def test_a_signal_is_kept_until_it_is_taken(self, opener: Opener) -> None:
        def listen(run: Run) -> list[Any]:
            return [run.wait("ci"), run.wait("ci"), run.wait("other", timeout="1h", default="none")]

        made = program(listen)
        with opener() as store:
            handle = store.start(made, key="k")
            handle.signal("ci", {"n": 1})  # before anybody waits
            waiting = driven(store, made)
            assert (type(waiting), waiting.message) == (Waiting, "it waits: the signal 'ci'")
            assert f"store.signal('{handle.id}', 'ci')" in waiting.hint
            handle.signal("unheard")
            assert (handle.refresh()).status == "waiting"
            store.signal(handle.id, "ci", {"n": 2})  # after
            assert (handle.refresh()).status == "ready"
            driven(store, made)
            opener.clock.advance("1h")
            assert store.drive(made, key="k") == [{"n": 1}, {"n": 2}, "none"]
            with pytest.raises(Conflict) as over:
                handle.signal("ci")
            assert over.value.facts["status"] == "completed"
            with pytest.raises(Invalid):
                store.signal(handle.id, "")
            assert (store.verify()).ok

    def test_a_signal_that_does_not_come_is_timed_out(self, opener: Opener) -> None:
        def listen(run: Run) -> str:
            try:
                run.wait("ci", timeout="1h")
            except TimedOut as late:
                return late.path
            return "came"

        made = program(listen)
        with opener() as store:
            driven(store, made)
            opener.clock.advance("1h")
            assert store.drive(made, key="k") == "signal"

    # -- approvals in runs -----------------------------------------------------------------------------------------

    def test_an_approval_is_of_one_call_and_is_used_once(self, opener: Opener) -> None:
        outside = Outside()

        @tool
        def pay(n: int) -> int:
            if outside.seen(n) and outside.count == 1:
                raise Failed("not now", code="NotNow")
            return n

        def spend(run: Run) -> int:
            return run.act(pay, 5, approve="Pay?")

        made = program(spend)
        with opener() as store:
            for answers, expected in ((["refuse"], "Refused"), (["approve"], "NotNow")):
                for answer in answers:
                    driven(store, made)
                    (ask,) = store.asks()
                    assert (ask.question, ask.detail) == ("Pay?", {"tool": "pay", "args": {"n": 5}})
                    store.answer(ask.id, answer, by="ann")
                refused = driven(store, made)
                assert refused.code == expected
                (handle,) = store.runs()
                handle.retry()
            assert type(driven(store, made)) is Waiting  # what was approved was tried; it must be approved anew
            store.answer((store.asks())[0].id, "approve")
            assert store.drive(made, key="k") == 5
            assert outside.count == 2
            assert (store.verify()).ok

    def test_guards_and_time_refuse_in_a_run_too(self, opener: Opener) -> None:
        outside = Outside()

        @tool(guards=[lambda *_: Refuse("never")])
        def never() -> None:
            outside.seen()

        @tool
        def late() -> None:
            outside.seen()

        def careless(run: Run) -> list[str]:
            said = []
            for act in (partial(run.act, never), partial(run.act, late, approve="?", approve_within="1h")):
                try:
                    act()
                except Failed as refused:
                    said.append(refused.message)
            return said

        made = program(careless)
        with opener() as store:
            driven(store, made)
            opener.clock.advance("1h")
            assert store.drive(made, key="k") == ["never", "nobody approved in time"]
            assert outside.count == 0
