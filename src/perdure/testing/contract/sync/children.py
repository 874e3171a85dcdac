# Generated from testing/contract/aio/children.py by tools/unasync.py: edit that one.
"""The contract of runs that start others: begun once, heard of once, and cancelled with who started them (P13)."""

from __future__ import annotations

import pytest

from perdure.errors import Cancelled, Failed, Waiting
from perdure.handles.sync.run import Run
from perdure.runtime.agent import agent
from perdure.testing.contract.sync.effects import Outside
from perdure.testing.contract.sync.runs import claimed, driven, program
from perdure.testing.openers import Opener


class ChildrenContract:
    """A run hears of the end of each run that it started, and takes them with it when it is cancelled."""

    def test_a_child_is_started_once_and_its_parent_hears_of_its_end(self, opener: Opener) -> None:
        outside = Outside()

        def work(run: Run, how: str) -> str:
            run.step(outside.seen, how)
            if how == "fails":
                raise ValueError("no")
            if how == "asks":
                return run.ask("Child?")
            return how

        child = agent(name="child")(work)

        def lead(run: Run) -> list[str]:
            said = [run.call(child, "works")]
            try:
                run.call(child, "fails")
            except Failed as failed:
                said.append(failed.code)
            asked = run.start(child, "asks")
            return [*said, asked.result()]

        made = program(lead)
        with opener() as store:
            with pytest.raises(Waiting) as waiting:
                store.drive(made, key="k")
            assert type(driven(store, made)) is Waiting
            (ask,) = store.asks()
            assert (waiting.value.facts["asks"], ask.question) == ([ask.id], "Child?")
            store.answer(ask.id, "answered")
            assert store.drive(made, key="k") == ["works", "ValueError", "answered"]
            assert outside.calls == ["works", "fails", "asks"]
            (parent,) = store.runs(agent="a")
            assert len(store.runs(parent=parent.id)) == 3
            assert (store.verify()).ok

    def test_a_run_that_ended_by_its_child_is_tried_again_with_it(self, opener: Opener) -> None:
        outside = Outside()

        def flaky() -> str:
            if outside.seen("tried") and len(outside.calls) < 3:
                raise ValueError("not yet")
            return "done"

        def work(run: Run) -> str:
            return run.step(flaky)

        child = agent(name="child")(work)

        def lead(run: Run) -> str:
            return run.call(child)

        made = program(lead)
        with opener() as store:
            for _ in range(2):
                with pytest.raises(Failed, match="not yet"):
                    store.drive(made, key="k")
                (parent,) = store.runs(agent="a")
                parent.retry()
            assert store.drive(made, key="k") == "done"
            assert outside.calls == ["tried"] * 3
            assert len(store.runs(agent="child")) == 1
            assert (store.verify()).ok

    def test_a_child_that_is_cancelled_fails_for_its_parent(self, opener: Opener) -> None:
        def wait(run: Run) -> None:
            run.ask("?")

        child = agent(name="child")(wait)

        def lead(run: Run) -> str:
            try:
                run.call(child)
            except Failed as failed:
                return failed.code
            return "?"

        made = program(lead)
        with opener() as store:
            driven(store, made)
            (handle,) = store.runs(agent="child")
            handle.cancel("enough")
            assert store.drive(made, key="k") == "Cancelled"

    def test_the_children_of_a_cancelled_run_are_cancelled_with_it(self, opener: Opener) -> None:
        outside = Outside()

        def ask(run: Run, what: str) -> str:
            return run.ask(what) if what else run.step(outside.seen, "done")

        youngest = agent(name="youngest")(ask)

        def middle(run: Run) -> str:
            return run.call(youngest, "Deep?")

        child = agent(name="middle")(middle)

        def lead(run: Run) -> list[str]:
            done = run.call(youngest, "")
            started = [run.start(youngest, "Asked?"), run.start(child)]
            return [done, *[each.result() for each in started]]

        made = program(lead)
        with opener() as store:
            assert type(driven(store, made)) is Waiting
            (handle,) = store.runs(agent="a")
            for each in store.runs(agent="middle"):
                with pytest.raises(Waiting):
                    store._driven(each, {"middle": child, "youngest": youngest})
            bystander = store.start(youngest, "Asked?")
            handle.cancel("enough")
            stand = {str(each.record.args): each.status.value for each in store.runs(parent=handle.id)}
            assert stand == {"['']": "completed", "['Asked?']": "cancelled", "[]": "cancelled"}
            (below,) = store.runs(agent="youngest", parent=(store.runs(agent="middle"))[0].id)
            assert below.status == "cancelled"
            with pytest.raises(Cancelled, match="which started it, was cancelled"):
                below.result()
            assert (bystander.refresh()).status == "ready"
            assert store.asks() == []
            assert (store.verify()).ok

    def test_a_child_that_somebody_has_is_told_and_one_that_failed_leaves_its_own(self, opener: Opener) -> None:
        def wait(run: Run) -> None:
            run.ask("?")

        child = agent(name="child")(wait)

        def lead(run: Run, *, fails: bool) -> None:
            run.start(child)
            if fails:
                raise ValueError("no")
            run.ask("!")

        made = program(lead)
        with opener() as store:
            driven(store, made, key="told", fails=False)
            (running,) = store.runs(agent="child")
            running.resume()
            assert claimed(store, running) is not None
            (parent,) = store.runs(agent="a")
            parent.cancel()
            told = (running.refresh()).record
            assert (told.status, told.cancelling) == ("running", True)
            assert type(driven(store, made, key="failed", fails=True)) is Failed
            (left,) = store.runs(agent="child", status="ready")
            assert not left.record.cancelling

    def test_what_was_cancelled_with_a_run_is_tried_again_with_it(self, opener: Opener) -> None:
        def ask(run: Run, what: str) -> str:
            return run.ask(what)

        child = agent(name="child")(ask)

        def lead(run: Run) -> list[str]:
            said: list[str] = []
            for what in ("one", "two"):
                try:
                    said.append(run.call(child, what))
                except Failed as failed:
                    said.append(failed.code)
            return said

        made = program(lead)
        with opener() as store:
            driven(store, made)
            (first,) = store.runs(agent="child")
            first.cancel("this one alone")
            driven(store, made)
            (parent,) = store.runs(agent="a")
            assert (parent.cancel()).status == "cancelled"
            parent.retry()
            assert (first.refresh()).status == "cancelled"
            assert type(driven(store, made)) is Waiting
            (ask_again,) = store.asks()
            store.answer(ask_again.id, "yes")
            assert store.drive(made, key="k") == ["Cancelled", "yes"]
            assert len(store.runs(agent="child")) == 2
            assert (store.verify()).ok

    def test_what_a_failed_run_waited_for_is_waited_for_anew(self, opener: Opener) -> None:
        outside = Outside()

        def work(run: Run) -> str:
            return run.step(outside.seen, "child")

        child = agent(name="child")(work)

        def lead(run: Run) -> str:
            started = run.start(child)
            if outside.seen("lead") and outside.count == 1:
                raise ValueError("too early")
            return started.result()

        made = program(lead)
        with opener() as store:
            assert type(driven(store, made)) is Failed
            assert store.drive(child, key="other") == "child"
            for each in store.runs(agent="child", status="ready"):
                assert store._driven(each, {"child": child}) == "child"
            (handle,) = store.runs(agent="a")
            handle.retry()
            assert store.drive(made, key="k") == "child"
            assert len(store.runs(agent="child")) == 2
