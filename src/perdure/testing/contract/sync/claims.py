# Generated from testing/contract/aio/claims.py by tools/unasync.py: edit that one.
"""The contract of claims on tasks: one holder, fenced by a token (P7), freed by time or by death."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from perdure.errors import Conflict, Stale
from perdure.testing.openers import Opener
from perdure.testing.races import Race


class ClaimsContract:
    """What every store must do with claims."""

    def test_a_claim_keeps_others_off(self, opener: Opener) -> None:
        with opener(actor="alice") as a, opener(actor="bob") if opener.shared else a as b:
            task = (a.session("s")).task("t")
            task.claim(ttl="1h")
            assert (task.status, task.claimed_by, task.token) == ("doing", "alice", 1)
            assert task.claim_expires_at == task.at + timedelta(hours=1)
            (seen,) = (b.session("s")).tasks()
            for verb in (seen.claim, seen.done, seen.fail, seen.release, partial(seen.block, "mine")):
                with pytest.raises(Conflict) as refused:
                    verb()
                assert refused.value.facts["claimed_by"] == "alice"
                assert refused.value.facts["holder"] == task.record.holder
            assert (b.session("s")).ready() == []
            task.done("finished")
            assert (seen.refresh()).status == "done"

    def test_a_claim_ends_with_its_time_and_the_old_one_is_fenced_off(self, opener: Opener) -> None:
        with opener() as a, opener() if opener.shared else a as b:
            session, other = a.session("s"), b.session("s")
            old = (session.task("t")).claim(ttl="10s")
            opener.clock.advance("10s")
            (found,) = other.ready()
            assert (found.status, found.abandoned) == ("doing", True)
            new = found.claim(ttl="10s")
            assert new.token == old.token + 1
            for verb in (
                old.done,
                old.fail,
                old.release,
                old.cancel,
                partial(old.need, 1),
                partial(old.block, "x"),
            ):
                with pytest.raises(Stale):
                    verb()
            assert (old.refresh()).status == "doing"
            new.done()

    def test_whose_claim_nobody_took_may_still_finish(self, opener: Opener) -> None:
        with opener() as store:
            task = ((store.session("s")).task("t")).claim(ttl="10s")
            opener.clock.advance("1h")
            assert (task.done()).status == "done"

    def test_a_dead_claimer_frees_its_tasks(self, opener: Opener) -> None:
        if not opener.shared:
            pytest.skip("a memory store dies with its process")
        with opener() as a, opener() as b:
            session, other = a.session("s"), b.session("s")
            old = (session.task("t")).claim()
            assert other.ready() == []
            opener.clock.advance("1h")  # no heartbeat comes any more
            new = other.claim_next()
            assert new is not None
            assert (new.id, new.token) == (old.id, 2)
            with pytest.raises(Stale):
                old.done()

    def test_closing_a_store_frees_its_tasks_at_once(self, opener: Opener) -> None:
        if not opener.shared:
            pytest.skip("a memory store is gone when it is closed")
        a = opener()
        ((a.session("s")).task("t")).claim()
        a.close()
        with opener() as b:
            (found,) = (b.session("s")).ready()
            assert found.abandoned
            assert (found.claim()).token == 2

    def test_anybody_may_cancel(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            task = (session.task("t")).claim()
            (seen,) = session.tasks()
            seen.cancel("no longer wanted")
            with pytest.raises(Stale):
                task.done()
            assert (task.refresh()).note == "no longer wanted"

    def test_of_two_claimers_one_wins(self, opener: Opener) -> None:
        with opener() as a, opener() if opener.shared else a as b:
            one, other = a.session("s"), b.session("s")
            for _ in range(6):
                task = one.task("t")
                (seen,) = other.tasks(limit=1)
                outcomes = Race.between(task.claim, seen.claim)
                assert len(outcomes.won) == 1
                assert type(outcomes.refused[0]) is Conflict
                assert outcomes.refused[0].facts["holder"] == outcomes.won[0].record.holder
                outcomes.won[0].done()

    def test_of_two_who_take_over_one_wins(self, opener: Opener) -> None:
        with opener() as a, opener() if opener.shared else a as b:
            one, other = a.session("s"), b.session("s")
            task = one.task("t")
            for token in range(1, 5):
                (seen,) = other.tasks()
                outcomes = Race.between(partial(task.claim, "10s"), partial(seen.claim, "10s"))
                assert [won.token for won in outcomes.won] == [token]
                opener.clock.advance("10s")

    def test_finishing_and_taking_over_do_not_both_happen(self, opener: Opener) -> None:
        with opener() as a, opener() if opener.shared else a as b:
            one, other = a.session("s"), b.session("s")
            for _ in range(6):
                task = (one.task("t")).claim(ttl="10s")
                opener.clock.advance("10s")
                (seen,) = other.tasks(limit=1)
                outcomes = Race.between(task.done, seen.claim)
                assert len(outcomes.won) == 1
                assert isinstance(outcomes.refused[0], Conflict)
                seen.cancel() if outcomes.won == [seen] else None

    def test_workers_share_out_the_plan(self, opener: Opener) -> None:
        with opener() as a, opener() if opener.shared else a as b:
            one, other = a.session("s"), b.session("s")
            ids = {(one.task(f"t{i}")).id for i in range(12)}
            outcomes = Race.between(*[handle.claim_next for handle in [one, other] * 7])
            assert outcomes.refused == []
            taken = [task.id for task in outcomes if task is not None]
            assert len(taken) == 12
            assert set(taken) == ids
            for task in outcomes:
                task.done() if task is not None else None
            assert one.ready() == []
