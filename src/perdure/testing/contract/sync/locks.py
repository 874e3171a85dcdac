# Generated from testing/contract/aio/locks.py by tools/unasync.py: edit that one.
"""The contract of locks: one holder, a token that grows, a deadline, and Stale for whoever lost it (P7)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.errors import Conflict, Invalid, Refused, Stale, TimedOut
from perdure.testing.openers import Opener
from perdure.testing.races import Race


class LocksContract:
    """What every store must do with locks."""

    def test_a_lock_has_one_holder(self, opener: Opener) -> None:
        with opener(actor="alice") as a, opener(actor="bob") if opener.shared else a as b:
            one, other = a.session("s"), b.session("s")
            with one.lock("deploy", ttl="30s") as lock:
                with pytest.raises(Conflict) as refused:
                    other.lock("deploy").__enter__()
                assert refused.value.path == "lock"
                assert refused.value.facts["holder"].startswith("alice@")
                assert refused.value.facts["deadline"] == lock.deadline
                with other.lock("another") as free:
                    assert free.token == 1
            with other.lock("deploy") as next_lock:
                assert next_lock.token == 2

    def test_the_token_grows_for_ever(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            tokens = []
            for _ in range(3):
                with session.lock("x") as lock:
                    tokens.append(lock.token)
            assert tokens == [1, 2, 3]

    def test_a_lock_is_free_when_its_time_is_over(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            old = session.lock("x", ttl="10s").__enter__()
            opener.clock.advance("10s")
            with pytest.raises(Stale):
                old.check()
            with session.lock("x", ttl="10s") as new:
                assert new.token == old.token + 1
                new.check()
                for verb in (old.check, old.renew):
                    with pytest.raises(Stale) as refused:
                        verb()
                    assert refused.value.facts["token"] == new.token
                with pytest.raises(Stale):
                    old.__exit__(None, None, None)
                new.check()

    def test_a_deadline_that_passed_inside_is_told_on_leaving(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            with pytest.raises(Stale):
                with session.lock("x", ttl="10s"):
                    opener.clock.advance("10s")
            with session.lock("x"):
                pass

    def test_an_exception_on_its_way_goes_before_stale(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")

            def lose_it_and_fail() -> None:
                with session.lock("x", ttl="10s"):
                    opener.clock.advance("10s")
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError) as failed:
                lose_it_and_fail()
            assert any("no longer held" in note for note in failed.value.__notes__)
            with pytest.raises(ZeroDivisionError):
                with session.lock("x"):
                    raise ZeroDivisionError
            with session.lock("x"):
                pass

    def test_renewing_moves_the_deadline(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            with session.lock("x", ttl="10s") as lock:
                was = lock.deadline
                opener.clock.advance("9s")
                lock.renew()
                assert lock.deadline == was + timedelta(seconds=9)
                opener.clock.advance("9s")
                lock.check()
                lock.renew("1h")
                opener.clock.advance("59m")
                lock.check()

    def test_of_two_who_acquire_one_gets_it(self, opener: Opener) -> None:
        with opener() as a, opener() if opener.shared else a as b:
            one, other = a.session("s"), b.session("s")
            for i in range(8):
                locks = [handle.lock(f"n{i}") for handle in (one, other, one)]
                outcomes = Race.between(*[lock.__enter__ for lock in locks])
                assert len(outcomes.won) == 1
                assert {type(error) for error in outcomes.refused} == {Conflict}
                outcomes.won[0].check()

    def test_of_two_who_take_over_one_gets_it(self, opener: Opener) -> None:
        with opener() as a, opener() if opener.shared else a as b:
            one, other = a.session("s"), b.session("s")
            for _ in range(5):
                old = one.lock("x", ttl="10s").__enter__()
                opener.clock.advance("10s")
                outcomes = Race.between(one.lock("x", ttl="10s").__enter__, other.lock("x", ttl="10s").__enter__)
                assert [lock.token for lock in outcomes.won] == [old.token + 1]
                opener.clock.advance("10s")

    def test_waiting_gets_it_when_it_is_released(self, opener: Opener) -> None:
        with opener() as a, opener() if opener.shared else a as b:
            one, other = a.session("s"), b.session("s")
            held = one.lock("x").__enter__()

            def release() -> None:
                held.__exit__(None, None, None)

            outcomes = Race.between(other.lock("x", wait="30s").__enter__, release)
            assert outcomes.refused == []
            assert outcomes[0].token == 2

    def test_waiting_ends(self, opener: Opener) -> None:
        with opener(actor="alice") as store:
            session = store.session("s")
            with session.lock("x") as lock:
                with pytest.raises(TimedOut) as late:
                    session.lock("x", wait=0.001).__enter__()
                assert late.value.facts["holder"].startswith("alice@")
                assert late.value.facts["deadline"] == lock.deadline

    def test_a_lock_that_was_not_entered_says_so(self, opener: Opener) -> None:
        with opener() as store:
            lock = (store.session("s")).lock("x")
            with pytest.raises(Refused):
                _ = lock.token

    @pytest.mark.parametrize(
        ("name", "options", "path"),
        [
            ("", {}, "name"),
            ("a\0", {}, "name"),
            ("x", {"ttl": "never"}, "ttl"),
            ("x", {"ttl": 0}, "ttl"),
            ("x", {"ttl": 10**12}, "ttl"),
            ("x", {"wait": "long"}, "wait"),
        ],
    )
    def test_bad_input_is_refused_with_its_path(
        self, opener: Opener, name: str, options: dict[str, Any], path: str
    ) -> None:
        with opener() as store:
            session = store.session("s")
            with pytest.raises(Invalid) as refused:
                session.lock(name, **options).__enter__()
            assert refused.value.path == path

    def test_scopes_have_locks_of_their_own(self, opener: Opener) -> None:
        with opener() as store:
            session, scope = store.session("s"), store.scope("s")
            with session.lock("'; DROP TABLE locks; --"), scope.lock("'; DROP TABLE locks; --") as lock:
                lock.check()

    def test_nothing_waits_inside_atomic(self, opener: Opener) -> None:
        def inside(tx: Any) -> None:
            with tx.session("s").lock("x", wait="5s"):
                pass

        with opener() as store:
            session = store.session("s")
            store.atomic(inside)
            with session.lock("x"):
                with pytest.raises(Refused) as refused:
                    store.atomic(inside)
                assert refused.value.path == "wait"
