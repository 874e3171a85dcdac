# Generated from testing/contract/aio/runs.py by tools/unasync.py: edit that one.
"""The contract of runs: driven by replay, each thing once; a changed program is named; leases are fenced (P3, P7, P13)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from perdure.effects.tool import tool
from perdure.errors import (
    Conflict,
    Error,
    Failed,
    Invalid,
    KeyReused,
    NotFound,
    Refused,
    Stale,
    TimedOut,
    Waiting,
)
from perdure.handles.sync.run import Run
from perdure.handles.sync.runs import RunHandle
from perdure.handles.sync.store import Store
from perdure.planes import leasing, steps
from perdure.runtime.agent import Agent, agent
from perdure.testing.contract.sync.effects import Outside
from perdure.testing.goods import Price
from perdure.testing.openers import Opener
from perdure.testing.races import Race


def program(fn: Any, **declared: Any) -> Agent:
    """A function as the agent `a`: another program under the same name is what a deploy brings."""
    return agent(name="a", **declared)(fn)


def driven(store: Store, made: Agent, *args: Any, key: str = "k", **kwargs: Any) -> Any:
    """Drive it; what it is refused with counts as what it gave."""
    try:
        return store.drive(made, *args, key=key, **kwargs)
    except Error as error:
        return error


def claimed(store: Store, handle: RunHandle) -> leasing.Lease | None:
    """Take a run as a worker does."""
    core = store._caller.core
    return store._caller.write(leasing.claim, handle._stream, holder=core.holder, program="p", epoch=core.epoch)


class RunsContract:
    """Starting, driving, replaying."""

    def test_a_run_does_each_thing_once_however_often_it_is_driven(self, opener: Opener) -> None:
        outside = Outside()

        def draft(issue: int) -> str:
            return outside.seen(f"draft {issue}")

        @tool
        def send(text: str) -> str:
            return outside.seen(f"sent {text}")

        def fix(run: Run, issue: int, *, loud: bool = False) -> list[str]:
            plan = run.step(draft, issue)
            sent = run.act(send, plan)
            said = run.ask("Go on?")
            return [plan, sent, said, str(loud)]

        made = program(fix)
        with opener(actor="ann") as store:
            handle = store.start(made, 7, key="k", session="s", loud=True)
            assert (handle.status, handle.record.session, handle.record.creator) == ("ready", "s", "ann")
            for _ in range(2):
                store.start(made, 7, key="k", session="s", loud=True)
                assert handle.resume() is handle
            with pytest.raises(Waiting) as waiting:
                store.drive(made, 7, key="k", session="s", loud=True)
            handle.resume()
            assert type(driven(store, made, 7, session="s", loud=True)) is Waiting
            (ask,) = handle.waits()
            assert (waiting.value.facts["asks"], waiting.value.facts["run"]) == ([ask.id], handle.id)
            assert f"perdure answer {ask.id}" in waiting.value.hint
            store.answer(ask.id, "yes", by="bob")
            expected = ["draft 7", "sent draft 7", "yes", "True"]
            assert store.drive(made, 7, key="k", session="s", loud=True) == expected
            assert handle.result() == expected
            assert store.drive(made, 7, key="k", session="s", loud=True) == expected
            assert outside.calls == ["draft 7", "sent draft 7"]
            (effect,) = handle.effects()
            assert (effect.state, effect.record.place) == ("committed", "0//2")
            assert [each.id for each in store.runs(agent="a", session="s", status="completed")] == [handle.id]
            assert (store.verify()).ok

    def test_who_fails_without_a_word_is_known_by_the_name_of_what_it_raised(self, opener: Opener) -> None:
        def silent(_run: Run) -> None:
            raise ValueError

        with opener() as store:
            failed = driven(store, program(silent))
            assert (failed.code, failed.message) == ("ValueError", "ValueError")

    def test_the_same_key_is_the_same_run(self, opener: Opener) -> None:
        def same(_run: Run, n: int) -> int:
            return n

        made = program(same)
        with opener() as store:
            first = store.start(made, 1, key="k")
            assert (store.start(made, 1, key="k")).id == first.id
            with pytest.raises(KeyReused) as refused:
                store.start(made, 2, key="k")
            assert (refused.value.path, refused.value.facts["run"]) == ("key", first.id)
            assert refused.value.facts["stored"] != refused.value.facts["given"]
            assert (store.start(made, 1)).id != (store.start(made, 1)).id
            assert len(store.runs()) == 3

    def test_many_who_start_it_at_once_start_one(self, opener: Opener) -> None:
        def same(run: Run) -> None: ...

        made = program(same)
        with opener() as x, opener() if opener.shared else x as y:
            for number in range(4):
                key = f"k{number}"
                outcomes = Race.between(*[partial(each.start, made, key=key) for each in (x, y, x, y)])
                assert outcomes.refused == []
                assert len({handle.id for handle in outcomes.won}) == 1
            assert len(x.runs()) == 4

    def test_of_two_who_claim_one_gets_it(self, opener: Opener) -> None:
        def same(run: Run) -> None: ...

        made = program(same)
        with opener() as x, opener() if opener.shared else x as y:
            for _ in range(4):
                handle = x.start(made)
                outcomes = Race.between(partial(claimed, x, handle), partial(claimed, y, handle))
                assert len([each for each in outcomes if each is not None]) == 1
                assert (handle.refresh()).record.token == 1
                if opener.shared:
                    with pytest.raises(Conflict) as held:
                        _drive_again(y if outcomes[0] is not None else x, made, handle)
                    assert held.value.facts["holder"] == handle.record.holder

    def test_registered_types_go_in_and_out(self, opener: Opener) -> None:
        def double(price: Price) -> Price:
            return Price(price.amount * 2, price.currency)

        @tool
        def pay(price: Price) -> Price:
            return Price(-price.amount, price.currency)

        def shop(run: Run, price: Price) -> list[Price]:
            twice = run.step(double, price)
            return [price, twice, run.act(pay, twice)]

        with opener() as store:
            expected = [Price(1, "EUR"), Price(2, "EUR"), Price(-2, "EUR")]
            assert store.drive(program(shop), Price(1, "EUR"), key="k") == expected
            (handle,) = store.runs()
            assert (handle.result(), handle.record.args) == (expected, [Price(1, "EUR")])
            (effect,) = handle.effects()
            assert effect.record.args == {"price": Price(2, "EUR")}

    def test_time_and_chance_stay_the_same(self, opener: Opener) -> None:
        seen: list[Any] = []

        def dice(run: Run) -> None:
            seen.append([run.now(), run.uuid(), run.uuid(), run.random(), run.random()])
            run.ask("?")

        made = program(dice)
        with opener() as store:
            for _ in range(3):
                driven(store, made)
                opener.clock.advance("1h")
                (store.runs())[0].resume()
            driven(store, made, key="other")
            assert seen[0] == seen[1] == seen[2]
            now, one, two, x, y = seen[0]
            assert (one != two, x != y, 0 <= x < 1, now.tzinfo is not None, one.version) == (True, True, True, True, 4)
            assert seen[3][1] != one

    def test_a_step_that_fails_is_kept_when_the_program_goes_on(self, opener: Opener) -> None:
        outside = Outside()

        def flaky() -> None:
            outside.seen()
            raise (KeyError if outside.count == 1 else Failed)("gone")

        def careful(run: Run) -> list[str]:
            codes = []
            for _ in range(2):
                try:
                    run.step(flaky)
                except Failed as failed:
                    codes.append(failed.code)
            run.ask("?")
            return codes

        made = program(careful)
        with opener() as store:
            driven(store, made)
            (store.runs())[0].resume()
            driven(store, made)
            store.answer((store.asks())[0].id, "x")
            assert store.drive(made, key="k") == ["KeyError", "Failed"]
            assert outside.count == 2

    def test_a_run_that_failed_can_be_tried_again_where_it_failed(self, opener: Opener) -> None:
        outside = Outside()

        def first() -> str:
            return outside.seen("first")

        def second() -> str:
            if outside.seen("second") and outside.count < 3:
                raise ValueError("not yet")
            return "done"

        def two(run: Run) -> str:
            return run.step(first) + run.step(second)

        made = program(two)
        with opener() as store:
            refused = driven(store, made)
            assert (type(refused), refused.code, refused.message) == (Failed, "ValueError", "step second: not yet")
            (handle,) = store.runs(status="failed")
            assert driven(store, made) is not None  # it is over: driving it again does nothing
            assert outside.calls == ["first", "second"]
            handle.retry()
            assert store.drive(made, key="k") == "firstdone"
            assert outside.calls == ["first", "second", "second"]
            with pytest.raises(Conflict):
                handle.retry()
            assert (store.verify()).ok

    def test_only_the_effect_that_ended_it_is_tried_again(self, opener: Opener) -> None:
        outside = Outside()

        @tool
        def send(what: str) -> str:
            outside.seen(what)
            if what == "a" or outside.calls.count(what) == 1:
                raise Failed(f"no {what}", code="No")
            return what

        def note(text: str) -> str:
            return text

        def two(run: Run) -> list[str]:
            said = []
            try:
                run.act(send, "a")
            except Failed as failed:
                said.append(run.step(note, failed.message))
            return [*said, run.act(send, "b")]

        made = program(two)
        with opener() as store:
            refused = driven(store, made)
            assert (refused.code, refused.message.endswith(": no b")) == ("No", True)
            (handle,) = store.runs()
            handle.retry()
            assert store.drive(made, key="k") == ["no a", "b"]
            assert outside.calls == ["a", "b", "b"]

    # -- leases ------------------------------------------------------------------------------------------------------------

    def test_a_stale_lease_writes_nothing(self, opener: Opener) -> None:
        if not opener.shared:
            pytest.skip("a memory store has one holder")
        outside = Outside()
        with opener() as a, opener() as b:

            def usurped(n: int) -> int:
                if outside.count == 0:
                    outside.seen("first")
                    opener.clock.advance("1h")  # no heartbeat came: somebody else takes it
                    assert claimed(b, handle) is not None
                return outside.seen(n)

            def work(run: Run) -> int:
                return run.step(usurped, 1)

            made = program(work)
            handle = a.start(made, key="k")
            with pytest.raises(Conflict):  # b has it
                a.drive(made, key="k")
            done = b._caller.read(steps.steps, handle._stream)
            assert (done, (handle.refresh()).record.token) == ([], 2)
            opener.clock.advance("1h")
            assert b.drive(made, key="k") == 1
            assert (handle.refresh()).record.token == 3
            assert (b.verify()).ok

    def test_the_lease_is_looked_at_once_more_before_anything_is_sent(self, opener: Opener) -> None:
        if not opener.shared:
            pytest.skip("a memory store has one holder")
        outside = Outside()
        with opener() as a, opener() as b:

            @tool
            def send() -> int:
                return outside.seen(1)

            def work(run: Run) -> int:
                run._driving.acting._check = partial(_lose, run, opener, b)
                return run.act(send)

            def later(run: Run) -> int:
                return run.act(send)

            handle = a.start(program(work), key="k")
            with pytest.raises(Conflict):
                a.drive(program(work), key="k")
            (effect,) = handle.effects()
            assert (outside.count, effect.state, effect.record.attempt) == (0, "planned", 1)
            opener.clock.advance("1h")
            assert b.drive(program(later), key="k") == 1
            assert outside.count == 1

    def test_a_run_whose_driver_went_away_can_be_had_again_here(self, opener: Opener) -> None:
        def work(_run: Run) -> int:
            return 1

        made = program(work)
        with opener() as store:
            handle = store.start(made, key="k")
            assert claimed(store, handle) is not None  # claimed, and never driven
            assert store.drive(made, key="k") == 1

    # -- asking --------------------------------------------------------------------------------------------------------------

    def test_runs_are_listed_and_found(self, opener: Opener) -> None:
        def work(run: Run) -> None: ...

        with opener() as store:
            ids = [(store.start(program(work))).id for _ in range(5)]
            page = store.runs(limit=3)
            rest = store.runs(limit=3, after=page.next)
            assert [each.id for each in [*page, *rest]] == ids[::-1]
            assert (rest.next, store.runs(status="failed"), store.runs(agent="other")) == (None, [], [])
            with pytest.raises(Invalid):
                store.runs(status="lost")
            with pytest.raises(NotFound):
                store.run("nobody")
            with pytest.raises(TimedOut):
                (store.run(ids[0])).result(timeout=0.001)
            handle = store.run(ids[0])
            assert ids[0] in repr(handle)

    def test_a_run_that_takes_too_long_fails_also_while_it_waits(self, opener: Opener) -> None:
        def wait(run: Run) -> None:
            run.ask("?")

        made = program(wait, timeout="1h")
        with opener() as store:
            assert type(driven(store, made)) is Waiting
            opener.clock.advance("1h")
            refused = driven(store, made)
            assert (type(refused), refused.code) == (Failed, "TimedOut")
            assert store.asks() == []

    def test_steps_refuse_what_they_must_not_call(self, opener: Opener) -> None:
        @tool
        def send() -> None: ...

        @tool(kind="read")
        def look() -> str:
            return "seen"

        def nested(run: Run) -> None:
            run.step(str, 1)

        def wrong(run: Run) -> list[str]:
            paths = []
            no_function: Any = 7
            for verb in (partial(run.step, send), partial(run.act, look), partial(run.step, no_function)):
                try:
                    verb()
                except (Refused, Invalid) as refused:
                    paths.append(refused.path)
            try:
                run.step(partial(nested, run))
            except Failed as failed:
                paths.append(failed.code)
            return [*paths, run.step(look)]

        with opener() as store:
            assert store.drive(program(wrong), key="k") == ["step", "tool", "step", "Refused", "seen"]

    def test_several_verbs_in_the_commit_of_a_step(self, opener: Opener) -> None:
        def note(run: Run) -> Any:
            said = run.atomic(lambda tx: tx.session("notes").say("user", "x").seq)
            run.ask("?")
            return said

        made = program(note)
        with opener() as store:
            for _ in range(3):
                driven(store, made)
                (store.runs())[0].resume()
            assert len((store.session("notes")).turns(last=9)) == 1


def _drive_again(store: Store, made: Agent, handle: RunHandle) -> Any:
    return store._driven(handle.refresh(), {made.name: made})


def _lose(run: Run, opener: Opener, other: Store) -> None:
    """The lease is lost right before the call."""
    opener.clock.advance("1h")
    assert claimed(other, other.run(run.id)) is not None
    raise Stale("lost", path="run")
